#include "actors/rollout/reconcile.hpp"

#include "actors/rollout/drop_replay.hpp"
#include "actors/rollout/reserve_again.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <variant>

namespace weir {

namespace {

tl::unexpected<error> contradiction(const std::string& text) {
  return failure(errc::corrupt, "rollout_recovery.fb and replay_buffer_metadata.fb: " + text +
                                    "; use another bundle");
}

/// What the ledger and the index must agree on before anything is changed.
std::optional<std::string> fault_of(const sampler_image& ledger, const replay_record& record,
                                    weight_version version) {
  const std::string name = "group " + std::to_string(record.group.value) + " ";
  if (record.dispatch_index > ledger.dispatch_index)
    return name + "is of dispatch batch " + std::to_string(record.dispatch_index) +
           ", but the dispatch index is " + std::to_string(ledger.dispatch_index) +
           ", older than its work";
  if (ledger.stamps != (record.target_step >= 0))
    return name + "has a stamp that its sampler does not give";
  if (record.end_version > version)
    return name + "was made by version " + std::to_string(record.end_version.value) +
           ", but the restored weights are version " + std::to_string(version.value);
  return std::nullopt;
}

result<void> check_together(const sampler_image& ledger, const replay_image& replay,
                            weight_version version) {
  if (ledger.live_version > version)
    return contradiction("version " + std::to_string(ledger.live_version.value) +
                         " was live, but the restored weights are version " +
                         std::to_string(version.value));
  std::optional<std::string> fault;
  std::map<std::int64_t, std::uint64_t> groups_of;
  replay.index.for_each([&](std::uint64_t, const std::shared_ptr<const replay_record>& record) {
    fault = fault_of(ledger, *record, version);
    if (record->target_step >= 0) ++groups_of[record->target_step];
    return !fault;
  });
  if (fault) return contradiction(*fault);
  ledger.ledger.for_each([&](std::uint64_t, const std::shared_ptr<const ledger_record>& record) {
    if (record->target_step >= 0 && replay.find(record->group) == nullptr)
      ++groups_of[record->target_step];
  });
  for (const auto& [step, groups] : groups_of)
    if (groups > ledger.groups_per_step)
      return contradiction("step " + std::to_string(step) + " has " + std::to_string(groups) +
                           " groups, more than " + std::to_string(ledger.groups_per_step));
  return {};
}

/// One group in dispatch order, wherever it is.
using unconsumed = std::variant<replay_record, ledger_record>;

std::vector<unconsumed> in_order_of_dispatch(const sampler_image& ledger,
                                             const replay_image& replay) {
  std::vector<unconsumed> groups;
  for (replay_record& record : in_dispatch_order(replay.index))
    groups.emplace_back(std::move(record));
  for (ledger_record& record : in_dispatch_order(ledger.ledger))
    groups.emplace_back(std::move(record));
  const auto key = [](const unconsumed& one) {
    if (const auto* ready = std::get_if<replay_record>(&one))
      return std::tuple(false, ready->dispatch_index, std::uint64_t{0}, ready->group);
    const auto& record = std::get<ledger_record>(one);
    const bool reserved = record.phase == group_phase::reserved;
    return std::tuple(reserved, record.dispatch_index, reserved ? record.admission : 0,
                      record.group);
  };
  std::ranges::sort(groups, {}, key);
  return groups;
}

bool waits_reserved(const unconsumed& one) {
  const auto* record = std::get_if<ledger_record>(&one);
  return record != nullptr && record->phase == group_phase::reserved;
}

bool is_unfinished(const unconsumed& one) {
  return std::holds_alternative<ledger_record>(one);
}

/// Stamps groups anew, batch by batch, in copies of both images.
class restamping {
public:
  restamping(sampler_image ledger, replay_image replay, const sampler_policy& policy,
             weight_version version, reconciled& report)
      : ledger_(std::move(ledger)), replay_(std::move(replay)), policy_(policy), version_(version),
        report_(report), dispatch_index_(static_cast<std::int64_t>(version.value) - 1) {
    ledger_.sampler = policy.name();
    ledger_.window = policy.window();
    ledger_.stamps = policy.stamps();
    ledger_.shortfalls.clear();
  }

  result<void> run() {
    std::vector<unconsumed> groups = in_order_of_dispatch(ledger_, replay_);
    if (!enforced(rule::restamped_on_resume)) std::erase_if(groups, is_unfinished);
    std::erase_if(groups, [this](const unconsumed& one) { return set_stale_aside(one); });
    const std::size_t wanted = ledger_.groups_per_step;
    for (std::size_t at = 0; at < groups.size(); at += wanted) {
      const std::span batch = std::span(groups).subspan(at, std::min(wanted, groups.size() - at));
      // Reserved groups stand last, so a batch whose first group is reserved holds no other.
      if (waits_reserved(batch.front()))
        keep_reserved(batch);
      else if (auto stamped = stamp(batch); !stamped)
        return stamped;
    }
    ledger_.dispatch_index = dispatch_index_;
    return {};
  }

