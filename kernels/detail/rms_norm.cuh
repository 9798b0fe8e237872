/// RMSNorm of rows as a GPU computes it, with the bits of the CPU's `operations::rms_norm`.
///
/// Sixteen threads share a row: thread l is lane l of ops.hpp, and sums the squares of elements
/// l, l + 16, l + 32, ... in order. The lanes are added as a halving tree in shared memory. A block
/// takes 8 rows. Bound: 2 x 4 bytes of memory traffic per element (x is read twice, the second time
/// from cache).
#pragma once

#include "kernels/detail/simt.cuh"

#include <cmath>
#include <cstddef>

namespace weir::kernels::detail {

inline constexpr std::uint32_t rms_norm_lanes = 16;
inline constexpr std::uint32_t rms_norm_block_rows = 8;
inline constexpr std::uint32_t rms_norm_block_threads = rms_norm_lanes * rms_norm_block_rows;

struct rms_norm_operands {
  const float* x = nullptr;      ///< `[rows, size]`.
  const float* weight = nullptr; ///< `[size]`.
  float* y = nullptr;            ///< `[rows, size]`; may be x.
  std::size_t rows = 0;
  std::size_t size = 0;
  float epsilon = 0.0F;
  bool fused = true; ///< Round a multiply-add once, as the CPU's levels above generic do.
};

[[nodiscard]] constexpr std::size_t rms_norm_blocks(std::size_t rows) {
  return (rows + rms_norm_block_rows - 1) / rms_norm_block_rows;
}

/// One block: rows [8 x block_index, ...). `partial` is shared memory of one float per thread.
template <class Block>
WEIR_DEVICE void rms_norm_block(Block& block, std::size_t block_index,
                                const rms_norm_operands& operands, float* partial) {
  const std::size_t first_row = block_index * rms_norm_block_rows;
  const auto row_of = [=](std::uint32_t thread) { return first_row + thread / rms_norm_lanes; };

  block.for_each_thread([=](std::uint32_t thread) {
    float sum = 0.0F;
    if (row_of(thread) < operands.rows) {
      const float* row = operands.x + row_of(thread) * operands.size;
      for (std::size_t i = thread % rms_norm_lanes; i < operands.size; i += rms_norm_lanes)
        sum = operands.fused ? fmaf(row[i], row[i], sum) : row[i] * row[i] + sum;
    }
    partial[thread] = sum;
  });

  for (std::uint32_t half = rms_norm_lanes / 2; half > 0; half /= 2)
    block.for_each_thread([=](std::uint32_t thread) {
      if (thread % rms_norm_lanes < half) partial[thread] += partial[thread + half];
    });

  block.for_each_thread([=](std::uint32_t thread) {
    if (row_of(thread) >= operands.rows) return;
    const std::size_t start = row_of(thread) * operands.size;
    const float squares = partial[thread - thread % rms_norm_lanes];
    const float mean = squares / static_cast<float>(operands.size);
    const float scale = 1.0F / sqrtf(mean + operands.epsilon);
    for (std::size_t i = thread % rms_norm_lanes; i < operands.size; i += rms_norm_lanes)
      operands.y[start + i] = operands.x[start + i] * scale * operands.weight[i];
  });
}

} // namespace weir::kernels::detail
