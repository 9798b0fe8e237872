#include "kernels/philox.hpp"
#include "kernels/sampling.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace {

using namespace weir;
using namespace weir::kernels;

const operations& ops() {
  return operations_of(detected_isa());
}

/// Logits whose softmax is {0.5, 0.25, 0.15, 0.1}, in a scrambled order: tokens 2, 0, 3, 1.
const std::vector<float> four_logits{std::log(0.25F), std::log(0.1F), std::log(0.5F),
                                     std::log(0.15F)};

std::vector<double> frequencies(const sampling_options& options, int draws = 20'000) {
  row_sampler sampler(ops(), four_logits.size());
  std::vector<double> counts(four_logits.size(), 0.0);
  for (int index = 0; index < draws; ++index) {
    const double uniform = (index + 0.5) / draws;
    counts[sampler.draw(four_logits, options, uniform).value().token] += 1.0 / draws;
  }
  return counts;
}

void check_frequencies(const sampling_options& options, const std::vector<double>& expected) {
  const std::vector<double> seen = frequencies(options);
  for (std::size_t token = 0; token < expected.size(); ++token) {
    CAPTURE(token);
    CHECK(seen[token] == doctest::Approx(expected[token]).epsilon(0.002));
  }
}

TEST_SUITE("kernels/sampling") {
  TEST_CASE("tokens come as often as the policy says") {
    check_frequencies({}, {0.25, 0.1, 0.5, 0.15});
  }

  TEST_CASE("temperature sharpens the distribution") {
    // Squares of the probabilities, normalized.
    const double total = 0.25 + 0.0625 + 0.0225 + 0.01;
    check_frequencies({.temperature = 0.5F},
                      {0.0625 / total, 0.01 / total, 0.25 / total, 0.0225 / total});
  }

  TEST_CASE("top-k keeps the k most likely tokens") {
    check_frequencies({.top_k = 2}, {1.0 / 3, 0.0, 2.0 / 3, 0.0});
    check_frequencies({.top_k = 9}, {0.25, 0.1, 0.5, 0.15});
  }

  TEST_CASE("top-p keeps the most likely tokens whose sum reaches p") {
    check_frequencies({.top_p = 0.7F}, {1.0 / 3, 0.0, 2.0 / 3, 0.0});
    check_frequencies({.top_p = 1e-6F}, {0.0, 0.0, 1.0, 0.0});
  }

  TEST_CASE("min-p keeps tokens that are likely enough beside the best") {
    check_frequencies({.min_p = 0.25F}, {0.25 / 0.9, 0.0, 0.5 / 0.9, 0.15 / 0.9});
    check_frequencies({.min_p = 1.0F}, {0.0, 0.0, 1.0, 0.0});
  }

  TEST_CASE("filters apply in order: min-p, then top-k, then top-p of what is left") {
    check_frequencies({.top_k = 2, .top_p = 0.6F, .min_p = 0.25F}, {0.0, 0.0, 1.0, 0.0});
    check_frequencies({.top_k = 2, .top_p = 0.7F, .min_p = 0.25F}, {1.0 / 3, 0.0, 2.0 / 3, 0.0});
  }

  TEST_CASE("both log-probabilities are reported") {
    row_sampler sampler(ops(), four_logits.size());
    const auto raw = sampler.draw(four_logits, {}, 0.3).value();
    CHECK(raw.logprob == doctest::Approx(std::log(0.1)));
    CHECK(raw.token == 1);
    CHECK(raw.sampling_logprob == raw.logprob);
    const auto kept = sampler.draw(four_logits, {.top_k = 2}, 0.8).value();
    CHECK(kept.token == 0);
    CHECK(kept.logprob == doctest::Approx(std::log(0.25)));
    CHECK(kept.sampling_logprob == doctest::Approx(std::log(1.0 / 3)).epsilon(1e-5));
    const auto hot = sampler.draw(four_logits, {.temperature = 0.5F}, 0.9).value();
    CHECK(hot.token == 2);
    CHECK(hot.logprob == doctest::Approx(std::log(0.5)));
    CHECK(hot.sampling_logprob == doctest::Approx(std::log(0.25 / 0.345)).epsilon(1e-5));
  }

  TEST_CASE("greedy takes the best token, the lowest among equals, with probability one") {
    const std::vector<float> logits{0.0F, 3.0F, 1.0F, 3.0F};
    row_sampler sampler(ops(), logits.size());
    const auto drawn = sampler.draw(logits, {.temperature = 0.0F}, 0.99).value();
    CHECK(drawn.token == 1);
    CHECK(drawn.sampling_logprob == 0.0F);
    CHECK(drawn.logprob == doctest::Approx(-0.7817).epsilon(1e-3));
  }

  TEST_CASE("equal logits are cut by token id") {
    const std::vector<float> logits(300, 1.0F);
    row_sampler sampler(ops(), logits.size());
    for (int index = 0; index < 100; ++index)
      CHECK(sampler.draw(logits, {.top_k = 3}, index / 100.0).value().token < 3);
  }

  TEST_CASE("a row that is no distribution is an error") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    row_sampler sampler(ops(), 3);
    for (const float temperature : {0.0F, 1.0F, 0.7F}) {
      const sampling_options options{.temperature = temperature, .top_k = 2, .top_p = 0.9F};
      const auto draw = [&](std::vector<float> logits) {
        return sampler.draw(logits, options, 0.5);
      };
      CHECK(draw({0.0F, nan, 1.0F}).error().text ==
            "the logit of token 1 is not a number: the weights have diverged");
      CHECK(draw({0.0F, 1.0F, infinity}).error().code == errc::corrupt);
      CHECK(draw({-infinity, -infinity, -infinity}).error().code == errc::corrupt);
      CHECK(draw({-infinity, 0.0F, -infinity}).value().token == 1);
    }
  }

  TEST_CASE("a token of no weight is never drawn, whatever the number") {
    const std::vector<float> logits{-1000.0F, 0.0F, -1000.0F, 0.0F, -1000.0F};
    row_sampler sampler(ops(), logits.size());
    for (const double uniform : {0.0, 0.25, 0.5, 0.75, 1.0 - 0x1.0p-53})
      CHECK(sampler.draw(logits, {}, uniform).value().token % 2 == 1);
  }

  TEST_CASE("options outside their range are refused by name") {
    CHECK(validate(sampling_options{}).has_value());
    CHECK(validate(sampling_options{.temperature = 0.0F}).has_value());
    CHECK(validate(sampling_options{.temperature = -1.0F}).error().text ==
          "temperature is -1.000000: it must be 0 (greedy) or 0.0001 to 10000");
    CHECK_FALSE(validate(sampling_options{.temperature = std::nanf("")}).has_value());
    CHECK_FALSE(validate(sampling_options{.top_p = 0.0F}).has_value());
    CHECK_FALSE(validate(sampling_options{.top_p = 1.1F}).has_value());
    CHECK_FALSE(validate(sampling_options{.min_p = -0.1F}).has_value());
  }
}

} // namespace
