/// Puts one instruction set's functions into a table: include after a lanes_*.hpp.
#pragma once

#include "kernels/detail/attention.hpp"
#include "kernels/detail/gradient_operations.hpp"
#include "kernels/detail/row_operations.hpp"
#include "kernels/detail/tile_product.hpp"
#include "kernels/ops.hpp"

namespace weir::kernels::detail {

extern const operations generic_operations;
extern const operations avx2_operations;
extern const operations avx512_operations;

namespace {

constexpr operations make_operations(isa_level level) {
  operations table;
  table.level = level;
  table.tile_product = tile_product;
  table.rms_norm = rms_norm;
  table.rope = rope;
  table.swiglu = swiglu;
  table.add = add_rows;
  table.exponential = exponential;
  table.log_sum_exp = log_sum_exp;
  table.attention_row = attention_row;
  table.rope_backward = rope_backward;
  table.rms_norm_backward = rms_norm_backward;
  table.swiglu_backward = swiglu_backward;
  table.scaled_softmax = scaled_softmax;
  table.attention_row_backward = attention_row_backward;
  table.adamw = adamw;
  table.sum_of_squares = sum_of_squares;
  return table;
}

} // namespace
} // namespace weir::kernels::detail
