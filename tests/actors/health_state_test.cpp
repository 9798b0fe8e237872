#include "actors/rollout/health_state.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

constexpr std::int64_t seconds(std::int64_t count) {
  return count * 1'000'000'000;
}

health_state fleet(std::size_t generators, std::uint64_t min_healthy = 1) {
  health_options options;
  options.min_healthy = min_healthy;
  options.patience_ns = seconds(60);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < generators; ++i)
    names.push_back("generator-" + std::to_string(i));
  return {options, std::move(names)};
}

void miss(health_state& state, std::size_t generator, int times, std::int64_t at = 0) {
  for (int i = 0; i < times; ++i)
    state.missed(generator, error{errc::timed_out, "no answer"}, at);
}

void answer(health_state& state, std::size_t generator, int times, std::int64_t at = 0) {
  for (int i = 0; i < times; ++i)
    state.answered(generator, weight_version(1), at);
}

} // namespace

TEST_SUITE("actors/health_state") {
  TEST_CASE(
      "three probes in a row without an answer make a generator unhealthy, two answers heal") {
    health_state state = fleet(1);
    miss(state, 0, 2);
    CHECK(state.healthy(0));
    answer(state, 0, 1); // The row is broken.
    miss(state, 0, 2);
    CHECK(state.healthy(0));
    miss(state, 0, 1);
    CHECK_FALSE(state.healthy(0));
    answer(state, 0, 1);
    miss(state, 0, 1);
    answer(state, 0, 1);
    CHECK_FALSE(state.healthy(0));
    answer(state, 0, 1);
    CHECK(state.healthy(0));
  }

  TEST_CASE("a group goes to the healthy generator with the fewest groups") {
    health_state state = fleet(3);
    state.began(0);
    state.began(0);
    state.began(1);
    CHECK(state.choose(weight_version(0), std::nullopt) == 2);
    state.began(2);
    state.began(2);
    CHECK(state.choose(weight_version(0), std::nullopt) == 1);
    miss(state, 1, 3);
    CHECK(state.choose(weight_version(0), std::nullopt) == 0);
    state.ended(2);
    state.ended(2);
    CHECK(state.choose(weight_version(0), std::nullopt) == 2);
    CHECK(state.outstanding(0) == 2);
  }

  TEST_CASE("a retry goes to another generator, if there is one") {
    health_state state = fleet(2);
    state.began(1);
    CHECK(state.choose(weight_version(0), 0) == 1);
    miss(state, 1, 3);
    CHECK(state.choose(weight_version(0), 0) == 0);
  }

  TEST_CASE("one that is known to have the weights comes before one that lags or was reborn") {
    health_state state = fleet(3);
    for (std::size_t i = 0; i < 3; ++i)
      state.answered(i, weight_version(4), seconds(0));
    state.answered(0, std::nullopt, seconds(1)); // Reborn: it has none.
    state.saw(2, weight_version(5));
    CHECK(state.choose(weight_version(4), std::nullopt) == 1);
    CHECK(state.choose(weight_version(5), std::nullopt) == 2);
    // Nobody is known to have them: a generator holds the group until it has.
    CHECK(state.choose(weight_version(6), std::nullopt) == 0);
  }

  TEST_CASE("nobody healthy: no generator, and after a while an error that names them all") {
    health_state state = fleet(2);
    miss(state, 0, 3, seconds(10));
    miss(state, 1, 3, seconds(15));
    CHECK_FALSE(state.choose(weight_version(0), std::nullopt).has_value());
    CHECK(state.judge(seconds(75)).has_value());
    const auto ended = state.judge(seconds(76));
    REQUIRE_FALSE(ended.has_value());
    CHECK(ended.error().code == errc::unavailable);
    CHECK(ended.error().text ==
          "0 of 2 generators are healthy, fewer than the 1 of "
          "async_rl.generator_health.min_healthy for 61 s; generator-0 answers no probe since 66 "
          "s (timed out: no answer); generator-1 answers no probe since 61 s (timed out: no "
          "answer)");
  }

  TEST_CASE("a fleet that recovers within the patience goes on, and the patience starts over") {
    health_state state = fleet(2, 2);
    miss(state, 0, 3, seconds(10));
    CHECK(state.choose(weight_version(0), std::nullopt) == 1); // The other one serves meanwhile.
    answer(state, 0, 2, seconds(60));
    CHECK(state.judge(seconds(500)).has_value());
    miss(state, 0, 3, seconds(500));
    CHECK(state.judge(seconds(560)).has_value());
    CHECK_FALSE(state.judge(seconds(561)).has_value());
  }
}
