#include "actors/sampler/sampler_policy.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

policy_slot ready_slot(std::uint64_t group, std::int64_t batch, std::int64_t target,
                       std::uint64_t version, std::uint64_t window = 1) {
  return {.group = group_id(group),
          .dispatch_index = batch,
          .target_step = target,
          .admission_version = weight_version(version),
          .window = window,
          .start_version = weight_version(version),
          .ready = true};
}

policy_slot unready_slot(std::uint64_t group, std::int64_t batch, std::int64_t target,
                         std::uint64_t version) {
  policy_slot slot = ready_slot(group, batch, target, version);
  slot.start_version.reset();
  slot.ready = false;
  return slot;
}

std::vector<group_id> selected(const sampler_policy& policy, const std::vector<policy_slot>& slots,
                               std::uint64_t version, std::uint64_t least, std::uint64_t most,
                               bool prefix = false) {
  const slot_table table(slots);
  const auto chosen = policy.select(table.view(), {.version = weight_version(version),
                                            .groups_min = least,
                                            .groups_max = most,
                                            .ready_prefix_only = prefix});
  REQUIRE(chosen.has_value());
  return *chosen;
}

std::vector<group_id> evicted(const sampler_policy& policy, const std::vector<policy_slot>& slots,
                              std::uint64_t version) {
  const slot_table table(slots);
  const auto stale = policy.evict(table.view(), weight_version(version));
  REQUIRE(stale.has_value());
  return *stale;
}

std::vector<group_id> aborted(const sampler_policy& policy, const std::vector<policy_slot>& slots,
                              std::uint64_t version) {
  const slot_table table(slots);
  const auto stale = policy.abort_in_flight(table.view(), weight_version(version));
  REQUIRE(stale.has_value());
  return *stale;
}

} // namespace

