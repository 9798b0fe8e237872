/// The policy model: a Llama-style decoder, its shape and its weights.
///
/// All parameters of one version live in one contiguous, 64-byte aligned float buffer, described by
/// a layout that names each tensor as Hugging Face does. Optimizer, publishing, safetensors and
/// gradients therefore work on flat arrays; the model code asks the layout for offsets once.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir::kernels {

/// Shape of a Llama-style decoder. RMSNorm, rotary embeddings, grouped-query attention, SwiGLU.
struct model_config {
  std::uint32_t vocabulary = 260; ///< Rows of the embedding, special tokens included.
  std::uint32_t hidden = 128;
  std::uint32_t layers = 4;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 4; ///< Divides `heads`.
  std::uint32_t head_size = 32;
  std::uint32_t ffn = 384;
  std::uint32_t context = 128; ///< Most tokens of one sequence, prompt and completion.
  float rope_theta = 10000.0F;
  float rms_epsilon = 1e-5F;
  bool tied_embeddings = true;
  bool attention_bias = false; ///< Biases on q, k and v (Qwen2).
  bool qk_norm = false;        ///< RMSNorm per head on q and k (Qwen3).

  friend bool operator==(const model_config&, const model_config&) = default;
};

/// Refuses a shape that cannot be built, naming the keys that contradict each other.
[[nodiscard]] result<void> validate(const model_config& config);

/// One named parameter: row-major `[shape...]` floats at `offset` (in floats) of the flat buffer.
struct parameter {
  std::string name; ///< For example "model.layers.0.self_attn.q_proj.weight".
  std::vector<std::uint64_t> shape;
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// Offsets of one layer's parameters, in floats; matrices are `[out, in]` as Hugging Face stores
/// them. Those that a config does not have are `absent`.
struct layer_offsets {
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);
  std::size_t input_norm = absent, q = absent, k = absent, v = absent, o = absent;
  std::size_t q_bias = absent, k_bias = absent, v_bias = absent;
  std::size_t q_norm = absent, k_norm = absent;
  std::size_t post_norm = absent, gate = absent, up = absent, down = absent;
};

/// Where every parameter of a config lies. Each offset is a multiple of 16 floats (64 bytes).
struct parameter_layout {
  explicit parameter_layout(const model_config& config);

  std::vector<parameter> parameters; ///< In file order; `lm_head.weight` only when untied.
  std::vector<layer_offsets> layers;
  std::size_t embedding = 0;
  std::size_t final_norm = 0;
  std::size_t head = 0;  ///< Equal to `embedding` when the embeddings are tied.
  std::size_t total = 0; ///< Floats of the flat buffer, padding included (padding is zero).
};

/// A float array that owns its memory, aligned to 64 bytes; large ones are in huge pages where the
/// system grants them. Moves, never copies by accident.
class float_buffer {
public:
  float_buffer() = default;
  explicit float_buffer(std::size_t count); ///< Zeroed.
  float_buffer(float_buffer&& other) noexcept;
  float_buffer& operator=(float_buffer&& other) noexcept;
  float_buffer(const float_buffer&) = delete;
  float_buffer& operator=(const float_buffer&) = delete;
  ~float_buffer();

  [[nodiscard]] float* data() noexcept { return data_; }
  [[nodiscard]] const float* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<float> values() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const float> values() const noexcept { return {data_, size_}; }

private:
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Fills a flat buffer with the usual initialization (normal, 0.02; residual outputs scaled by
/// 1 / sqrt(2 layers); norms one), keyed by `seed` only: the same on every machine and compiler.
[[nodiscard]] float_buffer initial_weights(const model_config& config, std::uint64_t seed);

} // namespace weir::kernels
