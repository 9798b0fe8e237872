#include "kernels/transformer.hpp"

#include <cstring>

namespace weir::kernels {

transformer::transformer(const model_config& config, isa_level isa)
    : config_(config), ops_(operations_of(isa)), layout_(config), rope_(config),
      head_(config.vocabulary, config.hidden) {
  layers_.reserve(config.layers);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    packed_layer packed;
    packed.q = packed_matrix(query_size(), config.hidden);
    packed.k = packed_matrix(key_size(), config.hidden);
    packed.v = packed_matrix(key_size(), config.hidden);
    packed.o = packed_matrix(config.hidden, query_size());
    packed.gate = packed_matrix(config.ffn, config.hidden);
    packed.up = packed_matrix(config.ffn, config.hidden);
    packed.down = packed_matrix(config.hidden, config.ffn);
    layers_.push_back(std::move(packed));
  }
}

void transformer::load(std::span<const float> weights, thread_pool& pool) {
  ensure(weights.size() == layout_.total, "weights have the size of the model's layout");
  weights_ = weights;
  auto pack = [this](std::size_t index, std::size_t) {
    if (index == layers_.size()) {
      head_.pack(weight(layout_.head));
      return;
    }
    const layer_offsets& at = layout_.layers[index];
    packed_layer& packed = layers_[index];
    packed.q.pack(weight(at.q));
    packed.k.pack(weight(at.k));
    packed.v.pack(weight(at.v));
    packed.o.pack(weight(at.o));
    packed.gate.pack(weight(at.gate));
    packed.up.pack(weight(at.up));
    packed.down.pack(weight(at.down));
  };
  pool.run(layers_.size() + 1, pack);
}

void transformer::forward(const row_plan& plan, activations& work) const {
  const std::size_t hidden = config_.hidden;
  for (std::size_t row = 0; row < plan.rows(); ++row) {
    const float* from = weight(layout_.embedding) + plan.tokens()[row] * hidden;
    std::memcpy(work.layers[0].x + row * hidden, from, hidden * sizeof(float));
  }
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    project(plan, work, layer);
    turn_heads(plan, work, layer);
    attend(plan, work, layer);
    feed_forward(plan, work, layer);
  }
  const std::span<const std::uint32_t> head_rows = plan.head_rows();
  for (std::size_t i = 0; i < head_rows.size(); ++i)
    work.head_scale[i] =
        ops_.rms_norm(work.last + head_rows[i] * hidden, weight(layout_.final_norm),
                      work.head_normed + i * hidden, hidden, config_.rms_epsilon);
  apply(head_, work.head_normed, work.logits, head_rows.size());
  const std::size_t vocabulary = config_.vocabulary;
  for (std::size_t i = 0; i < head_rows.size(); ++i)
    work.log_sums[i] = ops_.log_sum_exp(work.logits + i * vocabulary, vocabulary);
}

/// Queries, keys and values of all rows, biases included.
void transformer::project(const row_plan& plan, activations& work, std::size_t layer) const {
  const layer_offsets& at = layout_.layers[layer];
  const packed_layer& packed = layers_[layer];
  const layer_activations& a = work.layers[layer];
  norm_rows(a.x, at.input_norm, a.normed, a.scale, plan.rows());
  apply(packed.q, a.normed, a.q, plan.rows());
  apply(packed.k, a.normed, a.k, plan.rows());
  apply(packed.v, a.normed, a.v, plan.rows());
  add_bias(at.q_bias, a.q, plan.rows(), query_size());
  add_bias(at.k_bias, a.k, plan.rows(), key_size());
  add_bias(at.v_bias, a.v, plan.rows(), key_size());
}

/// The norm of each head, if the model has it, and the rotation, of queries and keys.
void transformer::turn_heads(const row_plan& plan, activations& work, std::size_t layer) const {
  const layer_offsets& at = layout_.layers[layer];
  const layer_activations& a = work.layers[layer];
  const std::size_t size = config_.head_size;
  const auto turn = [&](float* rows, std::size_t heads, std::size_t norm, float* raw,
                        float* scales) {
    if (norm != layer_offsets::absent) {
      std::memcpy(raw, rows, plan.rows() * heads * size * sizeof(float));
      for (std::size_t i = 0; i < plan.rows() * heads; ++i)
        scales[i] = ops_.rms_norm(rows + i * size, weight(norm), rows + i * size, size,
                                  config_.rms_epsilon);
    }
    for (std::size_t row = 0; row < plan.rows(); ++row) {
      const std::size_t position = plan.positions()[row];
      ops_.rope(rows + row * heads * size, heads, size, rope_.cosines(position),
                rope_.sines(position));
    }
  };
  turn(a.q, config_.heads, at.q_norm, a.q_raw, a.q_scale);
  turn(a.k, config_.kv_heads, at.k_norm, a.k_raw, a.k_scale);
}

