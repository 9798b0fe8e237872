#include "actors/audit/audit_history.hpp"

#include "messages/limits.hpp"

#include <algorithm>

namespace weir::detail {

namespace {

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

std::string name_of(const sample_id& sample) {
  return std::to_string(sample.epoch) + "/" + std::to_string(sample.position);
}

std::string text_of(std::string_view word) {
  return std::string(word);
}

/// Modulo 2^64 and 2^128: a wrong log may take out what was never added, and is reported, not
/// fatal.
void take_out(group_tally& tally, const group_tally& part) {
  tally.sum_high -= part.sum_high + (tally.sum_low < part.sum_low ? 1 : 0);
  tally.sum_low -= part.sum_low;
  tally.count -= part.count;
}

enum class writer : std::uint8_t { nobody, ledger, data_plane };

/// Who makes a transition; nobody: it is not legal.
writer writer_of(group_state from, group_state to) {
  using enum group_state;
  switch (from) {
  case none:
    return to == reserved || to == in_reserve ? writer::ledger : writer::nobody;
  case reserved:
    return to == admitted || to == dropped || to == in_reserve ? writer::ledger : writer::nobody;
  case in_reserve:
    return to == reserved || to == admitted || to == dropped ? writer::ledger : writer::nobody;
  case admitted:
    if (to == ready) return writer::data_plane;
    return to == admitted || to == dropped || to == reserved ? writer::ledger : writer::nobody;
  case ready:
    if (to == admitted || to == reserved) return writer::ledger;
    return to == ready || to == claimed || to == dropped ? writer::data_plane : writer::nobody;
  case claimed:
    return to == ready || to == consumed ? writer::data_plane : writer::nobody;
  case consumed:
  case dropped:
    break;
  }
  return writer::nobody;
}

} // namespace

group_history::mark group_history::here() const {
  return {.saved = totals_, .undo_size = undo_.size(), .consumed_size = consumed_.size()};
}

void group_history::go_back(const mark& to) {
  ensure(undo_.size() >= to.undo_size, "marks are gone back to in reverse order");
  while (undo_.size() > to.undo_size) {
    auto& [group, before] = undo_.back();
    if (before)
      groups_[group] = *before;
    else
      groups_.erase(group);
    undo_.pop_back();
  }
  consumed_.resize(to.consumed_size);
  totals_ = to.saved;
}

void group_history::problem(const event_place& place, audit_rule rule, std::string text) {
  problems_->add(place.file, place.line, rule, std::move(text));
}

group_history::group_record& group_history::change(group_id group) {
  const auto [known, is_new] = groups_.try_emplace(group);
  undo_.emplace_back(group, is_new ? std::nullopt : std::optional(known->second));
  return known->second;
}

void group_history::apply(const event_place& place, std::string_view owner,
                          const group_event& what) {
  group_record& record = change(what.group);
  check_transition(place, owner, what, record);
  if (what.sample) check_sample(place, what, record);
  note_fields(what, record);
  check_versions(place, what, record);
  if (what.to == group_state::claimed || what.to == group_state::consumed)
    check_claim(place, what, record);
  move(what, record);
  record.place = place;
}

void group_history::check_transition(const event_place& place, std::string_view owner,
                                     const group_event& what, const group_record& before) {
  const auto change = [&what] {
    return text_of(to_string(what.from)) + " -> " + text_of(to_string(what.to));
  };
  if (what.from != before.state) {
    const std::string group = name_of(what.group);
    std::string text = group + " is " + text_of(to_string(before.state)) + ", not " +
                       text_of(to_string(what.from)) + " (" + change() + ")";
    if (before.state == group_state::consumed && what.to == group_state::consumed)
      text = group + " is consumed twice";
    if (before.place.line != 0)
      text += "; before: " + text_of(before.place.file) + ":" + std::to_string(before.place.line);
    problem(place, audit_rule::ownership, std::move(text));
  }
  const writer who = writer_of(what.from, what.to);
  if (who == writer::nobody)
    problem(place, audit_rule::ownership,
            name_of(what.group) + ": " + change() + " is no legal transition");
  else
    check_owner(place, owner, what, who == writer::ledger);

  const bool is_undone = what.to == group_state::reserved && what.from != group_state::none &&
                         what.from != group_state::in_reserve;
  if (is_undone && what.reason != event_reason::not_restored)
    problem(place, audit_rule::ownership,
            name_of(what.group) + ": " + change() + " is for a buffer that is not restored");

  const bool is_drop = what.to == group_state::dropped;
  if (is_drop && (what.reason == event_reason::none || what.reason > event_reason::poisoned))
    problem(place, audit_rule::ownership,
            name_of(what.group) + " is dropped without a reason for a drop");
}

void group_history::check_owner(const event_place& place, std::string_view owner,
                                const group_event& what, bool is_ledger) {
  std::string& known = is_ledger ? totals_.ledger_owner : totals_.data_owner;
  const std::string& other = is_ledger ? totals_.data_owner : totals_.ledger_owner;
  if (known.empty() && owner != other) known = owner;
  if (owner != known)
    problem(place, audit_rule::ownership,
            name_of(what.group) + ": " + text_of(to_string(what.from)) + " -> " +
                text_of(to_string(what.to)) + " is written by " + text_of(owner) +
                ", such transitions are " +
                (known.empty() ? "not those of " + text_of(owner) : "those of " + known));
}

/// What an event tells for the rest of the group's life.
void group_history::note_fields(const group_event& what, group_record& record) {
  const bool is_stamping = what.reason == event_reason::restamped ||
                           (what.to == group_state::admitted && what.from != what.to);
  if (is_stamping || what.target_step >= 0) record.target_step = what.target_step;
  if (what.admission_version) record.admission_version = what.admission_version;
  const bool is_admission =
      what.to == group_state::admitted &&
      (what.from == group_state::reserved || what.from == group_state::in_reserve);
  // Absent where the sampler promises no bound.
  if (is_admission || what.reason == event_reason::restamped) record.window = what.window;
  if (what.to == group_state::ready && what.from == group_state::admitted) {
    record.start_version = what.start_version;
    record.end_version = what.end_version;
  }
  if (what.to == group_state::reserved) {
    record.target_step = -1;
    record.admission_version.reset();
    record.window.reset();
  }
  if (what.to == group_state::admitted || what.to == group_state::reserved) {
    record.start_version.reset();
    record.end_version.reset();
  }
}

void group_history::check_label(const event_place& place, const group_event& what,
                                const std::optional<weight_version>& version,
                                std::string_view label) {
  if (!version || *version <= totals_.version) return;
  problem(place, audit_rule::versions,
          name_of(what.group) + ": its " + text_of(label) + " version is " +
              std::to_string(version->value) + ", the newest that a step had published is " +
              std::to_string(totals_.version.value));
}

void group_history::check_versions(const event_place& place, const group_event& what,
                                   const group_record& record) {
  check_admission_version(place, what, record);
  check_label(place, what, what.start_version, "start");
  check_label(place, what, what.end_version, "end");
  if (what.to != group_state::ready || what.from != group_state::admitted) return;
  if (!record.start_version || !record.end_version)
    problem(place, audit_rule::versions,
            name_of(what.group) + " is ready without a start and an end version");
  else if (totals_.terms && totals_.terms->oldest_pin)
    check_pin(place, what, record);
  else
    check_made_by(place, what, record);
}

/// An admission bears the version that is live. A stamp that is given anew may demand a later one,
/// so late that its group is no more than its window old when its step trains. Without a step it is
/// for the turn of its batch, of which no event tells.
void group_history::check_admission_version(const event_place& place, const group_event& what,
                                            const group_record& record) {
  if (what.to != group_state::admitted || !what.admission_version) return;
  const bool is_ordinary =
      what.from == group_state::reserved && what.reason != event_reason::restamped;
  if (is_ordinary) return check_label(place, what, what.admission_version, "admission");
  if (!totals_.terms || *what.admission_version <= totals_.version) return;
  if (what.reason == event_reason::restamped && record.target_step < 0) return;
  const std::uint64_t window = record.window.value_or(totals_.terms->window);
  const std::uint64_t demanded = what.admission_version->value + window;
  if (record.target_step >= 0 && demanded <= static_cast<std::uint64_t>(record.target_step)) return;
  problem(place, audit_rule::versions,
          name_of(what.group) + " may start on version " +
              std::to_string(what.admission_version->value) + " at the earliest, for step " +
              std::to_string(record.target_step) + " with a window of " + std::to_string(window));
}

/// A group starts on its admission version or a later one.
void group_history::check_made_by(const event_place& place, const group_event& what,
                                  const group_record& record) {
  const weight_version admission = record.admission_version.value_or(weight_version(0));
  // A log that does not say whether weights were pinned may hold pinned groups.
  const bool may_be_pinned = !totals_.terms && record.target_step >= 0 &&
                             *record.start_version == *record.end_version &&
                             record.start_version->value + record.window.value_or(0) >=
                                 static_cast<std::uint64_t>(record.target_step);
  const bool started_in_time = may_be_pinned || admission <= *record.start_version;
  if (started_in_time && *record.start_version <= *record.end_version) return;
  problem(place, audit_rule::versions,
          name_of(what.group) + ": admission version " + std::to_string(admission.value) +
              ", start version " + std::to_string(record.start_version->value) + ", end version " +
              std::to_string(record.end_version->value) + " are not in this order");
}

/// With pinned weights one version makes a group, and its step says which.
void group_history::check_pin(const event_place& place, const group_event& what,
                              const group_record& record) {
  if (record.target_step < 0) {
    problem(place, audit_rule::versions, name_of(what.group) + " is pinned and has no step");
    return;
  }
  const auto target = static_cast<std::uint64_t>(record.target_step);
  const std::uint64_t window = std::min(totals_.terms->window, target);
  const weight_version pin = std::max(*totals_.terms->oldest_pin, weight_version(target - window));
  if (*record.start_version == pin && *record.end_version == pin) return;
  problem(place, audit_rule::versions,
          name_of(what.group) + " was made by versions " +
              std::to_string(record.start_version->value) + " to " +
              std::to_string(record.end_version->value) + ", and step " + std::to_string(target) +
              " with a window of " + std::to_string(totals_.terms->window) + " pins it to " +
              std::to_string(pin.value));
}

void group_history::check_claim(const event_place& place, const group_event& what,
                                const group_record& record) {
  const std::string group = name_of(what.group);
  const bool is_claim = what.to == group_state::claimed;
  const std::int64_t step = what.step >= 0 || is_claim ? what.step : record.claimed_step;
  if (record.target_step >= 0 && step != record.target_step)
    problem(place, audit_rule::staleness,
            group + " is trained in step " + std::to_string(step) + ", stamped for " +
                std::to_string(record.target_step));
  if (!is_claim) {
    if (step != record.claimed_step)
      problem(place, audit_rule::ownership,
              group + " is consumed by step " + std::to_string(step) + ", claimed by " +
                  std::to_string(record.claimed_step));
    return;
  }
  if (!what.trainer_version) {
    problem(place, audit_rule::versions, group + " is claimed without the trainer's version");
    return;
  }
  const weight_version version = *what.trainer_version;
  if (version != totals_.version)
    problem(place, audit_rule::versions,
            group + " is claimed at version " + std::to_string(version.value) +
                ", the trainer has published " + std::to_string(totals_.version.value));
  const std::uint64_t start = record.start_version.value_or(version).value;
  const std::uint64_t staleness = version.value >= start ? version.value - start : 0;
  if (record.window && staleness > *record.window)
    problem(place, audit_rule::staleness,
            group + " is " + std::to_string(staleness) + " versions stale, its window is " +
                std::to_string(*record.window));
}

void group_history::check_sample(const event_place& place, const group_event& what,
                                 group_record& record) {
  if (record.sample && *record.sample != *what.sample)
    problem(place, audit_rule::ownership,
            name_of(what.group) + " is sample " + name_of(*what.sample) +
                ", it was handed out as sample " + name_of(*record.sample));
  record.sample = what.sample;
}

void group_history::move(const group_event& what, group_record& record) {
  const group_tally one = tally_of(what.group);
  if (record.state != group_state::none) take_out(totals_.tallies.of(record.state), one);
  if (what.to != group_state::none) totals_.tallies.of(what.to) += one;
  if (record.state == group_state::claimed) totals_.claimed.erase(what.group);
  if (what.to == group_state::claimed) {
    record.claimed_step = what.step;
    record.claimed_version = what.trainer_version.value_or(totals_.version);
    totals_.claimed[what.group] = record.claimed_version;
  }
  if (what.to == group_state::dropped) ++totals_.dropped[static_cast<std::size_t>(what.reason)];
  if (what.to == group_state::consumed) {
    consumed_.push_back(what.group);
    const std::uint64_t start = record.start_version.value_or(record.claimed_version).value;
    totals_.staleness_max =
        std::max(totals_.staleness_max,
                 record.claimed_version.value - std::min(start, record.claimed_version.value));
    totals_.newest_consumed =
        std::max(totals_.newest_consumed, std::optional(record.claimed_version));
  }
  record.state = what.to;
}

void group_history::apply(const event_place& place, std::string_view /*owner*/,
                          const handed_out_event& what) {
  if (what.count == 0 || what.count > limits::groups_per_step_max) {
    problem(place, audit_rule::ownership,
            "a batch of " + std::to_string(what.count) + " groups was handed out");
    return;
  }
  if (what.first != totals_.next_group)
    problem(place, audit_rule::ownership,
            name_of(what.first) + " is handed out, the next one is " +
                std::to_string(totals_.next_group.value) +
                (what.first < totals_.next_group ? ": doubled" : ": skipped"));
  check_sample(place, what);
  totals_.tallies.handed_out += tally_of_range(what.first, what.count);
  for (std::uint64_t index = 0; index < what.count; ++index) {
    group_record& record = change(group_id(what.first.value + index));
    record.sample = {.epoch = what.sample.epoch, .position = what.sample.position + index};
  }
  totals_.next_group = group_id(what.first.value + what.count);
  totals_.newest_sample = {.epoch = what.sample.epoch,
                           .position = what.sample.position + what.count - 1};
}

/// Each sample of an epoch once, in order, and every epoch as long as the first.
void group_history::check_sample(const event_place& place, const handed_out_event& what) {
  const sample_id& sample = what.sample;
  if (totals_.newest_sample) {
    const sample_id& newest = *totals_.newest_sample;
    const bool is_next = sample.epoch == newest.epoch && sample.position == newest.position + 1;
    const bool is_edge = sample.epoch == newest.epoch + 1 && sample.position == 0;
    if (!is_next && !is_edge)
      problem(place, audit_rule::ownership,
              "sample " + name_of(sample) + " follows sample " + name_of(newest));
    if (is_edge) {
      const std::uint64_t length = newest.position + 1;
      if (totals_.epoch_length.value_or(length) != length)
        problem(place, audit_rule::ownership,
                "epoch " + std::to_string(newest.epoch) + " had " + std::to_string(length) +
                    " samples, an earlier one " + std::to_string(*totals_.epoch_length));
      totals_.epoch_length = totals_.epoch_length.value_or(length);
    }
  }
  if (totals_.epoch_length && sample.position + what.count > *totals_.epoch_length)
    problem(place, audit_rule::ownership,
            "sample " + name_of({sample.epoch, sample.position + what.count - 1}) +
                " is handed out, epochs have " + std::to_string(*totals_.epoch_length));
}

void group_history::apply(const event_place& place, std::string_view /*owner*/,
                          const step_finished_event& what) {
  if (what.version != totals_.version.next())
    problem(place, audit_rule::versions,
            "step " + std::to_string(what.step) + " makes version " +
                std::to_string(what.version.value) + " of version " +
                std::to_string(totals_.version.value));
  totals_.version = what.version;
  ++totals_.steps_finished;
}

void group_history::check_cut(const event_place& place, const cut_event& cut) {
  const auto compare = [&](std::string_view name, const group_tally& said,
                           const group_tally& events) {
    if (said != events)
      problem(place, audit_rule::conservation,
              "cut " + to_string(cut.epoch) + ": " + text_of(name) + ": the owners said " +
                  to_string(said) + ", their events say " + to_string(events));
  };
  group_tally accounted;
  compare("handed out", cut.tallies.handed_out, totals_.tallies.handed_out);
  for (std::size_t index = 1; index < group_states; ++index) {
    const group_tally& events = totals_.tallies.in_state[index];
    compare(to_string(static_cast<group_state>(index)), cut.tallies.in_state[index], events);
    accounted += events;
  }
  if (accounted != totals_.tallies.handed_out)
    problem(place, audit_rule::conservation,
            "cut " + to_string(cut.epoch) + ": handed out " +
                to_string(totals_.tallies.handed_out) + ", accounted for " + to_string(accounted));

  check_step_is_whole(place, cut.epoch);
}

/// The trainer's state and the consumption of its groups are one transaction.
void group_history::check_step_is_whole(const event_place& place, epoch_id epoch) {
  if (totals_.newest_consumed && *totals_.newest_consumed >= totals_.version)
    problem(place, audit_rule::conservation,
            "cut " + to_string(epoch) + ": groups claimed at version " +
                std::to_string(totals_.newest_consumed->value) +
                " are consumed, and the step that trained on them is not finished");
  for (const auto& [group, version] : totals_.claimed)
    if (version < totals_.version)
      problem(place, audit_rule::conservation,
              "cut " + to_string(epoch) + ": " + name_of(group) +
                  " is still claimed, and the step that trained on it, at version " +
                  std::to_string(version.value) + ", is finished");
}

void group_history::restore() {
  const auto returned = std::exchange(totals_.claimed, {});
  for (const auto& [group, version] : returned) {
    group_record& record = change(group);
    record.state = group_state::ready;
    record.claimed_step = -1;
  }
  totals_.tallies.of(group_state::ready) += totals_.tallies.of(group_state::claimed);
  totals_.tallies.of(group_state::claimed) = {};
}

void group_history::check_end(const event_place& place, finish_reason reason) {
  if (reason == finish_reason::stopped || reason == finish_reason::failed) return;
  const auto leak = [&](std::string_view state, std::uint64_t count) {
    if (count == 0) return;
    problem(place, audit_rule::leak,
            "the run ended (" + text_of(to_string(reason)) + ") with " + std::to_string(count) +
                " groups " + text_of(state));
  };
  using enum group_state;
  std::uint64_t accounted = 0;
  for (std::size_t index = 1; index < group_states; ++index) {
    const auto state = static_cast<group_state>(index);
    const std::uint64_t count = totals_.tallies.in_state[index].count;
    accounted += count;
    if (state == consumed || state == dropped) continue;
    if (state == claimed || reason == finish_reason::end_of_data) leak(to_string(state), count);
  }
  if (accounted != totals_.tallies.handed_out.count)
    problem(place, audit_rule::leak,
            "the run ended with " + std::to_string(totals_.tallies.handed_out.count) +
                " groups handed out and " + std::to_string(accounted) + " accounted for");
}

void group_history::total(audit_report& report) const {
  report.handed_out = totals_.tallies.handed_out.count;
  std::uint64_t accounted = 0;
  for (std::size_t index = 1; index < group_states; ++index) {
    report.in_state[index] = totals_.tallies.in_state[index].count;
    accounted += report.in_state[index];
  }
  report.in_state[0] = report.handed_out - std::min(accounted, report.handed_out);
  report.dropped = totals_.dropped;
  report.steps_finished = totals_.steps_finished;
  report.staleness_max = totals_.staleness_max;
  report.consumed = consumed_;
}

} // namespace weir::detail
