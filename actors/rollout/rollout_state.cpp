#include "actors/rollout/rollout_state.hpp"

#include <algorithm>
#include <string>

namespace weir {

recovery_plan plan_recovery(std::span<const ledger_record> unfinished, std::uint64_t next_admission,
                            const failure_limits& limits) {
  recovery_plan plan;
  plan.next_admission = next_admission;
  std::vector<ledger_record> ordered(unfinished.begin(), unfinished.end());
  std::ranges::sort(ordered, dispatched_before);
  for (ledger_record& record : ordered) {
    if (const auto reason = spent(record, limits)) {
      plan.spent.push_back({.group = record.group, .reason = *reason});
    } else if (record.phase == group_phase::admitted) {
      plan.dispatch.push_back(std::move(record));
    } else {
      if (plan.readmit.empty() || plan.readmit.back().admission != record.admission)
        plan.readmit.push_back({.admission = record.admission, .groups = {}});
      plan.readmit.back().groups.push_back(record.group);
    }
  }
  return plan;
}

rollout_state::rollout_state(rollout_limits limits)
    : limits_(limits), flights_(limits.inflight_max) {
  ensure(limits.groups_per_step >= 1, "a step has at least one group");
}

void rollout_state::recover(const recovery_plan& plan) {
  ensure(next_admission_ == 0 && running_.empty(), "a plan is taken over before anything else");
  next_admission_ = plan.next_admission;
  spares_ = plan.spares;
  reserved_.assign(plan.readmit.begin(), plan.readmit.end());
  for (const ledger_record& record : plan.dispatch)
    running_.insert(record.group);
  check_invariants();
}

next_supply rollout_state::next_move() const {
  const std::uint64_t wanted = limits_.groups_per_step;
  const bool waiting = !reserved_.empty();
  const std::uint64_t admission = waiting ? reserved_.front().admission : next_admission_;
  const std::uint64_t present = waiting ? reserved_.front().groups.size() : 0;
  if (reserve_is_low())
    return {.move = supply_move::divert, .admission = admission, .groups = wanted};
  if (running_.size() >= limits_.inflight_max + wanted) return {.move = supply_move::wait};
  if (present >= wanted)
    return {.move = supply_move::admit, .admission = admission, .groups = present};
  // Spares of a life that replaced, in one that does not: ordinary prompts again.
  if (limits_.reserve_low == 0 && spares_ > 0)
    return {.move = supply_move::drain,
            .admission = admission,
            .groups = std::min(wanted - present, spares_)};
  if (data_ended_) return at_the_end();
  return {.move = supply_move::reserve, .admission = admission, .groups = wanted - present};
}

/// Spares and a short tail make whole steps as long as there are enough of them. Those that are too
/// few for one stay in the reserve while groups run: each may still replace one.
next_supply rollout_state::at_the_end() const {
  const std::uint64_t wanted = limits_.groups_per_step;
  const bool waiting = !reserved_.empty();
  const std::uint64_t admission = waiting ? reserved_.front().admission : next_admission_;
  const std::uint64_t present = waiting ? reserved_.front().groups.size() : 0;
  const bool whole = present + spares_ >= wanted;
  if (spares_ > 0 && (whole || running_.empty())) {
    const std::uint64_t missing = std::min(wanted - present, spares_);
    return {.move = supply_move::drain, .admission = admission, .groups = missing};
  }
  if (spares_ > 0) return {.move = supply_move::wait};
  if (waiting)
    return {.move = limits_.stamps ? supply_move::drop_remainder : supply_move::admit,
            .admission = admission,
            .groups = present};
  return {.move = running_.empty() ? supply_move::finish : supply_move::wait};
}

void rollout_state::reserved(std::uint64_t admission, std::span<const group_id> groups) {
  ensure(!groups.empty(), "a batch has groups");
  if (!reserved_.empty() && reserved_.front().admission == admission) {
    auto& present = reserved_.front().groups;
    present.insert(present.end(), groups.begin(), groups.end());
    return;
  }
  ensure(reserved_.empty(), "restored batches are admitted before ordinary ones are reserved");
  ensure(admission == next_admission_, "an ordinary batch has the next admission id");
  ++next_admission_;
  reserved_.push_back({.admission = admission, .groups = {groups.begin(), groups.end()}});
}

void rollout_state::admitted(std::uint64_t admission, const admission_outcome& outcome) {
  ensure(outcome.admitted, "a closed gate admits nothing");
  ensure(!reserved_.empty(), "only a reserved batch is admitted");
  reserved_batch& front = reserved_.front();
  ensure(front.admission == admission, "batches are admitted in order");
  for (const group_id group : outcome.groups) {
    ensure(std::erase(front.groups, group) == 1, "only reserved groups are admitted");
    running_.insert(group);
  }
  ensure(front.groups.empty() == !outcome.tail_admission, "a tail has an admission id of its own");
  if (!outcome.tail_admission) {
    reserved_.pop_front();
    return;
  }
  // The tail's prompts are older than those of any later batch, so it stays in front.
  front.admission = *outcome.tail_admission;
  next_admission_ = std::max(next_admission_, *outcome.tail_admission + 1);
}

void rollout_state::dropped_reserved(std::uint64_t admission) {
  ensure(!reserved_.empty() && reserved_.front().admission == admission,
         "only the batch in front is dropped");
  reserved_.pop_front();
}

void rollout_state::finished(group_id group) {
  running_.erase(group);
  end_flight(group);
}

void rollout_state::request_flight(group_id group, std::int64_t dispatch_index) {
  ensure(running_.contains(group), "only an admitted group runs");
  flights_.request(group, dispatch_index);
}

void rollout_state::check_invariants() const {
  ensure(flights_.taken() <= limits_.inflight_max, "rollouts in flight are bounded");
  ensure(flights_.taken() + flights_.waiting() <= running_.size(), "only running groups fly");
  for (const reserved_batch& batch : reserved_) {
    ensure(!batch.groups.empty(), "a reserved batch has groups");
    ensure(batch.admission < next_admission_, "admission ids are given once");
    for (const group_id group : batch.groups)
      ensure(!running_.contains(group), "a reserved group does not run");
  }
}

} // namespace weir