  [[nodiscard]] sampler_image take_ledger() { return std::move(ledger_); }
  [[nodiscard]] replay_image take_replay() { return std::move(replay_); }

private:
  /// What is evicted before any step is no batch: a gate that counts it would wait for its step. It
  /// stands before the first batch until then.
  bool set_stale_aside(const unconsumed& one) {
    const auto* ready = std::get_if<replay_record>(&one);
    if (ready == nullptr || !policy_.evicts_by_weight()) return false;
    if (ready->start_version.value + ready->window >= version_.value) return false;
    stamp_ready(*ready, -1);
    return true;
  }

  /// The gate admits these in order, one batch after the other: the stamps that follow.
  void keep_reserved(std::span<const unconsumed> batch) {
    const std::uint64_t admission = ledger_.next_admission++;
    for (const unconsumed& one : batch) {
      ledger_record record = std::get<ledger_record>(one);
      record.admission = admission;
      ledger_.put(std::move(record));
    }
  }

  result<void> stamp(std::span<const unconsumed> batch) {
    if (!shares_index(batch)) ++dispatch_index_;
    const auto stamped = policy_.stamp(dispatch_index_);
    if (!stamped) return failure(stamped.error());
    const std::int64_t target = *stamped;
    admissions_.clear();
    for (const unconsumed& one : batch) {
      if (const auto* ready = std::get_if<replay_record>(&one))
        stamp(*ready, target);
      else
        stamp(std::get<ledger_record>(one), target);
    }
    if (target < 0 || batch.size() == ledger_.groups_per_step) return {};
    report_.shortfall = ledger_.groups_per_step - batch.size();
    ledger_.shortfalls.insert(static_cast<std::uint64_t>(target), report_.shortfall);
    return {};
  }

  /// Without look-ahead a gate that counts a last batch as a whole one would wait for the step that
  /// it cannot fill: it goes with the one before. A stamped step is trained short instead.
  [[nodiscard]] bool shares_index(std::span<const unconsumed> batch) const {
    return policy_.gated() && !policy_.stamps() && policy_.window() == 0 &&
           batch.size() < ledger_.groups_per_step && dispatch_index_ >= 0;
  }

  void stamp(replay_record record, std::int64_t target) {
    if (too_old(record, target) && record.hash)
      generate_again(record, target);
    else
      stamp_ready(std::move(record), target);
  }

  void stamp_ready(replay_record record, std::int64_t target) {
    report_.groups.push_back(
        {.group = record.group, .target_before = record.target_step, .target_after = target});
    record.dispatch_index = dispatch_index_;
    record.target_step = target;
    group_event what{.group = record.group, .from = group_state::ready, .to = group_state::ready};
    what.reason = event_reason::restamped;
    what.attempt = record.content_attempt;
    what.target_step = target;
    what.admission_version = record.admission_version;
    if (bounded(target) && !too_old(record, target)) what.window = record.window;
    what.start_version = record.start_version;
    what.end_version = record.end_version;
    report_.replay_events.push_back(what);
    replay_.put(std::move(record));
  }

  void stamp(ledger_record record, std::int64_t target) {
    report_.groups.push_back(
        {.group = record.group, .target_before = record.target_step, .target_after = target});
    stamp_unfinished(std::move(record), target);
  }

  void stamp_unfinished(ledger_record record, std::int64_t target) {
    const bool was_reserved = record.phase == group_phase::reserved;
    record.dispatch_index = dispatch_index_;
    record.target_step = target;
    if (was_reserved) {
      record.phase = group_phase::admitted;
      record.window = policy_.window();
      record.admission_version = version_;
    }
    // Weights that are yet to come were demanded by an earlier stamp, which may have been later.
    record.admission_version = std::max(std::min(record.admission_version, version_),
                                        start_from(step_of(target), record.window));
    // A batch may mix groups that were admitted on different terms; an admission may not.
    const auto terms = std::tuple(record.admission_version, record.window);
    const auto known = admissions_.emplace(terms, ledger_.next_admission);
    if (known.second) ++ledger_.next_admission;
    record.admission = known.first->second;
    group_event what{.group = record.group,
                     .from = was_reserved ? group_state::reserved : group_state::admitted,
                     .to = group_state::admitted};
    what.reason = event_reason::restamped;
    what.attempt = record.content_attempt;
    what.target_step = target;
    what.admission_version = record.admission_version;
    const bool promised = was_reserved ? policy_.bounds_staleness() : bounded(target);
    if (promised) what.window = record.window;
    report_.ledger_events.push_back(what);
    ledger_.put(std::move(record));
  }

