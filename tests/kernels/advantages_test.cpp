#include "kernels/advantages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace weir::kernels;

namespace {

std::vector<float> advantages_of(const advantage_options& options,
                                 const std::vector<float>& rewards) {
  std::vector<float> advantages(rewards.size(), 99.0F);
  compute_advantages(options, rewards, advantages);
  return advantages;
}

} // namespace

TEST_SUITE("kernels/advantages") {
  TEST_CASE("leave-one-out subtracts the mean of the others") {
    const auto a = advantages_of({.normalize_rewards = false}, {1.0F, 0.0F, 0.5F});
    CHECK(a[0] == doctest::Approx(1.0 - 0.25));
    CHECK(a[1] == doctest::Approx(0.0 - 0.75));
    CHECK(a[2] == doctest::Approx(0.0));
  }

  TEST_CASE("the plain baseline is the mean of all") {
    const auto a = advantages_of({.normalize_rewards = false, .use_leave_one_out_baseline = false},
                                 {1.0F, 0.0F, 0.0F, 0.0F});
    CHECK(a[0] == doctest::Approx(0.75));
    CHECK(a[1] == doctest::Approx(-0.25));
  }

  TEST_CASE("normalization divides by the unbiased deviation of the group plus 1e-6") {
    const auto a = advantages_of({}, {1.0F, 0.0F});
    const double deviation = std::sqrt(0.5);
    CHECK(a[0] == doctest::Approx(1.0 / (deviation + 1e-6)));
    CHECK(a[1] == doctest::Approx(-1.0 / (deviation + 1e-6)));
  }

  TEST_CASE("equal rewards give exactly zero, also those that do not sum exactly") {
    CHECK(advantages_of({}, {0.1F, 0.1F, 0.1F}) == std::vector<float>(3, 0.0F));
    CHECK(advantages_of({}, {1.0F, 1.0F}) == std::vector<float>(2, 0.0F));
  }

  TEST_CASE("a group of one has no baseline and no advantage; none has none") {
    CHECK(advantages_of({}, {5.0F}) == std::vector<float>(1, 0.0F));
    CHECK(advantages_of({}, {}).empty());
  }

  TEST_CASE("clipping bounds each side on its own") {
    advantage_options options;
    options.normalize_rewards = false;
    options.advantage_clip_low = -0.2;
    CHECK(advantages_of(options, {1.0F, 0.0F}) == std::vector<float>{1.0F, -0.2F});
    options.advantage_clip_high = 0.5;
    CHECK(advantages_of(options, {1.0F, 0.0F}) == std::vector<float>{0.5F, -0.2F});
  }

  TEST_CASE("crossed bounds are refused by key") {
    advantage_options options;
    CHECK(validate(options).has_value());
    options.advantage_clip_low = 1.0;
    options.advantage_clip_high = -1.0;
    const auto refused = validate(options);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().text.find("grpo.advantage_clip_low") == 0);
  }
}
