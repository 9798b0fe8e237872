// The reserve: prompts that were handed out and set aside, so that a group that fails for good can
// be replaced in the very step that it was stamped for. A spare has no stamp until it takes the
// place of a dropped group; from then on it is an ADMITTED group like any other.
#include "actors/sampler/sampler_state.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir {

namespace {

group_id oldest_of(const reserve_map& reserve) {
  ensure(!reserve.empty(), "there is a spare");
  group_id oldest;
  reserve.for_each([&oldest](std::uint64_t key, const auto&) {
    oldest = group_id(key);
    return false;
  });
  return oldest;
}

} // namespace

result<std::uint64_t> sampler_state::divert(std::span<const group_reservation> groups,
                                            event_stream& events, std::uint64_t transaction) {
  if (groups.empty()) return failure(errc::invalid_argument, "there is no prompt to set aside");
  if (auto fine = check_new_groups(groups); !fine) return failure(fine.error());
  for (const group_reservation& spare : groups) {
    group_event what =
        event_of(record_of(spare), group_state::none, group_state::in_reserve, transaction);
    what.sample = spare.sample;
    events.append(what);
    image_.set_aside(spare);
  }
  return spares();
}

result<std::vector<ledger_record>> sampler_state::drain(std::uint64_t admission,
                                                        std::uint64_t count, event_stream& events,
                                                        std::uint64_t transaction) {
  if (admission < image_.next_admission && !reserved_.contains(admission))
    return failure(errc::conflict, "admission " + std::to_string(admission) +
                                       " was used already; the next one is " +
                                       std::to_string(image_.next_admission));
  std::vector<ledger_record> drained;
  while (drained.size() < count && !image_.reserve.empty()) {
    ledger_record record = record_of(image_.take_spare(oldest_of(image_.reserve)));
    record.admission = admission;
    events.append(event_of(record, group_state::in_reserve, group_state::reserved, transaction));
    reserved_[admission].insert(record.group);
    image_.put(record);
    drained.push_back(std::move(record));
  }
  if (!drained.empty()) image_.next_admission = std::max(image_.next_admission, admission + 1);
  return drained;
}

bool sampler_state::replaceable(const ledger_record& record) const {
  return limits_.replace_dropped_prompts && record.target_step >= 0 && !image_.reserve.empty() &&
         record.replacements < limits_.max_replacement_attempts;
}

/// A place may be older than the window in force (its stamp was given anew on a resume): whoever
/// takes it now starts on weights that keep it within that window.
weight_version sampler_state::earliest_start(std::int64_t target_step,
                                             weight_version admission_version) const {
  const auto window = static_cast<std::int64_t>(image_.window);
  const auto oldest = static_cast<std::uint64_t>(std::max<std::int64_t>(target_step - window, 0));
  return std::max(admission_version, weight_version(oldest));
}

result<std::optional<replacement_outcome>> sampler_state::replace(group_id group,
                                                                  drop_reason reason,
                                                                  event_stream& events,
                                                                  std::uint64_t transaction) {
  const ledger_record* found = image_.find(group);
  if (found == nullptr) return std::nullopt;
  if (found->phase == group_phase::reserved)
    return failure(errc::conflict, "group " + std::to_string(group.value) +
                                       " is reserved and has no place in a step");
  if (!replaceable(*found)) {
    const auto dropped = drop(std::span(&group, 1), reason, events, transaction);
    if (!dropped) return failure(dropped.error());
    return replacement_outcome{};
  }
  if (auto fine = check_budgets(1, reason); !fine) return failure(fine.error());
  const ledger_record place = *found;
  remove(group, reason, events, transaction);
  ledger_record spare = record_of(image_.take_spare(oldest_of(image_.reserve)));
  spare.admission = place.admission;
  spare.phase = group_phase::admitted;
  spare.dispatch_index = place.dispatch_index;
  spare.target_step = place.target_step;
  spare.admission_version = earliest_start(place.target_step, place.admission_version);
  spare.window = image_.window;
  spare.dispatches = 1;
  spare.replacements = place.replacements + 1;
  group_event what = event_of(spare, group_state::in_reserve, group_state::admitted, transaction);
  what.reason = event_reason::restamped;
  if (!policy_->bounds_staleness()) what.window.reset();
  events.append(what);
  ++image_.replaced_prompt_groups;
  image_.put(spare);
  return replacement_outcome{std::move(spare)};
}

result<ledger_record> sampler_state::repay(group_id group, const lent_stamp& stamp,
                                           event_stream& events, std::uint64_t transaction) {
  const ledger_record* found = image_.find(group);
  const std::string name = "group " + std::to_string(group.value);
  if (found == nullptr) return failure(errc::not_found, name + " is not in the ledger");
  if (found->replacements == 0)
    return failure(errc::conflict, name + " took nobody's place and owes nothing");
  ledger_record record = *found;
  record.dispatch_index = stamp.dispatch_index;
  record.target_step = stamp.target_step;
  record.admission_version = earliest_start(stamp.target_step, stamp.admission_version);
  group_event what = event_of(record, group_state::admitted, group_state::admitted, transaction);
  what.reason = event_reason::restamped;
  if (!policy_->bounds_staleness()) what.window.reset();
  events.append(what);
  ++image_.promoted_prompt_groups;
  image_.put(record);
  return record;
}

} // namespace weir
