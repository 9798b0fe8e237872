/// One training step: forward, loss, backward, clipping, AdamW.
///
/// Out of place: `before` is only read, so a checkpoint may go on reading it; `after` is written
/// last, and a step that fails leaves it as it was. The same inputs give the same bits whatever the
/// number of threads: groups are dealt to a fixed number of gradient buffers (group i to buffer
/// i mod 4), each of which takes its groups in order, and the buffers are added in order.
///
/// A step may get its groups in chunks, as they come: gradients are summed over tokens, and divided
/// by the number of valid tokens of the whole step at its end. So the same groups in the same order
/// give the same bits, however they were cut into chunks.
#pragma once

#include "kernels/loss.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/scorer.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weir::kernels {

/// What a step did. Means are over the valid tokens of the step.
struct step_report {
  double loss = 0.0;
  double grad_norm = 0.0;       ///< Before clipping.
  double mean_ratio = 1.0;      ///< exp(logp_new - logp_prev): 1, as one step is one update.
  double clip_fraction = 0.0;   ///< Of tokens whose clipped side was taken.
  double mean_importance = 1.0; ///< Importance weights, after the cap.
  double max_importance = 1.0;
  double approx_kl = 0.0;     ///< k3 estimate of KL(generation policy, trainer before the step).
  double reference_kl = 0.0;  ///< The penalty's estimate; 0 without a reference.
  double mean_logprob = 0.0;  ///< Of the trainer before the step.
  double logprob_error = 1.0; ///< Mean of exp(|logp_prev - logp_generation|).
  std::uint64_t valid_tokens = 0;     ///< Tokens in the loss.
  std::uint64_t computed_rows = 0;    ///< Rows that the model was run on (shared prompts once).
  std::uint64_t masked_sequences = 0; ///< Left out by `seq_logprob_error_threshold`.
};

/// Trains one model shape. Keeps its memory from step to step: none is allocated once it has seen
/// its largest step. One call at a time.
class trainer {
public:
  /// @pre the configuration is valid.
  trainer(const model_config& config, const compute_options& options);

  /// One reinforcement-learning step over all groups. `prev` is the trainer before the step itself.
  /// Fails with `invalid_argument` (options, or a sequence that does not fit; no valid token),
  /// `corrupt` (loss or gradient is not finite) or `cancelled`; `after` is unchanged then.
  /// The same as `begin_step`, one `add_groups` and `finish_step`.
  [[nodiscard]] result<step_report>
  policy_step(const training_state& before, std::span<const group> groups, const loss_options& loss,
              const optimizer_options& optimizer, training_state& after);

  /// Opens a step at these weights, and forgets one that was open. `loss` is copied.
  /// Fails with `invalid_argument` for the options.
  [[nodiscard]] result<void> begin_step(std::span<const float> weights, const loss_options& loss);
  /// Adds the gradients of the next groups of the open step; returns their valid tokens. Groups
  /// without one change nothing. A chunk that fails ends the step: begin it again.
  [[nodiscard]] result<std::uint64_t> add_groups(std::span<const group> groups);
  /// Ends the open step: one update over all its groups. @pre the step was begun at `before`.
  [[nodiscard]] result<step_report> finish_step(const training_state& before,
                                                const optimizer_options& optimizer,
                                                training_state& after);

  /// One step of cross-entropy, the mean over all completion tokens in the masks. Fails as above.
  [[nodiscard]] result<step_report> supervised_step(const training_state& before,
                                                    std::span<const sequence> sequences,
                                                    const optimizer_options& optimizer,
                                                    training_state& after);

  /// The loss and its gradients by every parameter, without an update, for tests and probes; the
  /// span is valid until the next call.
  [[nodiscard]] result<step_report> policy_gradients(std::span<const float> weights,
                                                     std::span<const group> groups,
                                                     const loss_options& loss);
  [[nodiscard]] result<step_report> supervised_gradients(std::span<const float> weights,
                                                         std::span<const sequence> sequences);
  [[nodiscard]] std::span<const float> gradients() const noexcept {
    return gradient_buffers_[0].values();
  }

private:
  static constexpr std::size_t gradient_buffer_count = 4;

  /// Sums over the tokens of one group; of a step, added up in the order of its groups.
  struct group_sums {
    double loss = 0.0, ratio = 0.0, clipped = 0.0, importance = 0.0, max_importance = 0.0;
    double approx_kl = 0.0, reference_kl = 0.0, logprob = 0.0, logprob_error = 0.0;
    std::uint64_t rows = 0;

    void add(const group_sums& other);
  };
  /// A step between its begin and its end.
  struct open_step {
    std::optional<loss_options> loss; ///< None: cross-entropy.
    step_report report;
    group_sums sums;
    std::size_t groups = 0;
    std::uint64_t valid_sequences = 0;
  };

  void copy_groups(std::span<const group> groups);
  [[nodiscard]] result<void> mask_sequences(double threshold);
  void open(std::span<const float> weights, std::optional<loss_options> loss);
  [[nodiscard]] std::uint64_t count_tokens();
  [[nodiscard]] result<std::uint64_t> accumulate();
  void run_group(std::size_t index, std::size_t thread, std::span<float> gradients);
  [[nodiscard]] bool seed_gradients(std::size_t index, std::size_t thread);
  [[nodiscard]] result<step_report> summarize();
  [[nodiscard]] bool is_cancelled() const noexcept;
  void add_gradient_buffers(float scale);
  [[nodiscard]] result<step_report> update(const training_state& before,
                                           const optimizer_options& optimizer, step_report report,
                                           training_state& after);

  compute_options options_;
  thread_pool pool_;
  transformer model_;
  /// Memory of one thread.
  struct thread_memory {
    row_plan plan;
    activations work;
    std::vector<float> logprobs;     ///< Of each prediction.
    std::vector<float> coefficients; ///< d loss / d logprob of each prediction.
    std::vector<float> factors;      ///< Sum of the coefficients of each head row.
  };
  std::vector<thread_memory> memory_;
  std::array<float_buffer, gradient_buffer_count> gradient_buffers_;
  open_step step_;
  // Of the chunk at hand.
  std::vector<group_sums> sums_;
  std::vector<sequence> sequences_; ///< Copies (of spans), so that masks can be replaced.
  std::vector<group> groups_;
  std::vector<float> prev_logprobs_;
  std::vector<std::size_t> first_token_; ///< Of each group in `prev_logprobs_`.
  std::vector<std::uint8_t> no_tokens_;  ///< A mask of zeros.
};

} // namespace weir::kernels
