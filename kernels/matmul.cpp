#include "kernels/matmul.hpp"

#include <algorithm>
#include <cstring>

namespace weir::kernels {

namespace {

/// Products are cut into panels of 32 columns, so that a panel of B stays in the first-level cache
/// while all rows of A pass over it.
void multiply_by_panel(const operations& ops, tile_operands operands, std::size_t columns) {
  const float* b = operands.b;
  float* c = operands.c;
  for (std::size_t column = 0; column < columns; column += packed_matrix::panel_columns) {
    operands.b = b + column;
    operands.c = c + column;
    operands.columns = std::min(packed_matrix::panel_columns, columns - column);
    ops.tile_product(operands);
  }
}

} // namespace

packed_matrix::packed_matrix(std::size_t outputs, std::size_t inputs)
    : outputs_(outputs), inputs_(inputs),
      storage_((outputs + panel_columns - 1) / panel_columns * panel_columns * inputs) {}

void packed_matrix::pack(const float* weights) noexcept {
  // The padding columns were zeroed by the constructor and are never written.
  for (std::size_t output = 0; output < outputs_; ++output) {
    float* to =
        storage_.data() + output / panel_columns * panel_columns * inputs_ + output % panel_columns;
    const float* from = weights + output * inputs_;
    for (std::size_t input = 0; input < inputs_; ++input)
      to[input * panel_columns] = from[input];
  }
}

void multiply_panels(const operations& ops, const const_matrix_view& x, const packed_matrix& w,
                     const matrix_view& y, std::size_t first_panel, std::size_t panel_count,
                     write_mode mode) {
  ensure(x.columns == w.inputs() && y.columns == w.outputs() && x.rows == y.rows,
         "the shapes of a product agree");
  ensure(first_panel + panel_count <= w.panels(), "the panels exist");
  tile_operands operands;
  operands.a = x.data;
  operands.a_row_stride = x.stride;
  operands.a_depth_stride = 1;
  operands.b_stride = packed_matrix::panel_columns;
  operands.c_stride = y.stride;
  operands.rows = x.rows;
  operands.depth = x.columns;
  operands.accumulate = mode == write_mode::accumulate;
  for (std::size_t panel = first_panel; panel < first_panel + panel_count; ++panel) {
    const std::size_t column = panel * packed_matrix::panel_columns;
    operands.b = w.panel(panel);
    operands.c = y.data + column;
    operands.columns = std::min(packed_matrix::panel_columns, w.outputs() - column);
    ops.tile_product(operands);
  }
}

void multiply(const operations& ops, const const_matrix_view& x, const packed_matrix& w,
              const matrix_view& y, write_mode mode) {
  multiply_panels(ops, x, w, y, 0, w.panels(), mode);
}

void multiply_plain(const operations& ops, const const_matrix_view& a, const const_matrix_view& b,
                    const matrix_view& c, write_mode mode) {
  ensure(a.columns == b.rows && a.rows == c.rows && b.columns == c.columns,
         "the shapes of a product agree");
  tile_operands operands;
  operands.a = a.data;
  operands.a_row_stride = a.stride;
  operands.a_depth_stride = 1;
  operands.b = b.data;
  operands.b_stride = b.stride;
  operands.c = c.data;
  operands.c_stride = c.stride;
  operands.rows = a.rows;
  operands.depth = a.columns;
  operands.accumulate = mode == write_mode::accumulate;
  multiply_by_panel(ops, operands, b.columns);
}

void multiply_transposed(const operations& ops, const const_matrix_view& a,
                         const const_matrix_view& b, const matrix_view& c, write_mode mode) {
  ensure(a.rows == b.rows && a.columns == c.rows && b.columns == c.columns,
         "the shapes of a product agree");
  tile_operands operands;
  operands.a = a.data;
  operands.a_row_stride = 1;
  operands.a_depth_stride = a.stride;
  operands.b = b.data;
  operands.b_stride = b.stride;
  operands.c = c.data;
  operands.c_stride = c.stride;
  operands.rows = a.columns;
  operands.depth = a.rows;
  operands.accumulate = mode == write_mode::accumulate;
  multiply_by_panel(ops, operands, b.columns);
}

} // namespace weir::kernels
