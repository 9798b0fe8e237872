#include "actors/rollout/rollout_group.hpp"
#include "actors/rollout/rollout_state.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

ledger_record admitted_record(std::uint64_t group, std::int64_t batch, std::uint64_t admission) {
  return {.group = group_id(group),
          .admission = admission,
          .siblings = 2,
          .phase = group_phase::admitted,
          .dispatch_index = batch,
          .target_step = batch,
          .dispatches = 2};
}

ledger_record reserved_record(std::uint64_t group, std::uint64_t admission) {
  return {.group = group_id(group), .admission = admission, .siblings = 2};
}

admission_outcome outcome_of(std::vector<group_id> groups,
                             std::optional<std::uint64_t> tail = std::nullopt) {
  admission_outcome outcome;
  outcome.admitted = true;
  outcome.groups = std::move(groups);
  outcome.tail_admission = tail;
  return outcome;
}

rollout_state rollouts(bool stamps = true, std::uint64_t inflight = 8) {
  return rollout_state({.groups_per_step = 3, .inflight_max = inflight, .stamps = stamps});
}

} // namespace

TEST_SUITE("actors/rollout_group") {
  TEST_CASE("a pinned group names max(0, target step - W), if that version exists") {
    const auto pin = [](std::int64_t target, std::uint64_t window, std::uint64_t oldest) {
      return pinned_version({.dispatch_index = target, .target_step = target},
                            {.window = window, .oldest = oldest});
    };
    CHECK(pin(0, 0, 0) == 0);
    CHECK(pin(7, 0, 0) == 7);
    CHECK(pin(0, 2, 0) == 0);
    CHECK(pin(1, 2, 0) == 0);
    CHECK(pin(7, 2, 0) == 5);
    // The bundle was made with a smaller W: 5 is not there.
    CHECK(pin(7, 2, 6) == 6);
  }

  TEST_CASE("a request for generation says whether its version is the least or the only one") {
    rollout_group group;
    group.prompt.sample = std::make_unique<SampleId>(1, 2);
    group.stamp.admission_version = 9;
    CHECK(generation_of(group, 4, {}).minimum_version == 9);
    CHECK_FALSE(generation_of(group, 4, {}).pinned);
    CHECK(generation_of(group, 4, {}, 8).minimum_version == 8);
    CHECK(generation_of(group, 4, {}, 8).pinned);
  }
}

