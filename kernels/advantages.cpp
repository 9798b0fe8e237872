#include "kernels/advantages.hpp"

#include <algorithm>
#include <cmath>

namespace weir::kernels {

namespace {

/// Square root of the unbiased variance.
double standard_deviation(std::span<const float> rewards, double mean) {
  double squares = 0.0;
  for (const float reward : rewards)
    squares += (double{reward} - mean) * (double{reward} - mean);
  return std::sqrt(squares / (static_cast<double>(rewards.size()) - 1.0));
}

} // namespace

result<void> validate(const advantage_options& options) {
  if (options.advantage_clip_low && options.advantage_clip_high &&
      *options.advantage_clip_low > *options.advantage_clip_high)
    return failure(errc::invalid_argument,
                   "grpo.advantage_clip_low is above grpo.advantage_clip_high");
  return {};
}

void compute_advantages(const advantage_options& options, std::span<const float> rewards,
                        std::span<float> advantages) {
  ensure(rewards.size() == advantages.size(), "one advantage per reward");
  const bool equal = std::all_of(rewards.begin(), rewards.end(),
                                 [&](float reward) { return reward == rewards.front(); });
  if (equal) {
    // Not left to rounding: tiny differences over a tiny deviation would be large advantages.
    std::fill(advantages.begin(), advantages.end(), 0.0F);
    return;
  }
  const auto count = static_cast<double>(rewards.size());
  double total = 0.0;
  for (const float reward : rewards)
    total += double{reward};
  const double mean = total / count;
  const double divisor = options.normalize_rewards ? standard_deviation(rewards, mean) + 1e-6 : 1.0;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const double reward = double{rewards[i]};
    const double baseline =
        options.use_leave_one_out_baseline ? (total - reward) / (count - 1.0) : mean;
    double advantage = (reward - baseline) / divisor;
    if (options.advantage_clip_low) advantage = std::max(advantage, *options.advantage_clip_low);
    if (options.advantage_clip_high) advantage = std::min(advantage, *options.advantage_clip_high);
    advantages[i] = static_cast<float>(advantage);
  }
}

} // namespace weir::kernels
