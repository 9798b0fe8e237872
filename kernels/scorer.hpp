/// Log-probabilities of given tokens: of the trainer's weights before a step, of a reference
/// policy, of a validation set.
#pragma once

#include "kernels/transformer.hpp"
#include "messages/error.hpp"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace weir::kernels {

/// The siblings of one prompt: neighbours with the same prompt share its computation.
struct group {
  std::span<const sequence> sequences;
};

struct compute_options {
  std::uint32_t threads = 1; ///< The calling thread included.
  std::int32_t niceness = 0; ///< Of the other threads, see `thread_pool_options`.
  isa_level isa = detected_isa();
  /// Looked at between groups: when it becomes true, the call fails with `cancelled`.
  const std::atomic<bool>* cancelled = nullptr;
};

/// Refuses sequences that a model cannot take, naming group, sequence and number.
[[nodiscard]] result<void> validate(const model_config& config, std::span<const group> groups);

/// Runs the model on one group and writes the log-probability of each completion token, sequence by
/// sequence. Returns how many it wrote. Keeps the forward pass in `work` for a backward pass.
std::size_t score_group(const transformer& model, const group& one, row_plan& plan,
                        activations& work, float* logprobs);

/// Scores with one set of weights at a time. Keeps its memory from call to call.
class scorer {
public:
  /// @pre the configuration is valid.
  scorer(const model_config& config, const compute_options& options);

  /// Writes the log-probability of every completion token: group by group, sequence by sequence.
  /// @pre `logprobs` has one entry per completion token.
  /// Fails with `invalid_argument` (a sequence that does not fit the model) or `cancelled`.
  [[nodiscard]] result<void> score(std::span<const float> weights, std::span<const group> groups,
                                   std::span<float> logprobs);

private:
  compute_options options_;
  thread_pool pool_;
  transformer model_;
  std::vector<row_plan> plans_; ///< One per thread, like `work_`.
  std::vector<activations> work_;
  std::vector<std::size_t> first_token_; ///< Of each group in the output.
};

} // namespace weir::kernels
