/// Sixteen floats as one AVX-512 register. See lanes_generic.hpp for the meaning of each function.
///
/// Included only by translation units that are compiled for AVX-512; everything has internal
/// linkage, so that the linker never hands such code to the rest of the program.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace weir::kernels::detail {
namespace {

constexpr int tile_rows_max = 12;
constexpr int tile_lanes = 2;

using lanes = __m512;
using lane_mask = __mmask16;

inline lane_mask first_lanes(std::size_t count) {
  return static_cast<lane_mask>((1U << count) - 1U);
}
inline lanes splat(float x) {
  return _mm512_set1_ps(x);
}
inline lanes load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline lanes load(const float* p, lane_mask mask) {
  return _mm512_maskz_loadu_ps(mask, p);
}
inline void store(float* p, lanes v) {
  _mm512_storeu_ps(p, v);
}
inline void store(float* p, lanes v, lane_mask mask) {
  _mm512_mask_storeu_ps(p, mask, v);
}
inline lanes select(lane_mask mask, lanes a, lanes b) {
  return _mm512_mask_blend_ps(mask, b, a);
}
inline lanes add(lanes a, lanes b) {
  return _mm512_add_ps(a, b);
}
inline lanes subtract(lanes a, lanes b) {
  return _mm512_sub_ps(a, b);
}
inline lanes multiply(lanes a, lanes b) {
  return _mm512_mul_ps(a, b);
}
inline lanes divide(lanes a, lanes b) {
  return _mm512_div_ps(a, b);
}
inline lanes square_root(lanes x) {
  return _mm512_sqrt_ps(x);
}
inline lanes minimum(lanes a, lanes b) {
  return _mm512_min_ps(a, b);
}
inline lanes maximum(lanes a, lanes b) {
  return _mm512_max_ps(a, b);
}
inline lanes multiply_add(lanes a, lanes b, lanes c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline lanes zero_below(lanes x, float limit, lanes v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, splat(limit), _CMP_GE_OQ), v);
}
inline lanes round_nearest(lanes x) {
  return _mm512_cvtepi32_ps(_mm512_cvtps_epi32(x));
}
inline lanes power_of_two(lanes n) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

inline __m256 upper_half(lanes v) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}
inline float sum(lanes v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), upper_half(v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(lanes v) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), upper_half(v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

} // namespace
} // namespace weir::kernels::detail
