#include "kernels/transformer.hpp"

#include <cstring>

namespace weir::kernels {

void transformer::backward(const row_plan& plan, activations& work,
                           std::span<float> gradients) const {
  ensure(gradients.size() == layout_.total, "gradients have the size of the model's layout");
  head_backward(plan, work, gradients.data());
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    feed_forward_backward(plan, work, layer, gradients.data());
    attend_backward(plan, work, layer, gradients.data());
    turn_heads_backward(plan, work, layer, gradients.data());
    project_backward(plan, work, layer, gradients.data());
  }
  const std::size_t hidden = config_.hidden;
  for (std::size_t row = 0; row < plan.rows(); ++row)
    ops_.add(gradients.data() + layout_.embedding + plan.tokens()[row] * hidden,
             work.dx + row * hidden, hidden);
}

/// Starts dx: the gradient of the residual after the last layer.
void transformer::head_backward(const row_plan& plan, activations& work, float* gradients) const {
  const std::size_t hidden = config_.hidden;
  const std::span<const std::uint32_t> head_rows = plan.head_rows();
  product_gradient product;
  product.weight = layout_.head;
  product.outputs = config_.vocabulary;
  product.inputs = hidden;
  product.x = work.head_normed;
  product.dy = work.logits;
  product.dx = work.dnormed;
  product_backward(product, head_rows.size(), gradients);
  std::memset(work.dx, 0, plan.rows() * hidden * sizeof(float));
  for (std::size_t i = 0; i < head_rows.size(); ++i)
    ops_.rms_norm_backward({.x = work.last + head_rows[i] * hidden,
                            .weight = weight(layout_.final_norm),
                            .dy = work.dnormed + i * hidden,
                            .scale = work.head_scale[i],
                            .dx = work.dx + head_rows[i] * hidden,
                            .dweight = gradients + layout_.final_norm,
                            .size = hidden});
}

void transformer::feed_forward_backward(const row_plan& plan, activations& work, std::size_t layer,
                                        float* gradients) const {
  const layer_offsets& at = layout_.layers[layer];
  const layer_activations& a = work.layers[layer];
  const std::size_t rows = plan.rows();
  const std::size_t hidden = config_.hidden;
  const std::size_t ffn = config_.ffn;
  product_backward({.weight = at.down,
                    .outputs = hidden,
                    .inputs = ffn,
                    .x = a.active,
                    .dy = work.dx,
                    .dx = work.dactive},
                   rows, gradients);
  ops_.swiglu_backward(a.gate, a.up, work.dactive, rows * ffn);
  product_gradient product{.weight = at.gate,
                           .outputs = ffn,
                           .inputs = hidden,
                           .x = a.middle_normed,
                           .dy = a.gate,
                           .dx = work.dnormed};
  product_backward(product, rows, gradients);
  product.weight = at.up;
  product.dy = a.up;
  product.mode = write_mode::accumulate;
  product_backward(product, rows, gradients);
  norm_rows_backward(a.middle, at.post_norm, a.middle_scale, work, rows, gradients);
}

/// From dx to the gradients of rotated queries and keys, and of values.
void transformer::attend_backward(const row_plan& plan, activations& work, std::size_t layer,
                                  float* gradients) const {
  const layer_activations& a = work.layers[layer];
  const std::size_t rows = plan.rows();
  product_backward({.weight = layout_.layers[layer].o,
                    .outputs = config_.hidden,
                    .inputs = query_size(),
                    .x = a.mixed,
                    .dy = work.dx,
                    .dx = work.dmixed},
                   rows, gradients);
  turn_rows(a.k, rows, key_size(), work.keys_turned, work.turned_stride);
  turn_rows(a.v, rows, key_size(), work.values_turned, work.turned_stride);
  std::memset(work.dk, 0, rows * key_size() * sizeof(float));
  std::memset(work.dv, 0, rows * key_size() * sizeof(float));
  const attention_shape attention = shape(work);
  const auto run_at = [&](std::size_t row, std::size_t tokens) {
    const std::size_t place = row * key_size();
    return key_value_gradient_run{.keys = work.keys_turned + row,
                                  .values = work.values_turned + row,
                                  .key_rows = a.k + place,
                                  .key_gradients = work.dk + place,
                                  .value_gradients = work.dv + place,
                                  .tokens = tokens};
  };
  for (const row_segment& segment : plan.segments()) {
    key_value_gradient_run runs[2];
    std::size_t run_count = 0;
    if (segment.prefix_rows > 0)
      runs[run_count++] = run_at(segment.prefix_first_row, segment.prefix_rows);
    key_value_gradient_run& own = runs[run_count++];
    for (std::size_t i = 0; i < segment.rows; ++i) {
      const std::size_t row = segment.first_row + i;
      own = run_at(segment.first_row, i + 1);
      const attention_gradient_row gradient_row{.query = a.q + row * query_size(),
                                                .output_gradient = work.dmixed + row * query_size(),
                                                .query_gradient = work.dq + row * query_size()};
      ops_.attention_row_backward(attention, runs, run_count, gradient_row, work.attention_scratch);
    }
  }
}

