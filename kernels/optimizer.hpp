/// AdamW (arXiv 1711.05101) over flat buffers, and clipping of gradients by their global norm.
#pragma once

#include "kernels/model.hpp"
#include "kernels/ops.hpp"
#include "kernels/parallel.hpp"

#include <cstdint>
#include <span>

namespace weir::kernels {

/// Names and defaults are those of the configuration's `policy.optimizer` and `max_grad_norm`.
struct optimizer_options {
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< Decoupled; applied to every parameter, as torch.optim.AdamW does.
  double max_grad_norm = 1.0; ///< 0 = no clipping.
};

/// Refuses values without meaning, naming the key.
[[nodiscard]] result<void> validate(const optimizer_options& options);

/// Everything that an optimizer step changes. Three flat buffers in the model's layout.
struct training_state {
  model_config config;
  float_buffer weights;
  float_buffer first_moments;
  float_buffer second_moments;
  std::uint64_t optimizer_step = 0; ///< Steps taken; the bias correction of the next uses this + 1.
};

/// A state at step 0 around these weights. @pre their size is the layout's.
[[nodiscard]] training_state begin_training(const model_config& config, float_buffer weights);

/// Euclidean norm: float sums of fixed blocks of 4096, added in order in double.
[[nodiscard]] double global_norm(const operations& ops, std::span<const float> gradients);

/// One bias-corrected step out of place: reads `before`, writes `after`, whose buffers are
/// allocated if their size differs. Element-wise, so the number of threads does not matter.
/// `gradient_scale` multiplies each gradient first.
void adamw_step(const operations& ops, thread_pool& pool, const optimizer_options& options,
                const training_state& before, std::span<const float> gradients,
                double gradient_scale, training_state& after);

} // namespace weir::kernels
