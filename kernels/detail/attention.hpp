/// Attention of one query row for one instruction set: include after row_operations.hpp.
///
/// A score is a chain of multiply-adds over the features, an output a chain over the tokens, the
/// softmax denominator a sum in lanes of 16 tokens counted from the start of the sequence: none of
/// the three knows where one run of the cache ends and the next begins.
#pragma once

#include "kernels/detail/row_operations.hpp"

namespace weir::kernels::detail {
namespace {

inline float score_scale(const attention_shape& shape) {
  return 1.0F / __builtin_sqrtf(static_cast<float>(shape.head_size));
}

/// Products of a vector with each token of a run (features by tokens), times `scale`. Writes up to
/// 15 floats more than there are tokens.
inline void run_scores(const attention_shape& shape, const float* features, std::size_t tokens,
                       const float* vector, float scale, float* scores) {
  for (std::size_t first = 0; first < tokens; first += width) {
    lanes score = splat(0.0F);
    for (std::size_t f = 0; f < shape.head_size; ++f)
      score = multiply_add(splat(vector[f]), load(features + f * shape.key_stride + first), score);
    store(scores + first, multiply(score, splat(scale)));
  }
}

/// Turns scores into exp(score - max) and returns their sum.
inline float attention_weights(float* scores, std::size_t tokens) {
  const float highest = row_maximum(scores, tokens);
  lanes total = splat(0.0F);
  for_lanes(tokens, [&](std::size_t i, lane_mask mask) {
    const lanes power = exp_of(subtract(load(scores + i, mask), splat(highest)));
    const lanes valid = select(mask, power, splat(0.0F));
    store(scores + i, valid, mask);
    total = add(total, valid);
  });
  return sum(total);
}

inline void attention_row(const attention_shape& shape, const key_value_run* runs,
                          std::size_t run_count, const float* query, float* output,
                          float* scratch) {
  const std::size_t group = shape.heads / shape.kv_heads;
  for (std::size_t head = 0; head < shape.heads; ++head) {
    const std::size_t kv_head = head / group;
    std::size_t tokens = 0;
    for (std::size_t run = 0; run < run_count; ++run) {
      run_scores(shape, runs[run].keys + kv_head * shape.key_head_stride, runs[run].tokens,
                 query + head * shape.head_size, score_scale(shape), scratch + tokens);
      tokens += runs[run].tokens;
    }
    const float inverse = 1.0F / attention_weights(scratch, tokens);
    float* to = output + head * shape.head_size;
    for_lanes(shape.head_size, [&](std::size_t f, lane_mask mask) {
      lanes mixed = splat(0.0F);
      const float* weight = scratch;
      for (std::size_t run = 0; run < run_count; ++run) {
        const float* value = runs[run].values + kv_head * shape.value_head_stride + f;
        for (std::size_t t = 0; t < runs[run].tokens; ++t, value += shape.value_stride)
          mixed = multiply_add(splat(*weight++), load(value, mask), mixed);
      }
      store(to + f, multiply(mixed, splat(inverse)), mask);
    });
  }
}

} // namespace
} // namespace weir::kernels::detail
