/// The gradients of the row operations for one instruction set: include after a lanes_*.hpp.
#pragma once

#include "kernels/detail/attention.hpp"
#include "kernels/detail/row_operations.hpp"

namespace weir::kernels::detail {
namespace {

inline void rope_backward(float* row, std::size_t heads, std::size_t head_size,
                          const float* cosines, const float* sines) {
  const std::size_t half = head_size / 2;
  for (std::size_t head = 0; head < heads; ++head) {
    float* first = row + head * head_size;
    float* second = first + half;
    for_lanes(half, [&](std::size_t i, lane_mask mask) {
      const lanes cosine = load(cosines + i, mask);
      const lanes sine = load(sines + i, mask);
      const lanes a = load(first + i, mask);
      const lanes b = load(second + i, mask);
      store(first + i, add(multiply(a, cosine), multiply(b, sine)), mask);
      store(second + i, subtract(multiply(b, cosine), multiply(a, sine)), mask);
    });
  }
}

/// With g = dy x weight: dx = scale g - x scale^3 mean(g x), dweight = dy x scale x.
inline void rms_norm_backward(const rms_norm_gradient& o) {
  lanes products = splat(0.0F);
  for_lanes(o.size, [&](std::size_t i, lane_mask mask) {
    const lanes g = multiply(load(o.dy + i, mask), load(o.weight + i, mask));
    products = multiply_add(g, load(o.x + i, mask), products);
  });
  const float mean = sum(products) / static_cast<float>(o.size);
  const lanes pull = splat(-mean * o.scale * o.scale * o.scale);
  const lanes scale = splat(o.scale);
  for_lanes(o.size, [&](std::size_t i, lane_mask mask) {
    const lanes dy = load(o.dy + i, mask);
    const lanes x = load(o.x + i, mask);
    const lanes dweight = multiply_add(multiply(dy, x), scale, load(o.dweight + i, mask));
    const lanes g = multiply(dy, load(o.weight + i, mask));
    const lanes start = o.overwrite ? splat(0.0F) : load(o.dx + i, mask);
    store(o.dx + i, multiply_add(g, scale, multiply_add(x, pull, start)), mask);
    store(o.dweight + i, dweight, mask);
  });
}

inline void swiglu_backward(float* gate, float* up, const float* dy, std::size_t size) {
  const lanes one = splat(1.0F);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes g = load(gate + i, mask);
    const lanes u = load(up + i, mask);
    const lanes d = load(dy + i, mask);
    const lanes sigmoid = divide(one, add(one, exp_of(subtract(splat(0.0F), g))));
    const lanes silu = multiply(g, sigmoid);
    // d silu / dg = sigmoid (1 + g (1 - sigmoid)) = sigmoid + silu (1 - sigmoid).
    const lanes slope = multiply_add(silu, subtract(one, sigmoid), sigmoid);
    store(gate + i, multiply(multiply(d, u), slope), mask);
    store(up + i, multiply(d, silu), mask);
  });
}

inline void scaled_softmax(float* logits, float log_sum, float factor, std::size_t size) {
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes probability = exp_of(subtract(load(logits + i, mask), splat(log_sum)));
    store(logits + i, multiply(probability, splat(factor)), mask);
  });
}

/// Turns weights (unnormalized probabilities of one head) and their gradients into probabilities
/// and gradients of the scores: ds = p (dp - sum(p dp)) / sqrt(head_size).
inline void score_gradients(float* weights, float* gradients, std::size_t tokens, float inverse,
                            float scale) {
  lanes products = splat(0.0F);
  for_lanes(tokens, [&](std::size_t i, lane_mask mask) {
    const lanes p = multiply(load(weights + i, mask), splat(inverse));
    store(weights + i, p, mask);
    products = multiply_add(p, load(gradients + i, mask), products);
  });
  const float expected = sum(products);
  for_lanes(tokens, [&](std::size_t i, lane_mask mask) {
    const lanes centred = subtract(load(gradients + i, mask), splat(expected));
    const lanes p = multiply(load(weights + i, mask), splat(scale));
    store(gradients + i, multiply(p, centred), mask);
  });
}

