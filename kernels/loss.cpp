#include "kernels/loss.hpp"

#include <algorithm>
#include <cmath>

namespace weir::kernels {

namespace {

/// -surrogate and its derivative by the ratio, without the importance weight.
struct clipped_surrogate {
  double value = 0.0;
  double slope = 0.0;
  bool clipped = false;
};

clipped_surrogate clip(const loss_options& options, double ratio, double advantage) {
  const double bounded =
      std::clamp(ratio, 1.0 - options.ratio_clip_min, 1.0 + options.ratio_clip_max);
  clipped_surrogate result{ratio * advantage, advantage, false};
  if (bounded * advantage < result.value) result = {bounded * advantage, 0.0, true};
  if (options.ratio_clip_c && advantage < 0.0 && *options.ratio_clip_c * advantage > result.value)
    result = {*options.ratio_clip_c * advantage, 0.0, true};
  return result;
}

result<void> refuse(const char* text) {
  return failure(errc::invalid_argument, text);
}

} // namespace

result<void> validate(const loss_options& options) {
  if (!(options.ratio_clip_min >= 0.0) || options.ratio_clip_min > 1.0)
    return refuse("loss_fn.ratio_clip_min must be between 0 and 1");
  if (!(options.ratio_clip_max >= 0.0))
    return refuse("loss_fn.ratio_clip_max must not be negative");
  if (options.ratio_clip_c && !(*options.ratio_clip_c > 1.0))
    return refuse("loss_fn.ratio_clip_c must be above 1, or null");
  if (options.importance_sampling_max && !(*options.importance_sampling_max > 0.0))
    return refuse("loss_fn.importance_sampling_max must be positive, or null");
  if (!(options.reference_policy_kl_penalty >= 0.0))
    return refuse("loss_fn.reference_policy_kl_penalty must not be negative");
  if (options.seq_logprob_error_threshold && !(*options.seq_logprob_error_threshold >= 1.0))
    return refuse("loss_fn.seq_logprob_error_threshold must be at least 1, or null");
  return {};
}

token_loss evaluate_token(const loss_options& options, const token_sample& sample) {
  token_loss result;
  result.ratio = std::exp(sample.logp_new - sample.logp_prev);
  if (options.use_importance_sampling_correction) {
    result.importance = std::exp(sample.logp_prev - sample.logp_generation);
    if (options.importance_sampling_max)
      result.importance = std::min(result.importance, *options.importance_sampling_max);
  }
  const clipped_surrogate surrogate = clip(options, result.ratio, sample.advantage);
  result.clipped = surrogate.clipped;
  result.loss = -result.importance * surrogate.value;
  // d ratio / d logp_new = ratio.
  result.gradient = -result.importance * surrogate.slope * result.ratio;
  if (options.reference_policy_kl_penalty > 0.0) {
    const double distance = sample.logp_reference - sample.logp_new;
    const double power = std::exp(distance);
    result.kl = power - distance - 1.0;
    result.loss += options.reference_policy_kl_penalty * result.kl;
    result.gradient += options.reference_policy_kl_penalty * (1.0 - power);
  }
  return result;
}

double sequence_logprob_error(std::span<const float> prev, std::span<const float> generation,
                              std::span<const std::uint8_t> valid) {
  ensure(prev.size() == generation.size() && prev.size() == valid.size(),
         "log-probabilities and mask have one entry per token");
  double total = 0.0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < prev.size(); ++i) {
    if (valid[i] == 0) continue;
    total += std::exp(std::abs(double{prev[i]} - double{generation[i]}));
    ++count;
  }
  return count == 0 ? 1.0 : total / static_cast<double>(count);
}

} // namespace weir::kernels
