// Giving up groups in flight whose generation began too long ago.
//
// The sampler's policy proposes, the ledger decides: the entry is removed under a lease, as a
// commit removes it. Whoever comes second finds none, and changes nothing. Only then are the
// group's coroutines cancelled, which tells its generator, and replay drops its rows and frees its
// slot. A commit or a failure of the same group that is under way meanwhile is a transaction of its
// own and ends as such.
#include "actors/rollout/rollout.hpp"
#include "actors/runtime/failpoint.hpp"

#include <utility>

namespace weir {

task<void> rollout::give_up_stale() {
  auto request = pack(AwaitStaleT());
  while (true) {
    auto proposed = co_await peers_.replay.ask(request, within(options_.gate_timeout));
    if (!proposed && proposed.error().code == errc::timed_out) continue;
    if (!proposed) {
      fail(std::move(proposed.error()));
      co_return;
    }
    std::vector<group_id> groups;
    if ((*proposed)->groups() != nullptr)
      for (const std::uint64_t group : *(*proposed)->groups())
        groups.emplace_back(group);
    for (const group_id group : groups) {
      auto done = co_await shielded(abort(group));
      if (!done) {
        fail(std::move(done.error()));
        co_return;
      }
      // One that was committed first is still in flight for replay until the commit gets there.
      while (state_.running().contains(group))
        co_await group_ended_.raised();
    }
  }
}

/// One lease. Nothing if the group ended meanwhile: its ledger entry is gone.
task<result<void>> rollout::abort(group_id group) {
  auto lease = co_await mutations().enter();
  co_await failpoint("rollout.aborting");
  DropGroupsT want;
  want.groups.push_back(group.value);
  want.reason = DropReason::stale;
  auto request = pack(want);
  auto dropped = co_await peers_.sampler.ask(lease, request, within(options_.request_timeout));
  if (!dropped) co_return failure(std::move(dropped.error()));
  if ((*dropped)->dropped() == 0) co_return result<void>();
  ++counters_->groups_aborted;
  if (state_.running().contains(group)) aborted_.insert(group);
  groups_aborted_.raise();
  StopGroupT stop;
  stop.group = group.value;
  peers_.replay.tell(pack(stop));
  co_return result<void>();
}

/// Ends once the group was aborted.
task<void> rollout::aborted(group_id group) {
  while (aborted_.erase(group) == 0)
    co_await groups_aborted_.raised();
}

/// Tells replay what a policy judges the group by, once it has a token and when it has none again.
void rollout::tell_begun(group_ptr group) {
  const std::int64_t start = start_version_of(*group);
  if (start == group->told_start) return;
  group->told_start = start;
  GroupBegunT begun;
  begun.group = group->prompt.group;
  begun.start_version = start;
  peers_.replay.tell(pack(begun));
}

} // namespace weir
