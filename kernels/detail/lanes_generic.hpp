/// Sixteen floats in plain C++: the meaning of every lane function, and the level of last resort.
///
/// The wider levels define the same names over registers. Only `multiply_add` differs: they round
/// once, this one twice. Everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::kernels::detail {
namespace {

constexpr int tile_rows_max = 2; ///< Rows of C that a tile keeps in registers.
constexpr int tile_lanes = 1;    ///< Vectors of 16 columns of C that a tile keeps in registers.
constexpr std::size_t lane_count = 16;

struct lanes {
  float at[lane_count];
};
struct lane_mask {
  std::size_t count;
};

template <class Function>
inline lanes each(Function function) {
  lanes result;
  for (std::size_t i = 0; i < lane_count; ++i)
    result.at[i] = function(i);
  return result;
}

/// The lanes below `count`.
inline lane_mask first_lanes(std::size_t count) {
  return {count};
}
inline lanes splat(float x) {
  return each([=](std::size_t) { return x; });
}
inline lanes load(const float* p) {
  return each([=](std::size_t i) { return p[i]; });
}
/// Lanes outside the mask are zero and their memory is not touched.
inline lanes load(const float* p, lane_mask mask) {
  return each([=](std::size_t i) { return i < mask.count ? p[i] : 0.0F; });
}
inline void store(float* p, const lanes& v) {
  for (std::size_t i = 0; i < lane_count; ++i)
    p[i] = v.at[i];
}
inline void store(float* p, const lanes& v, lane_mask mask) {
  for (std::size_t i = 0; i < mask.count; ++i)
    p[i] = v.at[i];
}
/// a inside the mask, b outside.
inline lanes select(lane_mask mask, const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return i < mask.count ? a.at[i] : b.at[i]; });
}
inline lanes add(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] + b.at[i]; });
}
inline lanes subtract(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] - b.at[i]; });
}
inline lanes multiply(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] * b.at[i]; });
}
inline lanes divide(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] / b.at[i]; });
}
inline lanes square_root(const lanes& x) {
  return each([&](std::size_t i) { return __builtin_sqrtf(x.at[i]); });
}
inline lanes minimum(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] < b.at[i] ? a.at[i] : b.at[i]; });
}
inline lanes maximum(const lanes& a, const lanes& b) {
  return each([&](std::size_t i) { return a.at[i] > b.at[i] ? a.at[i] : b.at[i]; });
}
/// a x b + c.
inline lanes multiply_add(const lanes& a, const lanes& b, const lanes& c) {
  return each([&](std::size_t i) { return a.at[i] * b.at[i] + c.at[i]; });
}
/// v where x >= limit, else zero.
inline lanes zero_below(const lanes& x, float limit, const lanes& v) {
  return each([&](std::size_t i) { return x.at[i] >= limit ? v.at[i] : 0.0F; });
}
/// To the nearest integer, ties to even.
inline lanes round_nearest(const lanes& x) {
  return each([&](std::size_t i) { return static_cast<float>(__builtin_lrintf(x.at[i])); });
}
/// 2^n for integral n in [-126, 127].
inline lanes power_of_two(const lanes& n) {
  return each([&](std::size_t i) {
    const auto biased = static_cast<std::uint32_t>(static_cast<std::int32_t>(n.at[i]) + 127) << 23;
    return __builtin_bit_cast(float, biased);
  });
}

/// Adds the lanes as a halving tree: i and i + 8, then i and i + 4, and so on.
inline float sum(const lanes& v) {
  float work[lane_count];
  store(work, v);
  for (std::size_t half = lane_count / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i)
      work[i] += work[i + half];
  return work[0];
}
inline float largest(const lanes& v) {
  float result = v.at[0];
  for (std::size_t i = 1; i < lane_count; ++i)
    result = result > v.at[i] ? result : v.at[i];
  return result;
}

} // namespace
} // namespace weir::kernels::detail