TEST_SUITE("actors/sampler_policy") {
  TEST_CASE("a gate lets generation run W versions ahead and no further") {
    for (const char* name : {"in_order", "weight_fifo", "ready_first"})
      for (std::int64_t window = 0; window <= 2; ++window) {
        CAPTURE(name);
        CAPTURE(window);
        const auto policy = policy_of(name, window);
        CHECK(*policy->admits(-1, weight_version(0)));
        for (std::uint64_t live = 0; live < 4; ++live) {
          const std::int64_t edge = static_cast<std::int64_t>(live) + window;
          CHECK(*policy->admits(edge - 1, weight_version(live)));
          CHECK_FALSE(*policy->admits(edge, weight_version(live)));
          CHECK_FALSE(*policy->admits(edge + 1, weight_version(live)));
        }
      }
  }

  TEST_CASE("windowed never gates and never stamps") {
    const auto policy = policy_of("windowed", 0);
    CHECK(*policy->admits(1000, weight_version(0)));
    CHECK(policy->stamp(7) == -1);
    CHECK_FALSE(policy->stamps());
    CHECK_FALSE(policy->gated());
  }

  TEST_CASE("only in_order stamps, with the dispatch index") {
    CHECK(policy_of("in_order")->stamp(7) == 7);
    CHECK(policy_of("weight_fifo")->stamp(7) == -1);
    CHECK(policy_of("ready_first")->stamp(7) == -1);
  }

  TEST_CASE("in_order selects the groups of its step in dispatch order, whatever made them") {
    const auto policy = policy_of("in_order");
    const std::vector<policy_slot> slots = {ready_slot(9, 4, 4, 4), ready_slot(12, 5, 5, 3),
                                            ready_slot(13, 5, 5, 5), ready_slot(15, 6, 6, 5)};
    CHECK(selected(*policy, slots, 5, 1, 9) == ids({12, 13}));
    CHECK(selected(*policy, slots, 5, 2, 2) == ids({12, 13}));
    CHECK(selected(*policy, slots, 5, 3, 3).empty());
    CHECK(selected(*policy, slots, 6, 1, 1) == ids({15}));
    CHECK(evicted(*policy, slots, 5) == ids({9}));
    CHECK(evicted(*policy, slots, 6) == ids({9, 12, 13}));
  }

  TEST_CASE("a future target is not evicted for its weight") {
    const auto policy = policy_of("in_order");
    const std::vector<policy_slot> slots = {ready_slot(15, 6, 6, 0)};
    CHECK(evicted(*policy, slots, 6).empty());
    CHECK(evicted(*policy, slots, 7) == ids({15}));
  }

  TEST_CASE("weight_fifo waits for the unready groups of the oldest admission version") {
    const auto policy = policy_of("weight_fifo");
    std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 3), unready_slot(1, 0, -1, 3),
                                      ready_slot(2, 1, -1, 4)};
    CHECK(selected(*policy, slots, 4, 1, 9) == ids({0}));
    CHECK(selected(*policy, slots, 4, 2, 9).empty());
    slots[1] = ready_slot(1, 0, -1, 3);
    CHECK(selected(*policy, slots, 4, 2, 2) == ids({0, 1}));
    // Nothing old is unfinished: the next version is the oldest once the first two are taken.
    CHECK(selected(*policy, slots, 4, 3, 3) == ids({0, 1, 2}));
  }

  TEST_CASE("weight_fifo orders by admission, so a batch that straddles an update does not wedge") {
    const auto policy = policy_of("weight_fifo");
    std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 3), ready_slot(1, 0, -1, 3)};
    slots[0].start_version = weight_version(4);
    CHECK(selected(*policy, slots, 4, 2, 2) == ids({0, 1}));
  }

  TEST_CASE("weight_fifo takes no group outside of its window, before it is evicted either") {
    const auto policy = policy_of("weight_fifo", 1);
    const std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 3), ready_slot(1, 1, -1, 4),
                                            ready_slot(2, 2, -1, 5)};
    CHECK(selected(*policy, slots, 5, 1, 9) == ids({1, 2}));
    CHECK(selected(*policy, slots, 5, 3, 3).empty());
    CHECK(evicted(*policy, slots, 5) == ids({0}));
  }

  TEST_CASE("ready_first takes late stragglers and evicts nothing") {
    const auto policy = policy_of("ready_first");
    const std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 0), unready_slot(1, 1, -1, 8),
                                            ready_slot(2, 2, -1, 9), ready_slot(3, 3, -1, 10)};
    CHECK(selected(*policy, slots, 9, 1, 9) == ids({0, 2}));
    CHECK(evicted(*policy, slots, 100).empty());
  }

  TEST_CASE("windowed selects and evicts by the window that was in force at admission") {
    const auto policy = policy_of("windowed", 1);
    const std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 7), ready_slot(1, 0, -1, 8),
                                            ready_slot(2, 0, -1, 7, 2), unready_slot(3, 0, -1, 0)};
    CHECK(selected(*policy, slots, 9, 1, 9) == ids({1, 2}));
    CHECK(evicted(*policy, slots, 9) == ids({0}));
    CHECK(selected(*policy, slots, 7, 1, 9) == ids({0, 2}));
  }

  TEST_CASE("windowed hands out the freshest first when asked to") {
    sampler_options options{.name = "windowed", .max_staleness_versions = 5};
    options.sample_freshest_first = true;
    const auto policy = *make_sampler_policy(options);
    const std::vector<policy_slot> slots = {ready_slot(0, 0, -1, 7, 5), ready_slot(1, 0, -1, 9, 5),
                                            ready_slot(2, 0, -1, 7, 5), ready_slot(3, 0, -1, 8, 5)};
    CHECK(selected(*policy, slots, 9, 1, 3) == ids({1, 3, 0}));
  }

  TEST_CASE("only windowed gives up work in flight, and only what has begun") {
    std::vector<policy_slot> slots = {unready_slot(0, 0, -1, 1), unready_slot(1, 0, -1, 1)};
    slots[1].start_version = weight_version(1);
    CHECK(aborted(*policy_of("windowed"), slots, 3) == ids({1}));
    CHECK(aborted(*policy_of("windowed"), slots, 2).empty());
    CHECK(aborted(*policy_of("in_order"), slots, 9).empty());
  }

  TEST_CASE("a reproducible selection ends before the first unready slot") {
    const auto policy = policy_of("in_order");
    const std::vector<policy_slot> slots = {ready_slot(12, 5, 5, 5), unready_slot(13, 5, 5, 5),
                                            ready_slot(14, 5, 5, 5)};
    CHECK(selected(*policy, slots, 5, 1, 3, true) == ids({12}));
    CHECK(selected(*policy, slots, 5, 1, 3, false) == ids({12, 14}));
  }

  TEST_CASE("a selection for nothing is refused") {
    const auto policy = policy_of("in_order");
    const auto none = policy->select({}, {.version = {}, .groups_min = 0, .groups_max = 3});
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code == errc::invalid_argument);
    const auto reversed = policy->select({}, {.version = {}, .groups_min = 3, .groups_max = 2});
    CHECK_FALSE(reversed.has_value());
  }

  TEST_CASE("negative windows and unknown names are refused with the key") {
    auto negative = make_sampler_policy({.name = "in_order", .max_lookahead_versions = -1});
    REQUIRE_FALSE(negative.has_value());
    CHECK(negative.error().text ==
          "async_rl.sampler.max_lookahead_versions: must be at least 0, got -1");
    negative = make_sampler_policy({.name = "windowed", .max_staleness_versions = -2});
    REQUIRE_FALSE(negative.has_value());
    CHECK(negative.error().text ==
          "async_rl.sampler.max_staleness_versions: must be at least 0, got -2");
    CHECK_FALSE(make_sampler_policy({.name = "fifo"}).has_value());
  }

  TEST_CASE("a gated sampler needs room for W + 1 steps, every sampler for one") {
    CHECK(buffer_groups_required(*policy_of("in_order", 2), 3, 1) == 9);
    CHECK(buffer_groups_required(*policy_of("in_order", 0), 3, 3) == 3);
    CHECK(buffer_groups_required(*policy_of("windowed", 2), 3, 1) == 3);
    CHECK(validate_buffer(*policy_of("in_order", 1), 32, 32, 64).has_value());
    const auto small = validate_buffer(*policy_of("in_order", 1), 32, 32, 63);
    REQUIRE_FALSE(small.has_value());
    CHECK(small.error().text ==
          "async_rl.max_buffered_rollouts (63) must be at least 64 for grpo.num_prompts_per_step "
          "32 and a window of 1 (in_order)");
    CHECK_FALSE(validate_buffer(*policy_of("in_order", 1), 4, 5, 64).has_value());
    CHECK_FALSE(validate_buffer(*policy_of("in_order", 1), 4, 0, 64).has_value());
  }
}
