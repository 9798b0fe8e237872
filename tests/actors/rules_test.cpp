/// Each rule that stands for a counterexample, twice: enforced, the property holds over everything
/// that is explored here; suspended, a violation is found. A rule without a case here is shown by
/// tests/model, tests/crash, tests/runtime or the simulation.
#include "actors/rollout/drop_replay.hpp"
#include "actors/rollout/reconcile.hpp"
#include "messages/rule.hpp"
#include "tests/actors/barrier_world.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

/// What `find` returns with the rule suspended.
template <class Find>
auto without(rule which, Find find) {
  const rule_suspension off(which);
  return find();
}

constexpr std::uint64_t step_groups = 3;

/// Groups that a step of weight_fifo can claim when its batch straddled an update: two started at
/// version 0, the third at version 1.
std::size_t claimable_after_update() {
  event_log log;
  sampler_state sampler(policy_of("weight_fifo", 1), step_groups, {});
  replay_state replay(policy_of("weight_fifo", 1), {.groups_buffered_max = 8});
  const auto batch = admit_batch(sampler, 0, step_groups, log);
  for (const group_id group : batch.groups)
    finish_group(sampler, replay, group, weight_version(group.value == 2 ? 1 : 0), log);
  const auto claimed = replay.claim(0, weight_version(1), step_groups, log.stream, 9);
  REQUIRE(claimed.has_value());
  return claimed->size();
}

/// Batches that are admitted although both waited for one opening of the gate (W = 0).
int admitted_at_one_opening() {
  event_log log;
  sampler_state sampler(policy_of("in_order", 0), step_groups, {});
  for (const std::uint64_t admission : {0U, 1U}) {
    const auto groups = reservations(admission * step_groups, step_groups);
    REQUIRE(sampler.reserve(admission, groups, log.stream, 1).has_value());
  }
  REQUIRE(*sampler.may_admit()); // Both saw this, and both enter.
  int admitted = 0;
  for (const std::uint64_t admission : {0U, 1U}) {
    const auto outcome = sampler.admit(admission, log.stream, 2 + admission);
    REQUIRE(outcome.has_value());
    admitted += outcome->admitted ? 1 : 0;
  }
  return admitted;
}

/// Whether the straggler of the open step finds room above the high-water mark.
bool straggler_is_needed() {
  replay_state replay(policy_of("in_order", 1), {.groups_buffered_max = 8});
  for (const std::int64_t step : {0, 1})
    REQUIRE(replay
                .request_start({.group = group_id(static_cast<std::uint64_t>(step)),
                                .dispatch_index = step,
                                .target_step = step})
                .has_value());
  std::ignore = replay.grant_permits();
  CHECK_FALSE(replay.needed_at(group_id(1), weight_version(0))); // Look-ahead.
  return replay.needed_at(group_id(0), weight_version(0));
}

/// Whether a run that was cut with one READY and five ADMITTED groups goes on with a wider window.
bool resumes_with_wider_window() {
  event_log log;
  sampler_state before(policy_of("in_order", 1), step_groups, {});
  replay_state buffer(policy_of("in_order", 1), {.groups_buffered_max = 8});
  const auto first = admit_batch(before, 0, step_groups, log);
  std::ignore = admit_batch(before, step_groups, step_groups, log);
  finish_group(before, buffer, first.groups.front(), weight_version(0), log);
  sampler_image ledger = before.capture();
  replay_image index = buffer.capture();
  const auto report =
      reconcile(ledger, index, *policy_of("in_order", 2), step_groups, weight_version(0));
  REQUIRE(report.has_value());
  sampler_state after(policy_of("in_order", 2), step_groups, {});
  return after.load(ledger).has_value();
}

