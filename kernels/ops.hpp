/// The row operations of the model on the CPU, one table of functions per instruction set.
///
/// Every function is pure arithmetic over plain pointers: no allocation, no thread, no state. Each
/// output element is computed by one fixed sequence of operations that depends on nothing but the
/// element's own inputs, so its bits do not change with the batch, with the row's place in it, with
/// how a cache is cut into blocks or with the number of threads. Sums run in 16 lanes (element i in
/// lane i mod 16) that are added in the fixed order of a halving tree.
///
/// Accuracy against the exact result: exp and silu within 2 and 4 units in the last place, results
/// below 2^-126 flushed to zero.
#pragma once

#include "kernels/cpu_features.hpp"

#include <cstddef>
#include <cstdint>

namespace weir::kernels {

/// How `operations::tile_product` sees its three matrices: C[row, column] (+)= sum over k, in
/// order, of A[row, k] x B[k, column]. `columns` <= 32 is one panel; strides are in floats.
struct tile_operands {
  const float* a = nullptr;
  std::size_t a_row_stride = 0;
  std::size_t a_depth_stride = 0;
  const float* b = nullptr;
  std::size_t b_stride = 0; ///< Between rows k of B; 32 in a packed panel.
  float* c = nullptr;
  std::size_t c_stride = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t depth = 0;
  bool accumulate = false; ///< Start from C instead of zero.
};

/// Some consecutive tokens of one sequence in a key/value cache, for example a block of 16 of a
/// paged one. Keys are kept transposed, so that one vector holds 16 tokens.
struct key_value_run {
  const float* keys = nullptr;   ///< Element (feature f, token t) at f x key_stride + t.
  const float* values = nullptr; ///< Element (token t, feature f) at t x value_stride + f.
  std::size_t tokens = 0;
};

/// Shape of attention of one query row over the runs of its sequence. Strides are in floats. Keys
/// are read in vectors of 16 tokens: up to 15 floats after a run's last token must be readable and
/// finite (they do not change the result).
struct attention_shape {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_size = 0;
  std::size_t key_stride = 0;        ///< Between features of a key head; 16 in a block of 16.
  std::size_t key_head_stride = 0;   ///< Between key/value heads, in `keys`.
  std::size_t value_stride = 0;      ///< Between tokens, in `values`.
  std::size_t value_head_stride = 0; ///< Between key/value heads, in `values`.
};

/// `key_value_run` with what the gradient of attention needs besides.
struct key_value_gradient_run {
  const float* keys = nullptr;      ///< Transposed, as in `key_value_run`.
  const float* values = nullptr;    ///< Transposed like `keys`.
  const float* key_rows = nullptr;  ///< Element (token t, feature f) at t x value_stride + f.
  float* key_gradients = nullptr;   ///< Laid out like `key_rows`; added to.
  float* value_gradients = nullptr; ///< Laid out like `key_rows`; added to.
  std::size_t tokens = 0;
};

/// One query row of the gradient of attention.
struct attention_gradient_row {
  const float* query = nullptr;
  const float* output_gradient = nullptr;
  float* query_gradient = nullptr;
};

/// Operands of the gradient of RMSNorm over one row.
struct rms_norm_gradient {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* dy = nullptr;
  float scale = 0.0F;
  float* dx = nullptr;      ///< Added to, or overwritten if `overwrite`. May be dy then.
  float* dweight = nullptr; ///< Added to.
  std::size_t size = 0;
  bool overwrite = false;
};

/// What one AdamW update of some consecutive parameters reads and writes (optimizer.hpp).
struct adamw_operands {
  const float* weights = nullptr;
  const float* first_moments = nullptr;
  const float* second_moments = nullptr;
  const float* gradients = nullptr;
  float* weights_after = nullptr;
  float* first_moments_after = nullptr;
  float* second_moments_after = nullptr;
  std::size_t size = 0;
  float gradient_scale = 1.0F; ///< Of gradient clipping.
  float beta1 = 0.0F;
  float beta2 = 0.0F;
  float step_size = 0.0F;           ///< lr / (1 - beta1^t).
  float inverse_correction2 = 0.0F; ///< 1 / (1 - beta2^t).
  float epsilon = 0.0F;
  float decay = 0.0F; ///< lr x weight_decay.
};

/// One level's functions. Rows are contiguous; nothing may overlap unless said.
struct operations {
  isa_level level = isa_level::generic;

  /// One panel of a matrix product, see `tile_operands`.
  void (*tile_product)(const tile_operands& operands) = nullptr;

  /// y = x / sqrt(mean(x^2) + epsilon) x weight. y may be x. Returns 1 / sqrt(...).
  float (*rms_norm)(const float* x, const float* weight, float* y, std::size_t size,
                    float epsilon) = nullptr;

  /// Rotates `heads` contiguous heads in place: pair (i, i + head_size / 2) by the angle whose
  /// cosine and sine are given for i < head_size / 2.
  void (*rope)(float* row, std::size_t heads, std::size_t head_size, const float* cosines,
               const float* sines) = nullptr;

  /// y = silu(gate) x up. y may be gate or up.
  void (*swiglu)(const float* gate, const float* up, float* y, std::size_t size) = nullptr;

  /// y += x.
  void (*add)(float* y, const float* x, std::size_t size) = nullptr;

  /// y = exp(x). y may be x.
  void (*exponential)(const float* x, float* y, std::size_t size) = nullptr;

  /// max + log(sum(exp(x - max))): the log-probability of token t is x[t] minus this.
  float (*log_sum_exp)(const float* x, std::size_t size) = nullptr;

  /// Causal attention of one query row (`[heads, head_size]`, already rotated) over all tokens of
  /// `runs`, its own included; the output row has the shape of the query. Scores are scaled by
  /// 1 / sqrt(head_size). `scratch` holds at least the number of tokens + 32 floats.
  void (*attention_row)(const attention_shape& shape, const key_value_run* runs,
                        std::size_t run_count, const float* query, float* output,
                        float* scratch) = nullptr;

  // -- what training adds: gradients are added to, unless said ------------------------------------

  /// Inverse of `rope`: its gradient.
  void (*rope_backward)(float* row, std::size_t heads, std::size_t head_size, const float* cosines,
                        const float* sines) = nullptr;

  /// Gradients of y = rms_norm(x): `scale` is what the forward function returned, `dy` that of y.
  void (*rms_norm_backward)(const rms_norm_gradient& operands) = nullptr;

  /// Gradients of y = silu(gate) x up; overwrites gate and up by their gradients.
  void (*swiglu_backward)(float* gate, float* up, const float* dy, std::size_t size) = nullptr;

  /// Overwrites logits by factor x softmax(logits), given their log-sum-exp.
  void (*scaled_softmax)(float* logits, float log_sum, float factor, std::size_t size) = nullptr;

  /// Gradient of `attention_row`: overwrites `query_gradient`, adds to those of keys and values.
  /// `scratch` holds at least three times (tokens + 32) floats.
  void (*attention_row_backward)(const attention_shape& shape, const key_value_gradient_run* runs,
                                 std::size_t run_count, const attention_gradient_row& row,
                                 float* scratch) = nullptr;

  /// One AdamW update, out of place.
  void (*adamw)(const adamw_operands& operands) = nullptr;

  /// Sum of squares, in lanes.
  float (*sum_of_squares)(const float* x, std::size_t size) = nullptr;
};

/// The table of a level. @pre the processor supports it (`usable_isa_levels`).
[[nodiscard]] const operations& operations_of(isa_level level) noexcept;

} // namespace weir::kernels
