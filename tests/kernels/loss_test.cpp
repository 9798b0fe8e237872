#include "kernels/loss.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace weir;
using namespace weir::kernels;

namespace {

/// A sample whose ratio, importance weight and distance to the reference are these.
token_sample sample_with(double ratio, double importance, double advantage, double distance = 0.0) {
  token_sample sample;
  sample.logp_prev = -1.0;
  sample.logp_new = -1.0 + std::log(ratio);
  sample.logp_generation = -1.0 - std::log(importance);
  sample.logp_reference = sample.logp_new + distance;
  sample.advantage = advantage;
  return sample;
}

/// The gradient must be the derivative of the loss by logp_new, by central differences.
void check_slope(const loss_options& options, const token_sample& sample) {
  constexpr double step = 1e-6;
  token_sample above = sample;
  token_sample below = sample;
  above.logp_new += step;
  below.logp_new -= step;
  const double slope =
      (evaluate_token(options, above).loss - evaluate_token(options, below).loss) / (2.0 * step);
  CHECK(evaluate_token(options, sample).gradient == doctest::Approx(slope).epsilon(1e-6));
}

} // namespace

TEST_SUITE("kernels/loss") {
  TEST_CASE("on policy the loss is minus the advantage and the gradient too") {
    const token_loss value = evaluate_token({}, sample_with(1.0, 1.0, 0.7));
    CHECK(value.loss == doctest::Approx(-0.7));
    CHECK(value.gradient == doctest::Approx(-0.7));
    CHECK(value.ratio == 1.0);
    CHECK(value.importance == 1.0);
    CHECK(!value.clipped);
  }

  TEST_CASE(
      "a good token is not pushed further than the upper clip, a bad one not below the lower") {
    const token_loss good = evaluate_token({}, sample_with(1.5, 1.0, 2.0));
    CHECK(good.loss == doctest::Approx(-1.2 * 2.0));
    CHECK(good.gradient == 0.0);
    CHECK(good.clipped);
    const token_loss bad = evaluate_token({}, sample_with(0.5, 1.0, -2.0));
    CHECK(bad.loss == doctest::Approx(0.8 * 2.0));
    CHECK(bad.gradient == 0.0);
    CHECK(bad.clipped);
  }

  TEST_CASE("a move in the wrong direction keeps its full gradient") {
    const token_loss good = evaluate_token({}, sample_with(0.5, 1.0, 2.0));
    CHECK(good.loss == doctest::Approx(-0.5 * 2.0));
    CHECK(good.gradient == doctest::Approx(-0.5 * 2.0));
    const token_loss bad = evaluate_token({}, sample_with(5.0, 1.0, -2.0));
    CHECK(bad.loss == doctest::Approx(5.0 * 2.0));
    CHECK(bad.gradient == doctest::Approx(5.0 * 2.0));
    CHECK(!bad.clipped);
  }

  TEST_CASE("dual clip bounds the loss of a bad token, and leaves good ones alone") {
    loss_options options;
    options.ratio_clip_c = 3.0;
    const token_loss bad = evaluate_token(options, sample_with(5.0, 1.0, -2.0));
    CHECK(bad.loss == doctest::Approx(3.0 * 2.0));
    CHECK(bad.gradient == 0.0);
    CHECK(bad.clipped);
    CHECK(evaluate_token(options, sample_with(2.0, 1.0, -2.0)).loss == doctest::Approx(4.0));
    CHECK(evaluate_token(options, sample_with(0.1, 1.0, 2.0)).loss == doctest::Approx(-0.2));
  }

  TEST_CASE("importance weights scale the surrogate, are capped, and can be off") {
    loss_options options;
    const token_sample sample = sample_with(1.0, 4.0, 1.0);
    CHECK(evaluate_token(options, sample).loss == doctest::Approx(-4.0));
    CHECK(evaluate_token(options, sample).gradient == doctest::Approx(-4.0));
    options.importance_sampling_max = 2.0;
    CHECK(evaluate_token(options, sample).loss == doctest::Approx(-2.0));
    CHECK(evaluate_token(options, sample).importance == 2.0);
    options.use_importance_sampling_correction = false;
    CHECK(evaluate_token(options, sample).loss == doctest::Approx(-1.0));
    CHECK(evaluate_token(options, sample).importance == 1.0);
  }

  TEST_CASE("the KL penalty is exp(d) - d - 1 and is not weighted by importance") {
    loss_options options;
    options.reference_policy_kl_penalty = 0.1;
    const token_loss value = evaluate_token(options, sample_with(1.0, 3.0, 0.0, 0.5));
    CHECK(value.kl == doctest::Approx(std::exp(0.5) - 0.5 - 1.0));
    CHECK(value.loss == doctest::Approx(0.1 * (std::exp(0.5) - 1.5)));
    CHECK(value.gradient == doctest::Approx(0.1 * (1.0 - std::exp(0.5))));
    CHECK(evaluate_token(options, sample_with(1.0, 1.0, 0.0, 0.0)).kl == 0.0);
  }

  TEST_CASE("the gradient is the derivative of the loss on each side of each kink") {
    loss_options options;
    options.ratio_clip_c = 3.0;
    options.reference_policy_kl_penalty = 0.05;
    options.importance_sampling_max = 2.0;
    for (const double ratio : {0.3, 0.79, 0.81, 1.0, 1.19, 1.21, 2.9, 3.1})
      for (const double advantage : {-1.5, 0.0, 0.8}) {
        CAPTURE(ratio);
        CAPTURE(advantage);
        check_slope(options, sample_with(ratio, 1.3, advantage, -0.4));
      }
  }

  TEST_CASE("the log-probability error of a sequence is 1 in agreement and skips masked tokens") {
    const float prev[] = {-1.0F, -2.0F, -3.0F};
    const float generation[] = {-1.0F, -4.0F, -3.5F};
    const std::uint8_t all[] = {1, 1, 1};
    const std::uint8_t some[] = {1, 0, 1};
    const std::uint8_t none[] = {0, 0, 0};
    CHECK(sequence_logprob_error(prev, prev, all) == 1.0);
    CHECK(sequence_logprob_error(prev, generation, all) ==
          doctest::Approx((1.0 + std::exp(2.0) + std::exp(0.5)) / 3.0));
    CHECK(sequence_logprob_error(prev, generation, some) ==
          doctest::Approx((1.0 + std::exp(0.5)) / 2.0));
    CHECK(sequence_logprob_error(prev, generation, none) == 1.0);
  }

  TEST_CASE("options without meaning are refused by key") {
    const auto text_of = [](const loss_options& options) {
      const result<void> valid = validate(options);
      return valid ? std::string() : valid.error().text;
    };
    CHECK(text_of({}).empty());
    CHECK(text_of({.ratio_clip_min = -0.1}).find("loss_fn.ratio_clip_min") == 0);
    CHECK(text_of({.ratio_clip_max = std::nan("")}).find("loss_fn.ratio_clip_max") == 0);
    CHECK(text_of({.ratio_clip_c = 1.0}).find("loss_fn.ratio_clip_c") == 0);
    CHECK(text_of({.importance_sampling_max = 0.0}).find("loss_fn.importance_sampling_max") == 0);
    CHECK(text_of({.reference_policy_kl_penalty = -1.0}).find("loss_fn.reference") == 0);
    CHECK(text_of({.seq_logprob_error_threshold = 0.5}).find("loss_fn.seq_logprob") == 0);
  }
}
