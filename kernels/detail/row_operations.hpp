/// The row operations of one instruction set, written over `lanes`: include after a lanes_*.hpp.
#pragma once

#include "kernels/ops.hpp"

#include <cstddef>

namespace weir::kernels::detail {
namespace {

constexpr std::size_t width = 16;

/// exp(x): x = n ln 2 + r, a polynomial for exp(r) with |r| <= ln 2 / 2, scaled by 2^n. Below
/// ln 2^-126 the result is zero; above 88.37 it saturates (no caller gets there).
inline lanes exp_of(lanes x) {
  constexpr float lowest = -87.33654F;
  const lanes bounded = minimum(maximum(x, splat(lowest)), splat(88.3762F));
  const lanes n = round_nearest(multiply(bounded, splat(1.44269504F)));
  lanes r = multiply_add(n, splat(-0.693359375F), bounded);
  r = multiply_add(n, splat(2.12194440e-4F), r);
  lanes p = splat(1.9875691500e-4F);
  p = multiply_add(p, r, splat(1.3981999507e-3F));
  p = multiply_add(p, r, splat(8.3334519073e-3F));
  p = multiply_add(p, r, splat(4.1665795894e-2F));
  p = multiply_add(p, r, splat(1.6666665459e-1F));
  p = multiply_add(p, r, splat(5.0000001201e-1F));
  p = multiply_add(multiply(r, r), p, r);
  p = add(p, splat(1.0F));
  return zero_below(x, lowest, multiply(p, power_of_two(n)));
}

/// x / (1 + exp(-x)).
inline lanes silu_of(lanes x) {
  const lanes denominator = add(splat(1.0F), exp_of(subtract(splat(0.0F), x)));
  return divide(x, denominator);
}

/// Calls visit(offset, mask) for each 16 elements; the mask is full but for the tail.
template <class Visit>
inline void for_lanes(std::size_t size, Visit visit) {
  std::size_t i = 0;
  const lane_mask full = first_lanes(width);
  for (; i + width <= size; i += width)
    visit(i, full);
  if (i < size) visit(i, first_lanes(size - i));
}

inline float rms_norm(const float* x, const float* weight, float* y, std::size_t size,
                      float epsilon) {
  lanes squares = splat(0.0F);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes v = load(x + i, mask);
    squares = multiply_add(v, v, squares);
  });
  const float mean = sum(squares) / static_cast<float>(size);
  const float scale = 1.0F / __builtin_sqrtf(mean + epsilon);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes normalized = multiply(load(x + i, mask), splat(scale));
    store(y + i, multiply(normalized, load(weight + i, mask)), mask);
  });
  return scale;
}

inline void rope(float* row, std::size_t heads, std::size_t head_size, const float* cosines,
                 const float* sines) {
  const std::size_t half = head_size / 2;
  for (std::size_t head = 0; head < heads; ++head) {
    float* first = row + head * head_size;
    float* second = first + half;
    for_lanes(half, [&](std::size_t i, lane_mask mask) {
      const lanes cosine = load(cosines + i, mask);
      const lanes sine = load(sines + i, mask);
      const lanes a = load(first + i, mask);
      const lanes b = load(second + i, mask);
      store(first + i, subtract(multiply(a, cosine), multiply(b, sine)), mask);
      store(second + i, add(multiply(b, cosine), multiply(a, sine)), mask);
    });
  }
}

inline void swiglu(const float* gate, const float* up, float* y, std::size_t size) {
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    store(y + i, multiply(silu_of(load(gate + i, mask)), load(up + i, mask)), mask);
  });
}

inline void add_rows(float* y, const float* x, std::size_t size) {
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    store(y + i, add(load(y + i, mask), load(x + i, mask)), mask);
  });
}

inline void exponential(const float* x, float* y, std::size_t size) {
  for_lanes(size,
            [&](std::size_t i, lane_mask mask) { store(y + i, exp_of(load(x + i, mask)), mask); });
}

inline float row_maximum(const float* x, std::size_t size) {
  lanes highest = splat(x[0]);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    highest = maximum(highest, select(mask, load(x + i, mask), splat(x[0])));
  });
  return largest(highest);
}

inline float log_sum_exp(const float* x, std::size_t size) {
  const float highest = row_maximum(x, size);
  lanes total = splat(0.0F);
  for_lanes(size, [&](std::size_t i, lane_mask mask) {
    const lanes power = exp_of(subtract(load(x + i, mask), splat(highest)));
    total = add(total, select(mask, power, splat(0.0F)));
  });
  return highest + static_cast<float>(__builtin_log(static_cast<double>(sum(total))));
}

} // namespace
} // namespace weir::kernels::detail
