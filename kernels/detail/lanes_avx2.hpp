/// Sixteen floats as two AVX2 registers. See lanes_generic.hpp for the meaning of each function.
///
/// Included only by translation units that are compiled for AVX2 and FMA; everything has internal
/// linkage, so that the linker never hands such code to the rest of the program.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace weir::kernels::detail {
namespace {

constexpr int tile_rows_max = 6;
constexpr int tile_lanes = 1;

struct lanes {
  __m256 low, high;
};
struct lane_mask {
  __m256i low, high;
};

inline lane_mask first_lanes(std::size_t count) {
  const __m256i n = _mm256_set1_epi32(static_cast<int>(count));
  return {_mm256_cmpgt_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(n, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}
inline lanes splat(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline lanes load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline lanes load(const float* p, lane_mask mask) {
  return {_mm256_maskload_ps(p, mask.low), _mm256_maskload_ps(p + 8, mask.high)};
}
inline void store(float* p, lanes v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
inline void store(float* p, lanes v, lane_mask mask) {
  _mm256_maskstore_ps(p, mask.low, v.low);
  _mm256_maskstore_ps(p + 8, mask.high, v.high);
}
inline lanes select(lane_mask mask, lanes a, lanes b) {
  return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask.low)),
          _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask.high))};
}
inline lanes add(lanes a, lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline lanes subtract(lanes a, lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline lanes multiply(lanes a, lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline lanes divide(lanes a, lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline lanes square_root(lanes x) {
  return {_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)};
}
inline lanes minimum(lanes a, lanes b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline lanes maximum(lanes a, lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline lanes multiply_add(lanes a, lanes b, lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline lanes zero_below(lanes x, float limit, lanes v) {
  const __m256 bound = _mm256_set1_ps(limit);
  return {_mm256_and_ps(_mm256_cmp_ps(x.low, bound, _CMP_GE_OQ), v.low),
          _mm256_and_ps(_mm256_cmp_ps(x.high, bound, _CMP_GE_OQ), v.high)};
}
inline lanes round_nearest(lanes x) {
  return {_mm256_cvtepi32_ps(_mm256_cvtps_epi32(x.low)),
          _mm256_cvtepi32_ps(_mm256_cvtps_epi32(x.high))};
}
inline __m256 power_of_two(__m256 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
inline lanes power_of_two(lanes n) {
  return {power_of_two(n.low), power_of_two(n.high)};
}

inline float sum(lanes v) {
  const __m256 eight = _mm256_add_ps(v.low, v.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(lanes v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

} // namespace
} // namespace weir::kernels::detail
