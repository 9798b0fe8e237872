/// The policy-gradient loss of one token: clipped ratio, importance weight, dual clip, penalty for
/// leaving a reference policy (GRPO, arXiv 2402.03300; PPO, 1707.06347; dual clip, 1912.09729).
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace weir::kernels {

/// Names and defaults are those of the configuration's block `loss_fn`.
struct loss_options {
  double ratio_clip_min = 0.2;
  double ratio_clip_max = 0.2;
  std::optional<double> ratio_clip_c = std::nullopt; ///< Dual clip, > 1; none = off.
  bool use_importance_sampling_correction = true;
  std::optional<double> importance_sampling_max =
      std::nullopt; ///< Cap of the importance weight; none = no cap.
  double reference_policy_kl_penalty = 0.0;
  /// True: mean over all valid tokens of the step. False: mean over each sequence's valid tokens,
  /// then over the sequences that have any.
  bool token_level_loss = true;
  /// Leaves a sequence out of the step when the mean over its valid tokens of
  /// exp(|logp_prev - logp_generation|) is above this; none = off. 1 is perfect agreement.
  std::optional<double> seq_logprob_error_threshold = std::nullopt;
};

/// Refuses options that contradict each other or have no meaning, naming the key.
[[nodiscard]] result<void> validate(const loss_options& options);

/// What is known of one generated token.
struct token_sample {
  double logp_new = 0.0;        ///< Under the weights being trained.
  double logp_prev = 0.0;       ///< Under the trainer's weights before the step.
  double logp_generation = 0.0; ///< Under the weights that generated it.
  double logp_reference = 0.0;  ///< Under the reference policy; unused without the penalty.
  double advantage = 0.0;
};

struct token_loss {
  double loss = 0.0;
  double gradient = 0.0; ///< d loss / d logp_new; everything else is constant.
  double ratio = 1.0;    ///< exp(logp_new - logp_prev).
  double importance = 1.0;
  bool clipped = false; ///< The clipped side, which has no gradient, was the smaller one.
  double kl = 0.0;      ///< exp(d) - d - 1 with d = logp_reference - logp_new.
};

[[nodiscard]] token_loss evaluate_token(const loss_options& options, const token_sample& sample);

/// Mean of exp(|prev - generation|): what `seq_logprob_error_threshold` bounds. 1 for no token.
[[nodiscard]] double sequence_logprob_error(std::span<const float> prev,
                                            std::span<const float> generation,
                                            std::span<const std::uint8_t> valid);

} // namespace weir::kernels