  /// The rows go, the stamp stays; the next attempt starts on weights that are young enough.
  void generate_again(replay_record ready, std::int64_t target) {
    report_.groups.push_back({.group = ready.group,
                              .target_before = ready.target_step,
                              .target_after = target,
                              .generated_again = true});
    report_.rows.insert(report_.rows.end(), ready.rows.begin(), ready.rows.end());
    replay_.erase(ready.group);
    ledger_record record = unfinished_again(ready);
    record.window = policy_.window();
    group_event what = event_of(record, group_state::ready, group_state::admitted, 0);
    what.reason = event_reason::drop_replay;
    report_.ledger_events.push_back(what);
    stamp_unfinished(std::move(record), target);
  }

  /// Whether a step bounds the staleness of what another sampler admitted: by its stamp, or by
  /// what it evicts.
  [[nodiscard]] bool bounded(std::int64_t target) const {
    return policy_.evicts_by_weight() || (target >= 0 && policy_.bounds_staleness());
  }
  [[nodiscard]] bool too_old(const replay_record& ready, std::int64_t target) const {
    return bounded(target) && ready.start_version < start_from(step_of(target), ready.window);
  }
  /// The step that a group of the batch at hand is for. A gate counts batches: without stamps, too,
  /// one that is evicted before its turn would keep the gate shut, and no step would open it.
  [[nodiscard]] std::int64_t step_of(std::int64_t target) const {
    const bool in_turn = policy_.gated() && policy_.evicts_by_weight();
    return target < 0 && in_turn ? dispatch_index_ : target;
  }
  /// Oldest version that keeps a group within its window of its step. Generation starts at its
  /// admission version or later.
  [[nodiscard]] static weight_version start_from(std::int64_t target, std::uint64_t window) {
    const auto oldest = target - static_cast<std::int64_t>(window);
    return weight_version(static_cast<std::uint64_t>(std::max<std::int64_t>(oldest, 0)));
  }

  sampler_image ledger_;
  replay_image replay_;
  const sampler_policy& policy_;
  weight_version version_;
  reconciled& report_;
  std::int64_t dispatch_index_;
  std::map<std::tuple<weight_version, std::uint64_t>, std::uint64_t> admissions_;
};

/// The data plane wins: what it owns is not in the ledger any more.
void discard_owned(sampler_image& ledger, const replay_image& replay, reconciled& report) {
  replay.index.for_each([&](std::uint64_t, const std::shared_ptr<const replay_record>& record) {
    if (ledger.find(record->group) == nullptr) return;
    report.discarded.push_back(record->group);
    ledger.erase(record->group);
  });
}

} // namespace

result<reconciled> reconcile(sampler_image& ledger, replay_image& replay,
                             const sampler_policy& policy, std::uint64_t groups_per_step,
                             weight_version version, const prompt_lookup& find) {
  if (ledger.groups_per_step != groups_per_step)
    return failure(errc::invalid_argument,
                   "grpo.num_prompts_per_step is " + std::to_string(groups_per_step) +
                       ", but the bundle was made with " + std::to_string(ledger.groups_per_step) +
                       ": set it back, or start over with --fresh");
  if (auto fine = check_image(ledger); !fine) return failure(fine.error());
  if (auto fine = check_image(replay); !fine) return failure(fine.error());
  if (auto fine = check_together(ledger, replay, version); !fine) return failure(fine.error());
  reconciled report;
  report.sampler_before = ledger.sampler;
  report.window_before = ledger.window;
  sampler_image kept = ledger;
  discard_owned(kept, replay, report);
  if (!policy.supports_buffer_checkpoint()) {
    ensure(find != nullptr, "shadow mode looks prompts up");
    replay_image left = replay;
    auto done = reserve_again(kept, left, policy, version, find, report);
    if (!done) return failure(std::move(done.error()));
    ledger = std::move(kept);
    replay = std::move(left);
    return report;
  }
  if (ledger.sampler == policy.name() && ledger.window == policy.window()) {
    ledger = std::move(kept);
    return report;
  }
  report.restamped = true;
  restamping work(std::move(kept), replay, policy, version, report);
  if (auto done = work.run(); !done) return failure(std::move(done.error()));
  ledger = work.take_ledger();
  replay = work.take_replay();
  return report;
}

} // namespace weir