inline void attention_head_backward(const attention_shape& shape,
                                    const key_value_gradient_run* runs, std::size_t run_count,
                                    std::size_t head, const attention_gradient_row& row,
                                    float* scratch, std::size_t tokens_padded) {
  const std::size_t size = shape.head_size;
  const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
  const std::size_t column = kv_head * shape.value_head_stride;
  const float* query = row.query + head * size;
  const float* output_gradient = row.output_gradient + head * size;
  float* weights = scratch;
  float* gradients = scratch + tokens_padded;
  std::size_t tokens = 0;
  for (std::size_t run = 0; run < run_count; ++run) {
    const std::size_t offset = kv_head * shape.key_head_stride;
    const float unscaled = 1.0F;
    run_scores(shape, runs[run].keys + offset, runs[run].tokens, query, score_scale(shape),
               weights + tokens);
    run_scores(shape, runs[run].values + offset, runs[run].tokens, output_gradient, unscaled,
               gradients + tokens);
    tokens += runs[run].tokens;
  }
  const float inverse = 1.0F / attention_weights(weights, tokens);
  score_gradients(weights, gradients, tokens, inverse, score_scale(shape));

  for_lanes(size, [&](std::size_t f, lane_mask mask) {
    const lanes q = load(query + f, mask);
    const lanes dy = load(output_gradient + f, mask);
    lanes dq = splat(0.0F);
    std::size_t at = 0;
    for (std::size_t run = 0; run < run_count; ++run) {
      const key_value_gradient_run& r = runs[run];
      for (std::size_t t = 0; t < r.tokens; ++t, ++at) {
        const std::size_t place = t * shape.value_stride + column + f;
        const lanes ds = splat(gradients[at]);
        dq = multiply_add(ds, load(r.key_rows + place, mask), dq);
        store(r.key_gradients + place, multiply_add(ds, q, load(r.key_gradients + place, mask)),
              mask);
        store(r.value_gradients + place,
              multiply_add(splat(weights[at]), dy, load(r.value_gradients + place, mask)), mask);
      }
    }
    store(row.query_gradient + head * size + f, dq, mask);
  });
}

inline void attention_row_backward(const attention_shape& shape, const key_value_gradient_run* runs,
                                   std::size_t run_count, const attention_gradient_row& row,
                                   float* scratch) {
  std::size_t tokens = 0;
  for (std::size_t run = 0; run < run_count; ++run)
    tokens += runs[run].tokens;
  for (std::size_t head = 0; head < shape.heads; ++head)
    attention_head_backward(shape, runs, run_count, head, row, scratch, tokens + 32);
}

/// One reciprocal square root per element would need a division anyway: divide by sqrt(v) +
/// epsilon, as the definition says.
inline void adamw(const adamw_operands& o) {
  const lanes rest1 = splat(1.0F - o.beta1);
  const lanes rest2 = splat(1.0F - o.beta2);
  for_lanes(o.size, [&](std::size_t i, lane_mask mask) {
    const lanes g = multiply(load(o.gradients + i, mask), splat(o.gradient_scale));
    const lanes m =
        multiply_add(splat(o.beta1), load(o.first_moments + i, mask), multiply(rest1, g));
    const lanes v = multiply_add(splat(o.beta2), load(o.second_moments + i, mask),
                                 multiply(rest2, multiply(g, g)));
    const lanes root = square_root(multiply(v, splat(o.inverse_correction2)));
    const lanes update = divide(multiply(m, splat(o.step_size)), add(root, splat(o.epsilon)));
    const lanes w = load(o.weights + i, mask);
    const lanes decayed = subtract(w, multiply(w, splat(o.decay)));
    store(o.weights_after + i, subtract(decayed, update), mask);
    store(o.first_moments_after + i, m, mask);
    store(o.second_moments_after + i, v, mask);
  });
}

inline float sum_of_squares(const float* x, std::size_t size) {
  lanes squares = splat(0.0F);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes v = load(x + i, mask);
    squares = multiply_add(v, v, squares);
  });
  return sum(squares);
}

} // namespace
} // namespace weir::kernels::detail
