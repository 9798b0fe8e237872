#include "actors/sampler/sampler_state.hpp"

#include "actors/sampler/checked_policy.hpp"
#include "messages/limits.hpp"
#include "messages/rule.hpp"

#include <string>
#include <utility>

namespace weir {

namespace {

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

bool counts_as_skipped(drop_reason reason) {
  return reason == drop_reason::data_failure || reason == drop_reason::poisoned;
}

} // namespace

group_event event_of(const ledger_record& record, group_state from, group_state to,
                     std::uint64_t transaction) {
  group_event what{.group = record.group, .from = from, .to = to};
  what.attempt = record.content_attempt;
  what.transaction = transaction;
  if (record.phase == group_phase::admitted) {
    what.target_step = record.target_step;
    what.admission_version = record.admission_version;
    what.window = record.window;
  }
  return what;
}

std::optional<drop_reason> spent(const ledger_record& record, const failure_limits& limits) {
  if (record.phase != group_phase::admitted) return std::nullopt;
  if (record.infra_attempts >= limits.max_infra_attempts_per_prompt)
    return drop_reason::infra_failure;
  if (record.data_attempts < limits.max_data_attempts_per_prompt) return std::nullopt;
  // Only a group that was dispatched too often starts counting its dispatches again at a load.
  return record.dispatches <= 1 ? drop_reason::poisoned : drop_reason::data_failure;
}

sampler_state::sampler_state(std::shared_ptr<const sampler_policy> policy,
                             std::uint64_t groups_per_step, failure_limits limits)
    : policy_(std::move(policy)), limits_(limits) {
  ensure(policy_ != nullptr, "a sampler has a policy");
  ensure(groups_per_step >= 1, "a step has at least one group");
  ensure(groups_per_step <= limits::groups_per_step_max, "a step has a bounded number of groups");
  image_.sampler = policy_->name();
  image_.window = policy_->window();
  image_.groups_per_step = groups_per_step;
  image_.stamps = policy_->stamps();
}

result<void> sampler_state::check_reservations(std::uint64_t admission,
                                               std::span<const group_reservation> groups) const {
  if (groups.empty())
    return failure(errc::invalid_argument,
                   "admission " + std::to_string(admission) + ": there is no group to reserve");
  if (admission < image_.next_admission && !reserved_.contains(admission))
    return failure(errc::conflict, "admission " + std::to_string(admission) +
                                       " was used already; the next one is " +
                                       std::to_string(image_.next_admission));
  return check_new_groups(groups);
}

result<void> sampler_state::check_new_groups(std::span<const group_reservation> groups) const {
  std::set<group_id> seen;
  for (const group_reservation& one : groups) {
    if (one.siblings == 0 || one.siblings > limits::siblings_per_group_max)
      return failure(errc::invalid_argument,
                     name_of(one.group) + ": " + std::to_string(one.siblings) + " siblings");
    if (!seen.insert(one.group).second)
      return failure(errc::invalid_argument, name_of(one.group) + " is reserved twice at once");
    if (image_.find(one.group) != nullptr)
      return failure(errc::conflict, name_of(one.group) + " is in the ledger already");
    if (image_.reserve.contains(one.group.value))
      return failure(errc::conflict, name_of(one.group) + " is in the reserve already");
  }
  return {};
}

result<std::uint64_t> sampler_state::reserve(std::uint64_t admission,
                                             std::span<const group_reservation> groups,
                                             event_stream& events, std::uint64_t transaction) {
  if (auto fine = check_reservations(admission, groups); !fine) return failure(fine.error());
  for (const group_reservation& one : groups) {
    ledger_record record = record_of(one);
    record.admission = admission;
    group_event what = event_of(record, group_state::none, group_state::reserved, transaction);
    what.sample = one.sample;
    events.append(what);
    reserved_[admission].insert(one.group);
    image_.put(std::move(record));
  }
  if (admission >= image_.next_admission) image_.next_admission = admission + 1;
  return static_cast<std::uint64_t>(image_.ledger.size());
}

result<bool> sampler_state::may_admit() const {
  return policy_->admits(image_.dispatch_index, image_.live_version);
}

std::string sampler_state::shut_gate() const {
  if (reserved_.empty() || image_.admitted.count > 0) return {};
  const auto open = may_admit();
  if (!open || *open) return {}; // What is wrong with it is an error of the admission.
  return title_of(*policy_) + " keeps batch " + std::to_string(next_dispatch_index()) +
         " waiting at version " + std::to_string(image_.live_version.value);
}

result<admission_outcome> sampler_state::admit(std::uint64_t admission, event_stream& events,
                                               std::uint64_t transaction) {
  const auto batch = reserved_.find(admission);
  if (batch == reserved_.end())
    return failure(errc::not_found,
                   "admission " + std::to_string(admission) + " has no reserved group");
  const std::uint64_t wanted = image_.groups_per_step;
  if (policy_->stamps() && batch->second.size() < wanted)
    return failure(errc::conflict, "admission " + std::to_string(admission) + " has " +
                                       std::to_string(batch->second.size()) + " of " +
                                       std::to_string(wanted) +
                                       " groups of a step: fill it up or drop it");
  // The gate may have closed since the wait ended; then nothing has happened.
  const auto open = may_admit();
  if (!open) return failure(open.error());
  if (!*open && enforced(rule::gate_rechecked_under_lease)) return admission_outcome{};
  const auto target = policy_->stamp(next_dispatch_index());
  if (!target) return failure(target.error());
  admission_outcome outcome;
  outcome.admitted = true;
  outcome.dispatch_index = ++image_.dispatch_index;
  outcome.target_step = *target;
  outcome.admission_version = image_.live_version;
  outcome.window = policy_->window();
  std::set<group_id> tail = std::move(batch->second);
  reserved_.erase(batch);
  while (!tail.empty() && outcome.groups.size() < wanted) {
    ledger_record record = *image_.find(*tail.begin());
    record.phase = group_phase::admitted;
    record.dispatch_index = outcome.dispatch_index;
    record.target_step = outcome.target_step;
    record.admission_version = outcome.admission_version;
    record.window = outcome.window;
    record.dispatches = 1;
    group_event what = event_of(record, group_state::reserved, group_state::admitted, transaction);
    if (!policy_->bounds_staleness()) what.window.reset();
    events.append(what);
    outcome.groups.push_back(record.group);
    image_.put(std::move(record));
    tail.erase(tail.begin());
  }
  if (tail.empty()) return outcome;
  outcome.tail_admission = image_.next_admission++;
  for (const group_id group : tail) {
    ledger_record record = *image_.find(group);
    record.admission = *outcome.tail_admission;
    image_.put(std::move(record));
  }
  reserved_.emplace(*outcome.tail_admission, std::move(tail));
  return outcome;
}

result<std::optional<release_outcome>> sampler_state::release(group_id group,
                                                              std::uint32_t content_attempt) {
  const ledger_record* record = image_.find(group);
  if (record == nullptr) return std::nullopt;
  if (record->phase == group_phase::reserved)
    return failure(errc::conflict, name_of(group) + " is reserved and was never admitted");
  // A late commit of an attempt that was given up: its rows go, the group stays.
  if (record->content_attempt != content_attempt) return std::nullopt;
  release_outcome outcome{.sample = record->sample,
                          .dispatch_index = record->dispatch_index,
                          .target_step = record->target_step,
                          .admission_version = record->admission_version,
                          .window = record->window};
  image_.erase(group);
  image_.consecutive_dropped = 0;
  return outcome;
}

result<void> sampler_state::check_budgets(std::uint64_t groups, drop_reason reason) const {
  const auto spend = [&](std::uint64_t before, std::uint64_t most,
                         const std::string& key) -> result<void> {
    if (before + groups <= most) return {};
    return failure(errc::exhausted,
                   std::to_string(groups) + " more dropped (" + std::string(to_string(reason)) +
                       ") after " + std::to_string(before) + " exceed rollout_failure." + key +
                       " (" + std::to_string(most) + "): find out why they fail, or raise it");
  };
  if (counts_as_skipped(reason))
    return spend(image_.skipped_prompts, limits_.max_skipped_prompts, "max_skipped_prompts");
  if (reason == drop_reason::infra_failure)
    return spend(image_.consecutive_dropped, limits_.max_consecutive_dropped_prompts,
                 "max_consecutive_dropped_prompts");
  return {};
}

result<void>
sampler_state::check_floor(const std::map<std::uint64_t, std::uint64_t>& losses) const {
  const std::uint64_t floor = step_groups_floor(image_.groups_per_step, limits_);
  for (const auto& [step, lost] : losses) {
    const std::uint64_t left = target(step) - lost;
    if (left < floor)
      return failure(errc::exhausted,
                     "step " + std::to_string(step) + " would keep " + std::to_string(left) +
                         " of " + std::to_string(image_.groups_per_step) +
                         " groups, fewer than the " + std::to_string(floor) +
                         " of rollout_failure.min_step_batch_fraction: find out why they are "
                         "dropped, or lower it");
  }
  return {};
}

result<std::vector<group_id>> sampler_state::drop(std::span<const group_id> groups,
                                                  drop_reason reason, event_stream& events,
                                                  std::uint64_t transaction) {
  std::set<group_id> present;
  std::map<std::uint64_t, std::uint64_t> losses;
  for (const group_id group : groups) {
    const ledger_record* record = image_.find(group);
    if (record == nullptr || !present.insert(group).second) continue;
    if (record->target_step >= 0) ++losses[static_cast<std::uint64_t>(record->target_step)];
  }
  if (auto fine = check_budgets(present.size(), reason); !fine) return failure(fine.error());
  if (reason != drop_reason::end_of_data)
    if (auto fine = check_floor(losses); !fine) return failure(fine.error());
  for (const group_id group : present)
    remove(group, reason, events, transaction);
  for (const auto& [step, lost] : losses)
    image_.shortfalls.insert_or_assign(step, image_.groups_per_step - target(step) + lost);
  return std::vector<group_id>(present.begin(), present.end());
}

void sampler_state::remove(group_id group, drop_reason reason, event_stream& events,
                           std::uint64_t transaction) {
  const ledger_record& record = *image_.find(group);
  const bool reserved = record.phase == group_phase::reserved;
  group_event what = event_of(record, reserved ? group_state::reserved : group_state::admitted,
                              group_state::dropped, transaction);
  what.reason = event_reason_of(reason);
  events.append(what);
  if (reserved) {
    const auto batch = reserved_.find(record.admission);
    batch->second.erase(group);
    if (batch->second.empty()) reserved_.erase(batch);
  }
  image_.dropped.add(reason, group);
  if (counts_as_skipped(reason)) ++image_.skipped_prompts;
  if (reason == drop_reason::infra_failure) ++image_.consecutive_dropped;
  image_.erase(group);
}

result<std::optional<failure_outcome>> sampler_state::record_failure(group_id group,
                                                                     failure_kind kind,
                                                                     event_stream& events,
                                                                     std::uint64_t transaction) {
  const ledger_record* found = image_.find(group);
  if (found == nullptr) return std::nullopt;
  if (found->phase == group_phase::reserved)
    return failure(errc::conflict, name_of(group) + " is reserved and was never dispatched");
  ledger_record record = *found;
  failure_outcome outcome;
  if (kind == failure_kind::infra) {
    ++record.infra_attempts;
    outcome.retry = record.infra_attempts < limits_.max_infra_attempts_per_prompt;
    if (outcome.retry) outcome.backoff_ns = backoff_after(record.infra_attempts, limits_);
  } else {
    // Fresh samples; waiting cannot help a prompt that is at fault itself.
    ++record.data_attempts;
    ++record.content_attempt;
    outcome.retry = record.data_attempts < limits_.max_data_attempts_per_prompt;
  }
  outcome.content_attempt = record.content_attempt;
  group_event what = event_of(record, group_state::admitted, group_state::admitted, transaction);
  what.reason = event_reason::retry;
  events.append(what);
  image_.put(std::move(record));
  return outcome;
}

bool sampler_state::version_live(weight_version version) {
  if (version <= image_.live_version) return false;
  image_.live_version = version;
  return true;
}

std::uint64_t sampler_state::target(std::uint64_t step) const {
  const std::uint64_t* shortfall = image_.shortfalls.find(step);
  return image_.groups_per_step - (shortfall == nullptr ? 0 : *shortfall);
}

void sampler_state::settle(std::uint64_t step) {
  image_.shortfalls.erase(step);
}

std::vector<ledger_record> sampler_state::unfinished() const {
  return in_dispatch_order(image_.ledger);
}

result<sampler_restored> sampler_state::load(const sampler_image& image) {
  if (!image_.ledger.empty() || !image_.reserve.empty() || image_.dispatch_index != -1 ||
      image_.next_admission != 0 || image_.dropped.total().count != 0)
    return failure(errc::conflict, "a ledger is loaded only into an empty sampler");
  if (auto fine = check_image(image); !fine) return failure(fine.error());
  if (image.groups_per_step != image_.groups_per_step)
    return failure(errc::invalid_argument,
                   "grpo.num_prompts_per_step is " + std::to_string(image_.groups_per_step) +
                       ", but the bundle was made with " + std::to_string(image.groups_per_step));
  if (image.sampler != image_.sampler || image.window != image_.window ||
      image.stamps != image_.stamps)
    return failure(errc::invalid_argument,
                   "the bundle holds the stamps of sampler " + image.sampler + " with window " +
                       std::to_string(image.window) + "; reconcile them with " + image_.sampler +
                       " before loading");
  image_ = image;
  sampler_restored restored;
  for (ledger_record& record : in_dispatch_order(image.ledger)) {
    // Recovery at group level starts every sibling again; staged rows of siblings are not kept.
    record.sibling_records.clear();
    if (record.phase == group_phase::reserved) {
      ++restored.reserved;
      reserved_[record.admission].insert(record.group);
    } else {
      ++restored.admitted;
      const std::uint32_t most = limits_.max_dispatches_per_attempt;
      if (most > 0 && record.dispatches >= most) {
        // Not a new content attempt: a restart repeats the same tokens.
        ++restored.suspected;
        ++record.data_attempts;
        record.dispatches = 0;
      }
      ++record.dispatches;
    }
    image_.put(std::move(record));
  }
  return restored;
}

void sampler_state::check_invariants() const {
  ensure(check_image(image_).has_value(), "the live ledger is as a bundle must be");
  group_tally reserved;
  group_tally admitted;
  std::uint64_t waiting = 0;
  image_.ledger.for_each([&](std::uint64_t, const std::shared_ptr<const ledger_record>& record) {
    if (record->phase == group_phase::admitted) {
      admitted.add(record->group);
      ensure(record->dispatches >= 1, "an admitted group was dispatched");
      return;
    }
    reserved.add(record->group);
    const auto batch = reserved_.find(record->admission);
    ensure(batch != reserved_.end(), "a reserved group belongs to a batch");
    ensure(batch->second.contains(record->group), "a batch lists its reserved groups");
  });
  for (const auto& [admission, groups] : reserved_) {
    ensure(!groups.empty(), "a batch without a reserved group is forgotten");
    waiting += groups.size();
  }
  ensure(waiting == reserved.count, "batches hold the reserved groups and no other");
  ensure(reserved == image_.reserved, "the tally of reserved groups follows from the ledger");
  ensure(admitted == image_.admitted, "the tally of admitted groups follows from the ledger");
  group_tally spares;
  image_.reserve.for_each([&](std::uint64_t, const std::shared_ptr<const group_reservation>& one) {
    ensure(image_.find(one->group) == nullptr, "a spare is not in the ledger");
    spares.add(one->group);
  });
  ensure(spares == image_.in_reserve, "the tally of the reserve follows from it");
}

} // namespace weir
