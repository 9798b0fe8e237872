#include "actors/validation/validation_state.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

validated_sample earned(float reward, std::uint64_t tokens = 1) {
  return {.reward = reward, .tokens = tokens};
}

error broken() {
  return {errc::timed_out, "no tokens"};
}

} // namespace

TEST_SUITE_BEGIN("actors/validation");

TEST_CASE("each sample is taken once, and a run is done when all have ended") {
  validation_round round(4, 4, 2, std::nullopt);
  CHECK(round.take() == 0U);
  CHECK(round.take() == 1U);
  CHECK(round.take() == std::nullopt);
  round.end(1, earned(1));
  CHECK_FALSE(round.done());
  round.end(0, earned(0));
  CHECK(round.done());
}

TEST_CASE("means are over what was scored, accuracy over what earned all") {
  validation_round round(4, 4, 4, 1.0F);
  while (round.take()) {
  }
  round.end(0, earned(1.0F, 3));
  round.end(1, failure(broken()));
  round.end(2, earned(0.25F, 2));
  round.end(3, earned(0.25F, 2));
  const auto sums = round.summary();
  REQUIRE(sums.has_value());
  CHECK(*sums == validation_summary{
                     .samples = 3, .failed = 1, .reward = 0.5, .accuracy = 1.0 / 3.0, .tokens = 7});
}

TEST_CASE("without a full reward there is no accuracy") {
  validation_round round(0, 0, 1, std::nullopt);
  REQUIRE(round.take().has_value());
  round.end(0, earned(1));
  CHECK(round.summary()->accuracy == std::nullopt);
}

TEST_CASE("the order in which samples end changes no digit") {
  const auto mean_of = [](bool backwards) {
    constexpr std::uint64_t count = 100;
    validation_round round(0, 0, count, std::nullopt);
    while (round.take()) {
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t sample = backwards ? count - 1 - i : i;
      round.end(sample, earned(0.1F * static_cast<float>(sample)));
    }
    return round.summary()->reward;
  };
  CHECK(mean_of(false) == mean_of(true));
}

TEST_CASE("a run without a single score is an error that tells the first one's") {
  validation_round round(2, 2, 2, std::nullopt);
  while (round.take()) {
  }
  round.end(0, failure(broken()));
  round.end(1, failure(broken()));
  const auto sums = round.summary();
  REQUIRE_FALSE(sums.has_value());
  CHECK(sums.error().code == errc::unavailable);
  CHECK(sums.error().text.find("none of 2 samples") != std::string::npos);
  CHECK(sums.error().text.find("no tokens") != std::string::npos);
}

TEST_SUITE_END();