attention_shape transformer::shape(const activations& work) const {
  return {.heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_size = config_.head_size,
          .key_stride = work.turned_stride,
          .key_head_stride = config_.head_size * work.turned_stride,
          .value_stride = key_size(),
          .value_head_stride = config_.head_size};
}

/// Attention of every row over its prefix and its segment, and the output projection.
void transformer::attend(const row_plan& plan, activations& work, std::size_t layer) const {
  const layer_activations& a = work.layers[layer];
  turn_rows(a.k, plan.rows(), key_size(), work.keys_turned, work.turned_stride);
  const attention_shape attention = shape(work);
  for (const row_segment& segment : plan.segments()) {
    key_value_run runs[2];
    std::size_t run_count = 0;
    if (segment.prefix_rows > 0)
      runs[run_count++] = {work.keys_turned + segment.prefix_first_row,
                           a.v + segment.prefix_first_row * key_size(), segment.prefix_rows};
    key_value_run& own = runs[run_count++];
    own = {work.keys_turned + segment.first_row, a.v + segment.first_row * key_size(), 0};
    for (std::size_t i = 0; i < segment.rows; ++i) {
      const std::size_t row = segment.first_row + i;
      own.tokens = i + 1;
      ops_.attention_row(attention, runs, run_count, a.q + row * query_size(),
                         a.mixed + row * query_size(), work.attention_scratch);
    }
  }
  std::memcpy(a.middle, a.x, plan.rows() * config_.hidden * sizeof(float));
  apply(layers_[layer].o, a.mixed, a.middle, plan.rows(), write_mode::accumulate);
}

void transformer::feed_forward(const row_plan& plan, activations& work, std::size_t layer) const {
  const packed_layer& packed = layers_[layer];
  const layer_activations& a = work.layers[layer];
  const std::size_t rows = plan.rows();
  norm_rows(a.middle, layout_.layers[layer].post_norm, a.middle_normed, a.middle_scale, rows);
  apply(packed.gate, a.middle_normed, a.gate, rows);
  apply(packed.up, a.middle_normed, a.up, rows);
  ops_.swiglu(a.gate, a.up, a.active, rows * config_.ffn);
  float* after = layer + 1 < layers_.size() ? work.layers[layer + 1].x : work.last;
  std::memcpy(after, a.middle, rows * config_.hidden * sizeof(float));
  apply(packed.down, a.active, after, rows, write_mode::accumulate);
}

// -- pieces ---------------------------------------------------------------------------------------

void transformer::norm_rows(const float* x, std::size_t norm, float* y, float* scales,
                            std::size_t rows) const {
  const std::size_t hidden = config_.hidden;
  for (std::size_t row = 0; row < rows; ++row)
    scales[row] = ops_.rms_norm(x + row * hidden, weight(norm), y + row * hidden, hidden,
                                config_.rms_epsilon);
}

void transformer::apply(const packed_matrix& matrix, const float* x, float* y, std::size_t rows,
                        write_mode mode) const {
  multiply(ops_, {x, rows, matrix.inputs(), matrix.inputs()}, matrix,
           {y, rows, matrix.outputs(), matrix.outputs()}, mode);
}

void transformer::add_bias(std::size_t bias, float* y, std::size_t rows,
                           std::size_t columns) const {
  if (bias == layer_offsets::absent) return;
  for (std::size_t row = 0; row < rows; ++row)
    ops_.add(y + row * columns, weight(bias), columns);
}

void turn_rows(const float* rows_first, std::size_t rows, std::size_t features, float* turned,
               std::size_t stride) noexcept {
  for (std::size_t feature = 0; feature < features; ++feature)
    for (std::size_t row = 0; row < rows; ++row)
      turned[feature * stride + row] = rows_first[row * features + feature];
}

} // namespace weir::kernels