TEST_SUITE("actors/rollout_state") {
  TEST_CASE("a restored ledger is dispatched in order and re-admitted batch by batch") {
    const std::vector<ledger_record> unfinished = {
        reserved_record(8, 3),    reserved_record(9, 4), admitted_record(5, 1, 1),
        admitted_record(4, 2, 2), reserved_record(7, 3), admitted_record(3, 1, 1)};
    const recovery_plan plan = plan_recovery(unfinished, 5, {});
    REQUIRE(plan.dispatch.size() == 3);
    CHECK(plan.dispatch[0].group == group_id(3));
    CHECK(plan.dispatch[1].group == group_id(5));
    CHECK(plan.dispatch[2].group == group_id(4));
    CHECK(plan.dispatch[2].target_step == 2);
    CHECK(plan.readmit == std::vector<reserved_batch>{{3, ids({7, 8})}, {4, ids({9})}});
    CHECK(plan.spent.empty());
    CHECK(plan.next_admission == 5);
  }

  TEST_CASE("a group whose attempts are used up is dropped with its reason, not dispatched") {
    ledger_record poisoned = admitted_record(3, 1, 1);
    poisoned.data_attempts = 2;
    poisoned.dispatches = 1;
    ledger_record unlucky = admitted_record(4, 1, 1);
    unlucky.infra_attempts = 5;
    const std::vector<ledger_record> unfinished = {unlucky, poisoned, admitted_record(5, 1, 1)};
    const recovery_plan plan = plan_recovery(unfinished, 2, {});
    CHECK(plan.spent == std::vector<spent_group>{{group_id(3), drop_reason::poisoned},
                                                 {group_id(4), drop_reason::infra_failure}});
    REQUIRE(plan.dispatch.size() == 1);
    CHECK(plan.dispatch[0].group == group_id(5));
  }

  TEST_CASE("restored batches are admitted, short ones filled up, before any ordinary batch") {
    rollout_state state = rollouts();
    const std::vector<ledger_record> unfinished = {admitted_record(0, 0, 0), reserved_record(3, 1),
                                                   reserved_record(4, 1), reserved_record(5, 1),
                                                   reserved_record(6, 2)};
    state.recover(plan_recovery(unfinished, 3, {}));
    CHECK(state.running() == std::set<group_id>{group_id(0)});
    CHECK(state.next_move() == next_supply{supply_move::admit, 1, 3});
    state.admitted(1, outcome_of(ids({3, 4, 5})));
    CHECK(state.next_move() == next_supply{supply_move::reserve, 2, 2});
    state.reserved(2, ids({7, 8}));
    CHECK(state.next_move() == next_supply{supply_move::admit, 2, 3});
    state.admitted(2, outcome_of(ids({6, 7, 8})));
    CHECK(state.next_move() == next_supply{supply_move::reserve, 3, 3});
    state.check_invariants();
  }

  TEST_CASE("a tail goes first, under its new admission") {
    rollout_state state = rollouts();
    state.reserved(0, ids({0, 1, 2, 3}));
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 4});
    state.admitted(0, outcome_of(ids({0, 1, 2}), 1));
    CHECK(state.next_move() == next_supply{supply_move::reserve, 1, 2});
    state.reserved(1, ids({4, 5}));
    state.admitted(1, outcome_of(ids({3, 4, 5})));
    CHECK(state.next_move() == next_supply{supply_move::reserve, 2, 3});
    state.check_invariants();
  }

  TEST_CASE("a stamped remainder is dropped, and the end waits for what runs") {
    rollout_state state = rollouts();
    state.reserved(0, ids({0, 1, 2}));
    state.admitted(0, outcome_of(ids({0, 1, 2})));
    state.reserved(1, ids({3, 4}));
    state.end_data();
    CHECK(state.next_move() == next_supply{supply_move::drop_remainder, 1, 2});
    state.dropped_reserved(1);
    CHECK(state.next_move().move == supply_move::wait);
    for (const std::uint64_t group : {0U, 1U, 2U})
      state.finished(group_id(group));
    CHECK(state.next_move().move == supply_move::finish);
  }

  TEST_CASE("without stamps the last batch runs though it is short") {
    rollout_state state = rollouts(false);
    state.reserved(0, ids({0, 1}));
    state.end_data();
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 2});
    state.admitted(0, outcome_of(ids({0, 1})));
    CHECK(state.next_move().move == supply_move::wait);
  }

  TEST_CASE("data that ends exactly at a batch leaves no remainder") {
    rollout_state state = rollouts();
    state.end_data();
    CHECK(state.next_move().move == supply_move::finish);
  }

  TEST_CASE("below the low-water mark a whole batch is set aside before anything else") {
    rollout_state state({.groups_per_step = 3, .inflight_max = 8, .reserve_low = 1});
    CHECK(state.next_move() == next_supply{supply_move::divert, 0, 3});
    state.spares_are(3);
    CHECK(state.next_move() == next_supply{supply_move::reserve, 0, 3});
    state.reserved(0, ids({3, 4, 5}));
    state.spares_are(0); // Before the gate opens for the batch that waits.
    CHECK(state.next_move() == next_supply{supply_move::divert, 0, 3});
    state.end_data();
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 3});
  }

  TEST_CASE("a batch too short to be set aside joins what is reserved, and its tail goes on") {
    rollout_state state({.groups_per_step = 3, .inflight_max = 8, .reserve_low = 1});
    state.spares_are(3);
    state.reserved(0, ids({3, 4, 5}));
    state.spares_are(0);
    const next_supply next = state.next_move();
    state.end_data();
    state.reserved(next.admission, ids({6}));
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 4});
    state.admitted(0, outcome_of(ids({3, 4, 5}), 1));
    CHECK(state.next_move() == next_supply{supply_move::drop_remainder, 1, 1});
  }

  TEST_CASE("at the end the reserve is drained into whole steps, and the rest is dropped last") {
    rollout_state state({.groups_per_step = 3, .inflight_max = 8, .reserve_low = 1});
    state.spares_are(5);
    state.reserved(0, ids({5}));
    state.end_data();
    CHECK(state.next_move() == next_supply{supply_move::drain, 0, 2});
    state.reserved(0, ids({0, 1}));
    state.spares_are(3);
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 3});
    state.admitted(0, outcome_of(ids({0, 1, 5})));
    CHECK(state.next_move() == next_supply{supply_move::drain, 1, 3});
    state.spares_are(2); // One took a place meanwhile: what is left is no step.
    state.took_place(group_id(2));
    CHECK(state.next_move().move == supply_move::wait);
    for (const std::uint64_t group : {0U, 1U, 2U, 5U})
      state.finished(group_id(group));
    CHECK(state.next_move() == next_supply{supply_move::drain, 1, 2});
    state.reserved(1, ids({3, 4}));
    state.spares_are(0);
    CHECK(state.next_move() == next_supply{supply_move::drop_remainder, 1, 2});
    state.dropped_reserved(1);
    CHECK(state.next_move().move == supply_move::finish);
  }

  TEST_CASE("spares that will replace nobody are ordinary prompts again") {
    rollout_state state = rollouts(false);
    state.spares_are(2); // From a life with another sampler.
    CHECK(state.next_move() == next_supply{supply_move::drain, 0, 2});
    state.reserved(0, ids({0, 1}));
    state.spares_are(0);
    CHECK(state.next_move() == next_supply{supply_move::reserve, 0, 1});
    state.end_data();
    CHECK(state.next_move() == next_supply{supply_move::admit, 0, 2});
  }

  TEST_CASE("rollouts in flight are bounded and start in dispatch order") {
    rollout_state state = rollouts(true, 2);
    state.reserved(0, ids({0, 1, 2}));
    state.admitted(0, outcome_of(ids({0, 1, 2})));
    for (const std::uint64_t group : {2U, 1U, 0U})
      state.request_flight(group_id(group), 0);
    CHECK(state.grant_flights() == ids({0, 1}));
    CHECK(state.in_flight() == 2);
    // One backs off: its permit serves another, and it asks again later.
    state.end_flight(group_id(1));
    CHECK(state.grant_flights() == ids({2}));
    state.request_flight(group_id(1), 0);
    CHECK(state.grant_flights().empty());
    state.finished(group_id(0));
    CHECK(state.grant_flights() == ids({1}));
    state.finished(group_id(0));
    CHECK(state.in_flight() == 2);
    state.check_invariants();
  }
}
