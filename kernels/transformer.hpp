/// Forward and backward pass of the whole model over the rows of a plan, on one thread.
///
/// The forward pass does to each row exactly what the decoder does, in the same order: the
/// log-probabilities of a generated token have the same bits in both (transformer_test,
/// decoder_agreement_test), so that an importance weight on policy is exactly 1.
#pragma once

#include "kernels/activations.hpp"
#include "kernels/matmul.hpp"
#include "kernels/model.hpp"
#include "kernels/ops.hpp"
#include "kernels/parallel.hpp"
#include "kernels/rope.hpp"
#include "kernels/row_plan.hpp"

#include <span>
#include <vector>

namespace weir::kernels {

class transformer {
public:
  /// @pre the configuration is valid and the level usable here.
  transformer(const model_config& config, isa_level isa);

  /// Packs the weights of a version. They are read until the next `load`: the caller keeps them.
  void load(std::span<const float> weights, thread_pool& pool);

  /// Computes logits and their log-sum-exps of the plan's head rows. @pre `prepare`d activations.
  void forward(const row_plan& plan, activations& work) const;

  /// Adds the gradients of all parameters to `gradients`, given those of the logits in
  /// `work.logits`. @pre `forward` ran on the same plan and activations.
  void backward(const row_plan& plan, activations& work, std::span<float> gradients) const;

  [[nodiscard]] const model_config& config() const noexcept { return config_; }
  [[nodiscard]] const parameter_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const operations& ops() const noexcept { return ops_; }

private:
  struct packed_layer {
    packed_matrix q, k, v, o, gate, up, down;
  };
  /// Gradients of one weight matrix and of its product's input.
  struct product_gradient {
    std::size_t weight = 0; ///< Offset of the matrix `[outputs, inputs]`.
    std::size_t outputs = 0;
    std::size_t inputs = 0;
    const float* x = nullptr;
    const float* dy = nullptr;
    float* dx = nullptr;
    write_mode mode = write_mode::overwrite; ///< Of dx; the weight's gradient is added to.
  };

  void attend(const row_plan& plan, activations& work, std::size_t layer) const;
  void project(const row_plan& plan, activations& work, std::size_t layer) const;
  void turn_heads(const row_plan& plan, activations& work, std::size_t layer) const;
  void feed_forward(const row_plan& plan, activations& work, std::size_t layer) const;
  void norm_rows(const float* x, std::size_t weight, float* y, float* scales,
                 std::size_t rows) const;
  void apply(const packed_matrix& matrix, const float* x, float* y, std::size_t rows,
             write_mode mode = write_mode::overwrite) const;
  void add_bias(std::size_t bias, float* y, std::size_t rows, std::size_t columns) const;

  void head_backward(const row_plan& plan, activations& work, float* gradients) const;
  void feed_forward_backward(const row_plan& plan, activations& work, std::size_t layer,
                             float* gradients) const;
  void attend_backward(const row_plan& plan, activations& work, std::size_t layer,
                       float* gradients) const;
  void turn_heads_backward(const row_plan& plan, activations& work, std::size_t layer,
                           float* gradients) const;
  void project_backward(const row_plan& plan, activations& work, std::size_t layer,
                        float* gradients) const;
  void product_backward(const product_gradient& product, std::size_t rows, float* gradients) const;
  void bias_backward(std::size_t bias, const float* dy, std::size_t rows, std::size_t columns,
                     float* gradients) const;
  void norm_rows_backward(const float* x, std::size_t weight, const float* scales,
                          activations& work, std::size_t rows, float* gradients) const;

  [[nodiscard]] attention_shape shape(const activations& work) const;
  [[nodiscard]] const float* weight(std::size_t offset) const { return weights_.data() + offset; }
  [[nodiscard]] std::size_t query_size() const {
    return std::size_t{config_.heads} * config_.head_size;
  }
  [[nodiscard]] std::size_t key_size() const {
    return std::size_t{config_.kv_heads} * config_.head_size;
  }

  model_config config_;
  const operations& ops_;
  parameter_layout layout_;
  rope_table rope_;
  std::vector<packed_layer> layers_;
  packed_matrix head_;
  std::span<const float> weights_;
};

/// Rearranges `[rows, features]` as `[features, stride]`.
void turn_rows(const float* rows_first, std::size_t rows, std::size_t features, float* turned,
               std::size_t stride) noexcept;

} // namespace weir::kernels
