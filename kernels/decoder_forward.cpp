#include "kernels/decoder_forward.hpp"

#include <algorithm>
#include <cstring>

namespace weir::kernels {

decoder_forward::decoder_forward(const model_config& config, const decoder_options& options)
    : config_(config), block_tokens_(options.block_tokens), ops_(operations_of(options.isa)),
      layout_(config), rope_(config) {
  const std::size_t q_size = std::size_t{config.heads} * config.head_size;
  const std::size_t kv_size = std::size_t{config.kv_heads} * config.head_size;
  half_block_ = kv_size * block_tokens_;
  cache_ = float_buffer(std::size_t{options.kv_blocks} * config.layers * 2 * half_block_);
  const std::size_t rows = std::size_t{options.max_sequences} + options.prefill_tokens;
  x_ = float_buffer(rows * config.hidden);
  normed_ = float_buffer(rows * config.hidden);
  q_ = float_buffer(rows * q_size);
  attended_ = float_buffer(rows * q_size);
  k_ = float_buffer(rows * kv_size);
  v_ = float_buffer(rows * kv_size);
  gate_ = float_buffer(rows * config.ffn);
  up_ = float_buffer(rows * config.ffn);
  logits_ = float_buffer(std::size_t{options.max_sequences} * config.vocabulary);
  scratch_.resize(options.threads);
  for (thread_scratch& scratch : scratch_) {
    scratch.runs.resize((config.context + block_tokens_ - 1) / block_tokens_);
    scratch.attention = float_buffer(std::size_t{config.context} + 32);
  }
}

result<void> decoder_forward::attach_device(const decoder_options& options) {
  if (options.where.kind == device_kind::cpu) return {};
  const rms_norm_capacity capacity{options.max_sequences, config_.hidden};
  for (thread_scratch& scratch : scratch_) {
    auto made = cuda_rms_norm::create(options.where.ordinal, capacity);
    if (!made) return failure(made.error());
    scratch.device_norm = std::move(*made);
  }
  return {};
}

// -- one step -------------------------------------------------------------------------------------

result<void> decoder_forward::compute(std::span<const forward_row> rows, const forward_part& part,
                                      std::uint32_t thread) {
  for (std::uint32_t row = part.first_row; row < part.first_row + part.row_count; ++row)
    std::memcpy(x_.data() + std::size_t{row} * config_.hidden,
                part.weights->at(layout_.embedding) + std::size_t{rows[row].token} * config_.hidden,
                config_.hidden * sizeof(float));
  for (std::size_t layer = 0; layer < config_.layers; ++layer) {
    norm_rows(layout_.layers[layer].input_norm, part);
    project(part, layer);
    attend(rows, part, layer, scratch_[thread]);
    norm_rows(layout_.layers[layer].post_norm, part);
    feed_forward(part, layer);
  }
  return head(rows, part, scratch_[thread]);
}

/// Queries, keys and values of all rows of the part, biases included.
void decoder_forward::project(const forward_part& part, std::size_t layer) {
  const layer_offsets& at = layout_.layers[layer];
  const packed_weights::layer_matrices& packed = part.weights->layer(layer);
  const matrix_view input = view(normed_, part, config_.hidden);
  const auto apply = [&](const packed_matrix& matrix, float_buffer& buffer, std::size_t bias) {
    const matrix_view output = view(buffer, part, matrix.outputs());
    multiply(ops_, input, matrix, output);
    if (bias == layer_offsets::absent) return;
    for (std::size_t row = 0; row < output.rows; ++row)
      ops_.add(output.data + row * output.stride, part.weights->at(bias), output.columns);
  };
  apply(packed.q, q_, at.q_bias);
  apply(packed.k, k_, at.k_bias);
  apply(packed.v, v_, at.v_bias);
}

/// Rotates queries and keys, writes the cache, attends, and adds the output to the residual.
void decoder_forward::attend(std::span<const forward_row> rows, const forward_part& part,
                             std::size_t layer, thread_scratch& scratch) {
  const layer_offsets& at = layout_.layers[layer];
  const std::size_t head_size = config_.head_size;
  const std::size_t q_size = config_.heads * head_size;
  const std::size_t kv_size = config_.kv_heads * head_size;
  const auto turn = [&](float* row, std::size_t heads, std::size_t norm, std::uint32_t position) {
    for (std::size_t head = 0; norm != layer_offsets::absent && head < heads; ++head)
      ops_.rms_norm(row + head * head_size, part.weights->at(norm), row + head * head_size,
                    head_size, config_.rms_epsilon);
    ops_.rope(row, heads, head_size, rope_.cosines(position), rope_.sines(position));
  };
  const std::uint32_t last_row = part.first_row + part.row_count;
  for (std::uint32_t row = part.first_row; row < last_row; ++row) {
    float* key = k_.data() + row * kv_size;
    turn(q_.data() + row * q_size, config_.heads, at.q_norm, rows[row].position);
    turn(key, config_.kv_heads, at.k_norm, rows[row].position);
    store_row(rows[row], layer, key, v_.data() + row * kv_size);
  }
  const attention_shape shape{.heads = config_.heads,
                              .kv_heads = config_.kv_heads,
                              .head_size = head_size,
                              .key_stride = block_tokens_,
                              .key_head_stride = head_size * block_tokens_,
                              .value_stride = kv_size,
                              .value_head_stride = head_size};
  for (std::uint32_t row = part.first_row; row < last_row; ++row) {
    std::size_t run_count = 0;
    const std::size_t length = std::size_t{rows[row].position} + 1;
    for (std::size_t first = 0; first < length; first += block_tokens_) {
      const float* keys = block(rows[row].table[run_count], layer);
      scratch.runs[run_count++] = {keys, keys + half_block_,
                                   std::min(block_tokens_, length - first)};
    }
    ops_.attention_row(shape, scratch.runs.data(), run_count, q_.data() + row * q_size,
                       attended_.data() + row * q_size, scratch.attention.data());
  }
  multiply(ops_, view(attended_, part, q_size), part.weights->layer(layer).o,
           view(x_, part, config_.hidden), write_mode::accumulate);
}

/// Writes one token into the cache: keys feature by feature, values token by token (ops.hpp).
void decoder_forward::store_row(const forward_row& row, std::size_t layer, const float* key,
                                const float* value) {
  float* keys = block(row.table[row.position / block_tokens_], layer);
  const std::size_t token = row.position % block_tokens_;
  const std::size_t kv_size = std::size_t{config_.kv_heads} * config_.head_size;
  for (std::size_t feature = 0; feature < kv_size; ++feature)
    keys[feature * block_tokens_ + token] = key[feature];
  std::memcpy(keys + half_block_ + token * kv_size, value, kv_size * sizeof(float));
}

void decoder_forward::feed_forward(const forward_part& part, std::size_t layer) {
  const packed_weights::layer_matrices& packed = part.weights->layer(layer);
  const matrix_view input = view(normed_, part, config_.hidden);
  const matrix_view gate = view(gate_, part, config_.ffn);
  const matrix_view up = view(up_, part, config_.ffn);
  multiply(ops_, input, packed.gate, gate);
  multiply(ops_, input, packed.up, up);
  ops_.swiglu(gate.data, up.data, gate.data, gate.rows * gate.columns);
  multiply(ops_, gate, packed.down, view(x_, part, config_.hidden), write_mode::accumulate);
}

/// The logits of the rows that want them, gathered so that one product computes them all.
result<void> decoder_forward::head(std::span<const forward_row> rows, const forward_part& part,
                                   thread_scratch& scratch) {
  const std::size_t hidden = config_.hidden;
  float* gathered = normed_.data() + part.first_row * hidden;
  std::uint32_t wanted = 0;
  for (std::uint32_t row = part.first_row; row < part.first_row + part.row_count; ++row)
    if (rows[row].wants_logits)
      std::memcpy(gathered + wanted++ * hidden, x_.data() + row * hidden, hidden * sizeof(float));
  if (wanted == 0) return {};
  if (auto done = norm_gathered(part.weights->at(layout_.final_norm), gathered, wanted, scratch);
      !done)
    return done;
  const std::size_t vocabulary = config_.vocabulary;
  const matrix_view output{logits_.data() + part.first_logits * vocabulary, wanted, vocabulary,
                           vocabulary};
  multiply(ops_, view(normed_, {part.first_row, wanted, 0}, hidden), part.weights->head(), output);
  return {};
}

/// The last norm, in place: on the device where there is one.
result<void> decoder_forward::norm_gathered(const float* norm, float* rows, std::size_t count,
                                            thread_scratch& scratch) {
  if (scratch.device_norm)
    return scratch.device_norm->apply(rows, norm, rows, count, config_.hidden, config_.rms_epsilon,
                                      ops_.level != isa_level::generic);
  for (std::size_t row = 0; row < count; ++row)
    ops_.rms_norm(rows + row * config_.hidden, norm, rows + row * config_.hidden, config_.hidden,
                  config_.rms_epsilon);
  return {};
}

// -- memory ---------------------------------------------------------------------------------------

void decoder_forward::norm_rows(std::size_t norm, const forward_part& part) {
  const float* scales = part.weights->at(norm);
  for (std::uint32_t row = part.first_row; row < part.first_row + part.row_count; ++row)
    ops_.rms_norm(x_.data() + std::size_t{row} * config_.hidden, scales,
                  normed_.data() + std::size_t{row} * config_.hidden, config_.hidden,
                  config_.rms_epsilon);
}

matrix_view decoder_forward::view(float_buffer& buffer, const forward_part& part,
                                  std::size_t columns) const {
  return {buffer.data() + part.first_row * columns, part.row_count, columns, columns};
}

float* decoder_forward::block(std::uint32_t index, std::size_t layer) {
  return cache_.data() + (std::size_t{index} * config_.layers + layer) * 2 * half_block_;
}

void decoder_forward::copy_block(const kv_block_copy& copy) {
  std::memcpy(block(copy.to, 0), block(copy.from, 0),
              std::size_t{config_.layers} * 2 * half_block_ * sizeof(float));
}

} // namespace weir::kernels
