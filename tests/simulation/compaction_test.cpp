// The replay actor gives the memory of cleared rows back while it goes on serving.
#include "tests/simulation/one_life.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::sim;

TEST_SUITE_BEGIN("simulation/compaction");

TEST_CASE("what clearing leaves half dead is moved together, beside mutations and cuts") {
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    run_plan plan;
    plan.seed = seed;
    plan.sampler = {"windowed", 2};
    plan.dataset = 64;
    plan.steps_max = 20;
    plan.tokens_max = 24;
    plan.buffered_max = 16;
    plan.inflight_max = 12;
    plan.token_lag = std::chrono::microseconds(500);
    const one_life lived = live_once(plan);
    INFO(lived.log);
    REQUIRE(lived.ended.has_value());
    CHECK(lived.audit.clean());
    moved += lived.rows.moved_bytes;
    CHECK(lived.rows.mostly_dead_segments == 0);
  }
  CHECK(moved > 0);
}

TEST_SUITE_END();
