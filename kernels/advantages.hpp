/// Advantages of the generations of one prompt group, from their rewards (GRPO).
#pragma once

#include "messages/error.hpp"

#include <optional>
#include <span>

namespace weir::kernels {

/// Names and defaults are those of the configuration's block `grpo`.
struct advantage_options {
  bool normalize_rewards = true;
  bool use_leave_one_out_baseline = true;
  std::optional<double> advantage_clip_low = std::nullopt;
  std::optional<double> advantage_clip_high = std::nullopt;
};

/// Refuses bounds that cross each other.
[[nodiscard]] result<void> validate(const advantage_options& options);

/// advantages[j] = rewards[j] - baseline_j, where the baseline is the mean of the others (leave one
/// out) or of all; divided by the group's unbiased standard deviation + 1e-6 if normalized, then
/// clipped. A group whose rewards are all equal, or that has one member, has advantages of zero.
/// @pre both spans have the same size.
void compute_advantages(const advantage_options& options, std::span<const float> rewards,
                        std::span<float> advantages);

} // namespace weir::kernels
