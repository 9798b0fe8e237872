/// The memory of one forward and backward pass: carved out of one buffer that only grows.
#pragma once

#include "kernels/model.hpp"
#include "kernels/row_plan.hpp"

#include <cstddef>
#include <vector>

namespace weir::kernels {

/// What the backward pass needs of one layer, each `[rows, ...]`.
struct layer_activations {
  float* x = nullptr;      ///< `[hidden]` residual that enters the layer.
  float* normed = nullptr; ///< `[hidden]` after the input norm.
  float* scale = nullptr;  ///< `[1]` of the input norm.
  float* q = nullptr;      ///< `[heads x head_size]`, rotated.
  float* k = nullptr;      ///< `[kv_heads x head_size]`, rotated.
  float* v = nullptr;      ///< `[kv_heads x head_size]`.
  float* q_raw = nullptr;  ///< Before the head norm; only with `qk_norm`.
  float* k_raw = nullptr;
  float* q_scale = nullptr; ///< `[heads]` of the head norm.
  float* k_scale = nullptr; ///< `[kv_heads]`.
  float* mixed = nullptr;   ///< `[heads x head_size]` output of attention.
  float* middle = nullptr;  ///< `[hidden]` residual after attention.
  float* middle_normed = nullptr;
  float* middle_scale = nullptr;
  float* gate = nullptr; ///< `[ffn]`; holds its gradient after the backward pass.
  float* up = nullptr;
  float* active = nullptr; ///< `[ffn]` silu(gate) x up.
};

/// Buffers of one thread's passes. Grows to the largest plan it has seen and stays there.
class activations {
public:
  explicit activations(const model_config& config) : config_(config) {}

  /// Makes room for a plan. Contents are unspecified afterwards.
  void prepare(const row_plan& plan);

  std::vector<layer_activations> layers;
  float* last = nullptr;         ///< `[rows, hidden]` residual after the last layer.
  float* head_normed = nullptr;  ///< `[head rows, hidden]` after the final norm.
  float* head_scale = nullptr;   ///< `[head rows]`.
  float* logits = nullptr;       ///< `[head rows, vocabulary]`; the caller may overwrite them by
                                 ///< their gradients before the backward pass.
  float* log_sums = nullptr;     ///< `[head rows]` log-sum-exp of the logits.
  std::size_t turned_stride = 0; ///< Floats between features of the two below.
  float* keys_turned = nullptr;  ///< `[kv_heads x head_size, turned_stride]` of one layer.
  float* values_turned = nullptr;
  float* attention_scratch = nullptr;
  float* dx = nullptr;      ///< Gradients, of the same shapes: `[rows, hidden]`.
  float* dnormed = nullptr; ///< `[rows, hidden]`
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  float* dmixed = nullptr;
  float* dactive = nullptr; ///< `[rows, ffn]`

private:
  /// Assigns every pointer from `base`; returns the floats used. Null base: only measures.
  std::size_t place(const row_plan& plan, float* base);

  model_config config_;
  float_buffer storage_;
};

} // namespace weir::kernels