/// Whether the open step can be filled after its finished groups were dropped for fresh samples.
bool fills_after_drop_replay() {
  event_log log;
  sampler_state before(policy_of("in_order", 1), step_groups, {});
  replay_state ready(policy_of("in_order", 1), {});
  for (const group_id group : admit_batch(before, 0, step_groups, log).groups)
    finish_group(before, ready, group, weight_version(0), log);
  sampler_image ledger = before.capture();
  replay_image index = ready.capture();
  REQUIRE(drop_replay(ledger, index).has_value());
  sampler_state after(policy_of("in_order", 1), step_groups, {});
  replay_state empty(policy_of("in_order", 1), {});
  REQUIRE(after.load(ledger).has_value());
  REQUIRE(empty.load(index).has_value());
  for (const ledger_record& record : after.unfinished()) {
    if (record.phase == group_phase::reserved)
      std::ignore = after.admit(record.admission, log.stream, 9); // With the first of its batch.
    if (after.capture().find(record.group) != nullptr)
      finish_group(after, empty, record.group, weight_version(0), log);
  }
  return empty.outlook(0, weight_version(0), step_groups)->prospect == batch_prospect::ready;
}

} // namespace

TEST_SUITE("actors/rules") {
  TEST_CASE("settled_when_answered: a holder that stops waiting does not tear a cut") {
    const auto torn = [] { return explore({.transactions_of_second = 0, .cancels = 1}).torn; };
    CHECK(torn() == 0);
    CHECK(without(rule::settled_when_answered, torn) > 0);
  }

  TEST_CASE("stale_epochs_ignored: a doubled Quiesce leaves no gate to its hold limit") {
    const auto waited = [] { return explore({.transactions = 0, .duplicates = 1}).waited; };
    CHECK(waited() == 0);
    CHECK(without(rule::stale_epochs_ignored, waited) > 0);
  }

  TEST_CASE("published_only_if_held and foreign_epoch_taints stand behind each other") {
    const auto torn = [] { return explore({.self_opens = 1}).torn; };
    CHECK(torn() == 0);
    CHECK(without(rule::published_only_if_held, torn) == 0);
    CHECK(without(rule::foreign_epoch_taints, torn) == 0);
    const rule_suspension no_taint(rule::foreign_epoch_taints);
    CHECK(without(rule::published_only_if_held, torn) > 0);
  }

  TEST_CASE("gate_opens_by_itself: no loss of messages closes a gate for ever") {
    const auto stuck = [] { return explore({.transactions = 0, .losses = 2}).stuck; };
    CHECK(stuck() == 0);
    CHECK(without(rule::gate_opens_by_itself, stuck) > 0);
  }

  TEST_CASE("fence_only_by_instance: an Abort leaves no half of a transaction") {
    const auto halved = [] { return explore({.transactions_of_second = 0, .timeouts = 1}).halved; };
    CHECK(halved() == 0);
    CHECK(without(rule::fence_only_by_instance, halved) > 0);
  }

  TEST_CASE("fifo_by_admission_version: a batch that straddles an update is claimed whole") {
    CHECK(claimable_after_update() == step_groups);
    CHECK(without(rule::fifo_by_admission_version, claimable_after_update) == 0);
  }

  TEST_CASE("gate_rechecked_under_lease: one opening admits one batch") {
    CHECK(admitted_at_one_opening() == 1);
    CHECK(without(rule::gate_rechecked_under_lease, admitted_at_one_opening) == 2);
  }

  TEST_CASE("open_step_granted_credit: the straggler of the open step always finds room") {
    CHECK(straggler_is_needed());
    CHECK_FALSE(without(rule::open_step_granted_credit, straggler_is_needed));
  }

  TEST_CASE("drop_replay_keeps_stamps: the open step fills again") {
    CHECK(fills_after_drop_replay());
    CHECK_FALSE(without(rule::drop_replay_keeps_stamps, fills_after_drop_replay));
  }

  TEST_CASE("restamped_on_resume: a run goes on with another window") {
    CHECK(resumes_with_wider_window());
    CHECK_FALSE(without(rule::restamped_on_resume, resumes_with_wider_window));
  }
}
