/// The floats of a decoder: the paged keys and values, and the pass of a batch of rows through the
/// layers.
///
/// A row is one token of one sequence. The rows of a step are divided into parts that do not need
/// each other: whoever calls may run each part on a thread of its own, with weights of its own.
#pragma once

#include "kernels/decoder_weights.hpp"
#include "kernels/device_cuda.hpp"
#include "kernels/rope.hpp"

namespace weir::kernels {

/// One token to compute.
struct forward_row {
  std::uint32_t token = 0;
  std::uint32_t position = 0;
  const std::uint32_t* table = nullptr; ///< Cache blocks of its sequence, its own included.
  bool wants_logits = false;
};

/// Rows of a step that one thread computes. Rows of one sequence must be in one part, in order.
struct forward_part {
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_logits = 0; ///< Its first row of logits; its others follow.
  const packed_weights* weights = nullptr;
};

class decoder_forward {
public:
  /// @pre config and options are valid; all memory is allocated here.
  decoder_forward(const model_config& config, const decoder_options& options);

  /// Prepares the device of the options. Nothing to do on the CPU.
  [[nodiscard]] result<void> attach_device(const decoder_options& options);

  /// Computes the rows of one part: their keys and values go to the cache, the logits of those that
  /// want them to consecutive rows of `logits`. Parts of one step may run at the same time;
  /// `thread` is below the number of threads and used by one part at a time.
  /// Fails only when a device does.
  [[nodiscard]] result<void> compute(std::span<const forward_row> rows, const forward_part& part,
                                     std::uint32_t thread);

  [[nodiscard]] std::span<const float> logits(std::uint32_t index) const {
    return {logits_.data() + std::size_t{index} * config_.vocabulary, config_.vocabulary};
  }

  /// Copies the keys and values of a cache block, in all layers.
  void copy_block(const kv_block_copy& copy);

private:
  /// What a thread needs besides the rows' own memory.
  struct thread_scratch {
    std::vector<key_value_run> runs;
    float_buffer attention;
    std::unique_ptr<cuda_rms_norm> device_norm; ///< Null on the CPU.
  };

  void attend(std::span<const forward_row> rows, const forward_part& part, std::size_t layer,
              thread_scratch& scratch);
  void project(const forward_part& part, std::size_t layer);
  void store_row(const forward_row& row, std::size_t layer, const float* key, const float* value);
  void feed_forward(const forward_part& part, std::size_t layer);
  [[nodiscard]] result<void> head(std::span<const forward_row> rows, const forward_part& part,
                                  thread_scratch& scratch);
  [[nodiscard]] result<void> norm_gathered(const float* norm, float* rows, std::size_t count,
                                           thread_scratch& scratch);
  void norm_rows(std::size_t norm, const forward_part& part);
  [[nodiscard]] matrix_view view(float_buffer& buffer, const forward_part& part,
                                 std::size_t columns) const;
  [[nodiscard]] float* block(std::uint32_t index, std::size_t layer);

  model_config config_;
  std::size_t block_tokens_;
  const operations& ops_;
  parameter_layout layout_;
  rope_table rope_;
  std::size_t half_block_ = 0; ///< Floats of the keys (or values) of one block and layer.
  float_buffer cache_;         ///< `[blocks][layers][keys, values][half_block]`.
  float_buffer x_, normed_;    ///< `[rows][hidden]`.
  float_buffer q_, attended_;  ///< `[rows][heads x head_size]`.
  float_buffer k_, v_;         ///< `[rows][kv_heads x head_size]`.
  float_buffer gate_, up_;     ///< `[rows][ffn]`.
  float_buffer logits_;        ///< `[max_sequences][vocabulary]`.
  std::vector<thread_scratch> scratch_;
};

} // namespace weir::kernels
