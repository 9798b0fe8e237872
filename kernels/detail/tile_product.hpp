/// The register-blocked matrix product of one instruction set: include after a lanes_*.hpp.
///
/// A block of C (rows x lanes) stays in registers over the whole depth; each of its elements is one
/// chain of multiply-adds in increasing k, whatever the block it belongs to.
#pragma once

#include "kernels/ops.hpp"

#include <cstddef>

namespace weir::kernels::detail {
namespace {

/// Rows x (16 Lanes) of C at (row, column). Whole: all columns exist. ByDepth: A is contiguous in k
/// (else in rows), which lets the compiler fold the addresses.
template <int Rows, int Lanes, bool Whole, bool ByDepth>
inline void tile_block(const tile_operands& t, std::size_t row, std::size_t column) {
  constexpr std::size_t lane = 16;
  const std::size_t row_stride = ByDepth ? t.a_row_stride : 1;
  const std::size_t depth_stride = ByDepth ? 1 : t.a_depth_stride;
  const float* a = t.a + row * row_stride;
  const float* b = t.b + column;
  float* c = t.c + row * t.c_stride + column;
  const lane_mask last = first_lanes(Whole ? lane : t.columns - column - lane * (Lanes - 1));

  lanes sums[Rows][Lanes];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      const float* from =
          c + static_cast<std::size_t>(r) * t.c_stride + static_cast<std::size_t>(l) * lane;
      sums[r][l] = !t.accumulate              ? splat(0.0F)
                   : (Whole || l + 1 < Lanes) ? load(from)
                                              : load(from, last);
    }
  for (std::size_t k = 0; k < t.depth; ++k) {
    lanes weights[Lanes];
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      const float* from = b + static_cast<std::size_t>(l) * lane;
      weights[l] = (Whole || l + 1 < Lanes) ? load(from) : load(from, last);
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const lanes x = splat(a[static_cast<std::size_t>(r) * row_stride]);
#pragma GCC unroll 4
      for (int l = 0; l < Lanes; ++l)
        sums[r][l] = multiply_add(x, weights[l], sums[r][l]);
    }
    a += depth_stride;
    b += t.b_stride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int l = 0; l < Lanes; ++l) {
      float* to = c + static_cast<std::size_t>(r) * t.c_stride + static_cast<std::size_t>(l) * lane;
      if (Whole || l + 1 < Lanes)
        store(to, sums[r][l]);
      else
        store(to, sums[r][l], last);
    }
}

/// Blocks of exactly Rows rows while they fit, then the same with fewer rows.
template <int Rows, int Lanes, bool Whole, bool ByDepth>
inline void tile_rows(const tile_operands& t, std::size_t row, std::size_t column) {
  while (row + Rows <= t.rows) {
    tile_block<Rows, Lanes, Whole, ByDepth>(t, row, column);
    row += Rows;
  }
  if constexpr (Rows > 1) {
    if (row < t.rows) tile_rows<Rows - 1, Lanes, Whole, ByDepth>(t, row, column);
  }
}

template <int Lanes, bool Whole>
inline void tile_columns(const tile_operands& t, std::size_t column) {
  if (t.a_depth_stride == 1)
    tile_rows<tile_rows_max, Lanes, Whole, true>(t, 0, column);
  else
    tile_rows<tile_rows_max, Lanes, Whole, false>(t, 0, column);
}

inline void tile_product(const tile_operands& t) {
  constexpr std::size_t block = 16 * static_cast<std::size_t>(tile_lanes);
  std::size_t column = 0;
  for (; column + block <= t.columns; column += block)
    tile_columns<tile_lanes, true>(t, column);
  const std::size_t left = t.columns - column;
  if (left == 0) return;
  // At most one vector left in a block of two: do not compute the empty one.
  if (tile_lanes > 1 && left <= 16)
    tile_columns<1, false>(t, column);
  else
    tile_columns<tile_lanes, false>(t, column);
}

} // namespace
} // namespace weir::kernels::detail
