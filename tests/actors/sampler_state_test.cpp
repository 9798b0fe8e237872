#include "actors/sampler/sampler_state.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

using namespace weir;
using namespace weir::testing;

namespace {

constexpr std::int64_t second = 1'000'000'000;

failure_limits generous() {
  failure_limits limits;
  limits.max_skipped_prompts = 100;
  limits.max_consecutive_dropped_prompts = 100;
  limits.min_step_batch_fraction = 0.0;
  return limits;
}

sampler_state in_order_state(std::int64_t window = 1, failure_limits limits = generous()) {
  return {policy_of("in_order", window), 3, limits};
}

/// A refused transition leaves the image and the log as they were.
struct untouched {
  explicit untouched(const sampler_state& observed, const event_log& watched)
      : state(observed), log(watched), before(encode(state.capture(), {})), events(log.sink.count) {
  }
  void check() const {
    CHECK(encode(state.capture(), {}) == before);
    CHECK(log.sink.count == events);
    state.check_invariants();
  }
  const sampler_state& state;
  const event_log& log;
  std::vector<std::byte> before;
  std::size_t events;
};

} // namespace

TEST_SUITE("actors/sampler_state") {
  TEST_CASE("after the fetch and before admission, groups are owned without a target") {
    event_log log;
    sampler_state state = in_order_state();
    const auto unfinished = state.reserve(0, reservations(10, 3), log.stream, 7);
    REQUIRE(unfinished.has_value());
    CHECK(*unfinished == 3);
    const auto& image = state.capture();
    CHECK(image.dispatch_index == -1);
    CHECK(image.next_admission == 1);
    CHECK(image.reserved == tally_of_range(group_id(10), 3));
    CHECK(image.admitted.count == 0);
    const ledger_record& record = *image.find(group_id(11));
    CHECK(record.phase == group_phase::reserved);
    CHECK(record.target_step == -1);
    CHECK(record.sample == sample_id{.epoch = 0, .position = 11});
    CHECK(record.hash == content_hash{.low = 33, .high = 55});
    REQUIRE(log.sink.groups.size() == 3);
    CHECK(log.sink.groups[1].to == group_state::reserved);
    CHECK(log.sink.groups[1].sample == sample_id{.epoch = 0, .position = 11});
    CHECK(log.sink.groups[1].transaction == 7);
    state.check_invariants();
  }

  TEST_CASE("an admission stamps its groups with the batch, the version and the window") {
    event_log log;
    sampler_state state = in_order_state(2);
    CHECK(state.version_live(weight_version(4)));
    CHECK_FALSE(state.version_live(weight_version(4)));
    CHECK_FALSE(state.version_live(weight_version(3)));
    const admission_outcome outcome = admit_batch(state, 10, 3, log);
    CHECK(outcome.dispatch_index == 0);
    CHECK(outcome.target_step == 0);
    CHECK(outcome.admission_version == weight_version(4));
    CHECK(outcome.window == 2);
    CHECK(outcome.groups == ids({10, 11, 12}));
    CHECK_FALSE(outcome.tail_admission.has_value());
    const group_event& last = log.sink.groups.back();
    CHECK(last.from == group_state::reserved);
    CHECK(last.to == group_state::admitted);
    CHECK(last.target_step == 0);
    CHECK(last.window == 2);
    state.check_invariants();
  }

  TEST_CASE("the gate is rechecked by the admission itself") {
    event_log log;
    sampler_state state = in_order_state(0);
    std::ignore = admit_batch(state, 0, 3, log);
    REQUIRE(state.reserve(1, reservations(3, 3), log.stream, 1).has_value());
    CHECK_FALSE(*state.may_admit());
    const untouched same(state, log);
    const auto closed = state.admit(1, log.stream, 2);
    REQUIRE(closed.has_value());
    CHECK_FALSE(closed->admitted);
    same.check();
    CHECK(state.version_live(weight_version(1)));
    CHECK(*state.may_admit());
    const auto open = state.admit(1, log.stream, 3);
    REQUIRE(open.has_value());
    CHECK(open->admitted);
    CHECK(open->dispatch_index == 1);
  }

  TEST_CASE("a gate that is shut is told of while nothing is in flight") {
    event_log log;
    sampler_state state = in_order_state(0);
    CHECK(state.shut_gate().empty());
    const auto first = admit_batch(state, 0, 3, log);
    REQUIRE(state.reserve(1, reservations(3, 3), log.stream, 1).has_value());
    CHECK(state.shut_gate().empty()); // The first batch may still open it.
    for (const group_id group : first.groups)
      REQUIRE(state.release(group, 0).has_value());
    CHECK(state.shut_gate() == "sampler in_order keeps batch 1 waiting at version 0");
    REQUIRE(state.version_live(weight_version(1)));
    CHECK(state.shut_gate().empty());
  }

  TEST_CASE("a batch is admitted exactly once") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    const untouched same(state, log);
    const auto again = state.admit(0, log.stream, 3);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == errc::not_found);
    CHECK_FALSE(state.admit(9, log.stream, 3).has_value());
    same.check();
  }

  TEST_CASE("reservations that cannot be right change nothing") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    REQUIRE(state.reserve(1, reservations(3, 2), log.stream, 1).has_value());
    const untouched same(state, log);
    CHECK(state.reserve(2, {}, log.stream, 1).error().code == errc::invalid_argument);
    CHECK(state.reserve(2, reservations(2, 3), log.stream, 1).error().code == errc::conflict);
    CHECK(state.reserve(2, reservations(4, 3), log.stream, 1).error().code == errc::conflict);
    CHECK(state.reserve(0, reservations(9, 3), log.stream, 1).error().code == errc::conflict);
    auto twice = reservations(9, 2);
    twice[1].group = twice[0].group;
    CHECK(state.reserve(2, twice, log.stream, 1).error().code == errc::invalid_argument);
    auto childless = reservations(9, 2);
    childless[1].siblings = 0;
    CHECK(state.reserve(2, childless, log.stream, 1).error().code == errc::invalid_argument);
    same.check();
  }

  TEST_CASE("a short batch is filled up, and a tail gets a fresh admission id") {
    event_log log;
    sampler_state state = in_order_state();
    REQUIRE(state.reserve(0, reservations(0, 2), log.stream, 1).has_value());
    const untouched same(state, log);
    const auto refused = state.admit(0, log.stream, 2);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text == "admission 0 has 2 of 3 groups of a step: fill it up or drop it");
    same.check();
    REQUIRE(state.reserve(0, reservations(2, 3), log.stream, 3).has_value());
    const auto outcome = state.admit(0, log.stream, 4);
    REQUIRE(outcome.has_value());
    CHECK(outcome->groups == ids({0, 1, 2}));
    REQUIRE(outcome->tail_admission.has_value());
    CHECK(*outcome->tail_admission == 1);
    CHECK(state.capture().find(group_id(4))->admission == 1);
    CHECK(state.capture().reserved == tally_of_range(group_id(3), 2));
    CHECK(state.next_admission() == 2);
    state.check_invariants();
  }

  TEST_CASE("a release decides the commit, once, and for one attempt") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    REQUIRE(state.reserve(1, reservations(3, 3), log.stream, 1).has_value());
    const auto late = state.release(group_id(1), 1);
    REQUIRE(late.has_value());
    CHECK_FALSE(late->has_value());
    const auto found = state.release(group_id(1), 0);
    REQUIRE(found.has_value());
    REQUIRE(found->has_value());
    CHECK((*found)->target_step == 0);
    CHECK((*found)->sample == sample_id{.epoch = 0, .position = 1});
    const auto twice = state.release(group_id(1), 0);
    REQUIRE(twice.has_value());
    CHECK_FALSE(twice->has_value());
    CHECK(state.release(group_id(4), 0).error().code == errc::conflict);
    CHECK(state.capture().admitted == tally_of(group_id(0)) + tally_of(group_id(2)));
    state.check_invariants();
  }

  TEST_CASE("a dropped group leaves a shortfall in its step until the step is settled") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    CHECK(state.target(0) == 3);
    const auto dropped = state.drop(ids({1, 1, 77}), drop_reason::data_failure, log.stream, 9);
    REQUIRE(dropped.has_value());
    CHECK(*dropped == ids({1}));
    CHECK(state.target(0) == 2);
    CHECK(state.target(1) == 3);
    CHECK(state.capture().skipped_prompts == 1);
    CHECK(state.capture().dropped.of(drop_reason::data_failure) == tally_of(group_id(1)));
    const group_event& last = log.sink.groups.back();
    CHECK(last.from == group_state::admitted);
    CHECK(last.to == group_state::dropped);
    CHECK(last.reason == event_reason::data_failure);
    state.settle(0);
    CHECK(state.target(0) == 3);
    CHECK(state.capture().shortfalls.empty());
    state.check_invariants();
  }

  TEST_CASE("the remainder of the data is dropped without a budget and without a shortfall") {
    event_log log;
    sampler_state state = in_order_state(1, failure_limits{});
    REQUIRE(state.reserve(0, reservations(0, 2), log.stream, 1).has_value());
    const auto dropped = state.drop(ids({0, 1}), drop_reason::end_of_data, log.stream, 2);
    REQUIRE(dropped.has_value());
    CHECK(dropped->size() == 2);
    CHECK(log.sink.groups.back().from == group_state::reserved);
    CHECK(state.capture().skipped_prompts == 0);
    CHECK(state.capture().shortfalls.empty());
    CHECK(state.capture().ledger.empty());
    state.check_invariants();
  }

  TEST_CASE("the default budgets end the run at the first dropped prompt") {
    event_log log;
    sampler_state state = in_order_state(1, failure_limits{});
    std::ignore = admit_batch(state, 0, 3, log);
    const untouched same(state, log);
    const auto data = state.drop(ids({1}), drop_reason::data_failure, log.stream, 2);
    REQUIRE_FALSE(data.has_value());
    CHECK(data.error().code == errc::exhausted);
    CHECK(data.error().text.find("rollout_failure.max_skipped_prompts (0)") != std::string::npos);
    const auto infra = state.drop(ids({1}), drop_reason::infra_failure, log.stream, 2);
    REQUIRE_FALSE(infra.has_value());
    CHECK(infra.error().text.find("max_consecutive_dropped_prompts (0)") != std::string::npos);
    same.check();
  }

  TEST_CASE("infra drops are limited in a row, data drops for the life of the run") {
    event_log log;
    failure_limits limits = generous();
    limits.max_consecutive_dropped_prompts = 1;
    limits.max_skipped_prompts = 1;
    sampler_state state = in_order_state(3, limits);
    std::ignore = admit_batch(state, 0, 3, log);
    std::ignore = admit_batch(state, 3, 3, log);
    REQUIRE(state.drop(ids({0}), drop_reason::infra_failure, log.stream, 1).has_value());
    CHECK_FALSE(state.drop(ids({1}), drop_reason::infra_failure, log.stream, 1).has_value());
    // The budgets are apart: a bad prompt does not speak about the fleet.
    REQUIRE(state.drop(ids({1}), drop_reason::poisoned, log.stream, 1).has_value());
    REQUIRE(state.release(group_id(2), 0)->has_value());
    REQUIRE(state.drop(ids({3}), drop_reason::infra_failure, log.stream, 1).has_value());
    CHECK_FALSE(state.drop(ids({4}), drop_reason::data_failure, log.stream, 1).has_value());
    CHECK(state.capture().skipped_prompts == 1);
  }

  TEST_CASE("a step that would fall below the floor ends the run, and nothing is dropped") {
    event_log log;
    failure_limits limits = generous();
    limits.min_step_batch_fraction = 0.5;
    sampler_state state = in_order_state(1, limits);
    std::ignore = admit_batch(state, 0, 3, log);
    REQUIRE(state.drop(ids({0}), drop_reason::data_failure, log.stream, 1).has_value());
    const untouched same(state, log);
    const auto below = state.drop(ids({1}), drop_reason::data_failure, log.stream, 1);
    REQUIRE_FALSE(below.has_value());
    CHECK(below.error().text.find("step 0 would keep 1 of 3 groups, fewer than the 2 of "
                                  "rollout_failure.min_step_batch_fraction") == 0);
    same.check();
  }

  TEST_CASE("the floor is rounded up, but not by the binary fraction of a decimal one") {
    failure_limits limits;
    limits.min_step_batch_fraction = 0.7;
    CHECK(step_groups_floor(10, limits) == 7);
    CHECK(step_groups_floor(3, limits) == 3);
    limits.min_step_batch_fraction = 0.9;
    CHECK(step_groups_floor(32, limits) == 29);
    limits.min_step_batch_fraction = 0;
    CHECK(step_groups_floor(32, limits) == 0);
    limits.min_step_batch_fraction = 1;
    CHECK(step_groups_floor(32, limits) == 32);
  }

  TEST_CASE("an infra failure is retried with the same content, later and later") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    std::vector<std::int64_t> seconds;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const auto outcome = state.record_failure(group_id(0), failure_kind::infra, log.stream, 1);
      REQUIRE(outcome.has_value());
      REQUIRE(outcome->has_value());
      CHECK((*outcome)->retry);
      CHECK((*outcome)->content_attempt == 0);
      seconds.push_back((*outcome)->backoff_ns / second);
    }
    CHECK(seconds == std::vector<std::int64_t>{1, 2, 4, 8});
    const auto last = state.record_failure(group_id(0), failure_kind::infra, log.stream, 1);
    CHECK_FALSE((*last)->retry);
    CHECK((*last)->backoff_ns == 0);
    CHECK(log.sink.groups.back().reason == event_reason::retry);
  }

  TEST_CASE("backoff doubles up to its ceiling and never overflows") {
    failure_limits limits;
    CHECK(backoff_after(0, limits) == 0);
    CHECK(backoff_after(1, limits) == second);
    CHECK(backoff_after(5, limits) == 16 * second);
    CHECK(backoff_after(6, limits) == 30 * second);
    CHECK(backoff_after(4'000'000'000U, limits) == 30 * second);
    limits.backoff_max_ns = std::numeric_limits<std::int64_t>::max();
    CHECK(backoff_after(4'000'000'000U, limits) == limits.backoff_max_ns);
    limits.backoff_base_ns = 0;
    CHECK(backoff_after(4'000'000'000U, limits) == 0);
  }

  TEST_CASE("a data failure is retried at once with fresh samples, on its own budget") {
    event_log log;
    sampler_state state = in_order_state();
    std::ignore = admit_batch(state, 0, 3, log);
    std::ignore = state.record_failure(group_id(0), failure_kind::infra, log.stream, 1);
    const auto first = state.record_failure(group_id(0), failure_kind::data, log.stream, 1);
    CHECK((*first)->retry);
    CHECK((*first)->content_attempt == 1);
    CHECK((*first)->backoff_ns == 0);
    CHECK(log.sink.groups.back().attempt == 1);
    // The rows of the first attempt come late and are turned away; the group stays.
    CHECK_FALSE(state.release(group_id(0), 0)->has_value());
    const auto second = state.record_failure(group_id(0), failure_kind::data, log.stream, 1);
    CHECK_FALSE((*second)->retry);
    CHECK(state.capture().find(group_id(0))->infra_attempts == 1);
    const auto gone = state.record_failure(group_id(99), failure_kind::data, log.stream, 1);
    REQUIRE(gone.has_value());
    CHECK_FALSE(gone->has_value());
  }

  TEST_CASE("a snapshot is independent of later changes") {
    event_log log;
    sampler_state state = in_order_state(5);
    std::ignore = admit_batch(state, 0, 3, log);
    const sampler_image cut = state.capture();
    const auto bytes = encode(cut, {.incarnation = 1, .life = 1, .number = 1});
    std::ignore = admit_batch(state, 3, 3, log);
    REQUIRE(state.release(group_id(0), 0)->has_value());
    std::ignore = state.record_failure(group_id(1), failure_kind::data, log.stream, 1);
    REQUIRE(state.drop(ids({2}), drop_reason::infra_failure, log.stream, 1).has_value());
    CHECK(encode(cut, {.incarnation = 1, .life = 1, .number = 1}) == bytes);
    CHECK(cut.ledger.size() == 3);
    CHECK(cut.shortfalls.empty());
    CHECK(cut.admitted == tally_of_range(group_id(0), 3));
  }

  TEST_CASE("validators name both keys") {
    failure_limits limits;
    CHECK(validate_failure_limits(limits, true).has_value());
    CHECK(validate_failure_limits(limits, false).has_value());
    limits.max_skipped_prompts = 1;
    CHECK(validate_failure_limits(limits, true).has_value());
    CHECK_FALSE(validate_failure_limits(limits, false).has_value());
    limits = {};
    limits.backoff_max_ns = second / 100;
    CHECK(validate_failure_limits(limits, true).error().text ==
          "rollout_failure.max_backoff_s must be at least rollout_failure.backoff_base_s");
    limits = {};
    limits.min_step_batch_fraction = 1.5;
    CHECK_FALSE(validate_failure_limits(limits, true).has_value());
    limits = {};
    limits.max_data_attempts_per_prompt = 0;
    CHECK_FALSE(validate_failure_limits(limits, true).has_value());
  }
}