/// Undoes rotation and head norm on dq and dk, in place.
void transformer::turn_heads_backward(const row_plan& plan, activations& work, std::size_t layer,
                                      float* gradients) const {
  const layer_offsets& at = layout_.layers[layer];
  const layer_activations& a = work.layers[layer];
  const std::size_t size = config_.head_size;
  const auto turn_back = [&](float* rows, std::size_t heads, std::size_t norm, const float* raw,
                             const float* scales) {
    for (std::size_t row = 0; row < plan.rows(); ++row) {
      const std::size_t position = plan.positions()[row];
      ops_.rope_backward(rows + row * heads * size, heads, size, rope_.cosines(position),
                         rope_.sines(position));
    }
    if (norm == layer_offsets::absent) return;
    for (std::size_t i = 0; i < plan.rows() * heads; ++i)
      ops_.rms_norm_backward({.x = raw + i * size,
                              .weight = weight(norm),
                              .dy = rows + i * size,
                              .scale = scales[i],
                              .dx = rows + i * size,
                              .dweight = gradients + norm,
                              .size = size,
                              .overwrite = true});
  };
  turn_back(work.dq, config_.heads, at.q_norm, a.q_raw, a.q_scale);
  turn_back(work.dk, config_.kv_heads, at.k_norm, a.k_raw, a.k_scale);
}

void transformer::project_backward(const row_plan& plan, activations& work, std::size_t layer,
                                   float* gradients) const {
  const layer_offsets& at = layout_.layers[layer];
  const layer_activations& a = work.layers[layer];
  const std::size_t rows = plan.rows();
  bias_backward(at.q_bias, work.dq, rows, query_size(), gradients);
  bias_backward(at.k_bias, work.dk, rows, key_size(), gradients);
  bias_backward(at.v_bias, work.dv, rows, key_size(), gradients);
  product_gradient product{.weight = at.q,
                           .outputs = query_size(),
                           .inputs = config_.hidden,
                           .x = a.normed,
                           .dy = work.dq,
                           .dx = work.dnormed};
  product_backward(product, rows, gradients);
  product.mode = write_mode::accumulate;
  product.outputs = key_size();
  product.weight = at.k;
  product.dy = work.dk;
  product_backward(product, rows, gradients);
  product.weight = at.v;
  product.dy = work.dv;
  product_backward(product, rows, gradients);
  norm_rows_backward(a.x, at.input_norm, a.scale, work, rows, gradients);
}

// -- pieces ---------------------------------------------------------------------------------------

void transformer::product_backward(const product_gradient& product, std::size_t rows,
                                   float* gradients) const {
  const const_matrix_view dy{product.dy, rows, product.outputs, product.outputs};
  multiply_plain(ops_, dy,
                 {weight(product.weight), product.outputs, product.inputs, product.inputs},
                 {product.dx, rows, product.inputs, product.inputs}, product.mode);
  multiply_transposed(ops_, dy, {product.x, rows, product.inputs, product.inputs},
                      {gradients + product.weight, product.outputs, product.inputs, product.inputs},
                      write_mode::accumulate);
}

void transformer::bias_backward(std::size_t bias, const float* dy, std::size_t rows,
                                std::size_t columns, float* gradients) const {
  if (bias == layer_offsets::absent) return;
  for (std::size_t row = 0; row < rows; ++row)
    ops_.add(gradients + bias, dy + row * columns, columns);
}

/// Adds the gradient through a norm of the residual (its dy is in `dnormed`) to dx.
void transformer::norm_rows_backward(const float* x, std::size_t norm, const float* scales,
                                     activations& work, std::size_t rows, float* gradients) const {
  const std::size_t hidden = config_.hidden;
  for (std::size_t row = 0; row < rows; ++row)
    ops_.rms_norm_backward({.x = x + row * hidden,
                            .weight = weight(norm),
                            .dy = work.dnormed + row * hidden,
                            .scale = scales[row],
                            .dx = work.dx + row * hidden,
                            .dweight = gradients + norm,
                            .size = hidden});
}

} // namespace weir::kernels
