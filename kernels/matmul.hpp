/// Matrix products: y = x w^T with packed weights, and the two transposed forms that training
/// needs.
///
/// Each output element is one chain of fused multiply-adds over the inner index in increasing
/// order, starting from zero (or from the element itself when accumulating). Blocking never changes
/// that order, so the bits of a row do not depend on the other rows, nor on how columns are divided
/// among threads.
#pragma once

#include "kernels/model.hpp"
#include "kernels/ops.hpp"

#include <cstddef>

namespace weir::kernels {

/// Row-major matrix in someone else's memory; `stride` floats from row to row.
struct matrix_view {
  float* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;
};
struct const_matrix_view {
  const float* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;

  const_matrix_view() = default;
  const_matrix_view(const float* first, std::size_t row_count, std::size_t column_count,
                    std::size_t row_stride)
      : data(first), rows(row_count), columns(column_count), stride(row_stride) {}
  const_matrix_view(const matrix_view& other) // NOLINT(google-explicit-constructor)
      : data(other.data), rows(other.rows), columns(other.columns), stride(other.stride) {}
};

enum class write_mode : std::uint8_t { overwrite, accumulate };

/// Weights `[outputs, inputs]` rearranged into panels of 32 outputs, each panel `[inputs][32]`,
/// padded with zeros. Pack once per weight version, use for every product.
class packed_matrix {
public:
  static constexpr std::size_t panel_columns = 32;

  packed_matrix() = default;
  packed_matrix(std::size_t outputs, std::size_t inputs);

  /// Replaces the contents by row-major `[outputs, inputs]` weights; allocates nothing.
  void pack(const float* weights) noexcept;

  [[nodiscard]] std::size_t outputs() const noexcept { return outputs_; }
  [[nodiscard]] std::size_t inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::size_t panels() const noexcept {
    return (outputs_ + panel_columns - 1) / panel_columns;
  }
  [[nodiscard]] const float* panel(std::size_t index) const noexcept {
    return storage_.data() + index * inputs_ * panel_columns;
  }

private:
  std::size_t outputs_ = 0;
  std::size_t inputs_ = 0;
  float_buffer storage_;
};

/// y[m, outputs] (+)= x[m, inputs] w^T, for the outputs of panels [first, first + count) only: what
/// one thread does of a product that several share.
void multiply_panels(const operations& ops, const const_matrix_view& x, const packed_matrix& w,
                     const matrix_view& y, std::size_t first_panel, std::size_t panel_count,
                     write_mode mode = write_mode::overwrite);

/// y[m, outputs] (+)= x[m, inputs] w^T.
void multiply(const operations& ops, const const_matrix_view& x, const packed_matrix& w,
              const matrix_view& y, write_mode mode = write_mode::overwrite);

/// c[m, n] (+)= a[m, k] b[k, n]: gradients of a product's input (a = dy, b = w).
void multiply_plain(const operations& ops, const const_matrix_view& a, const const_matrix_view& b,
                    const matrix_view& c, write_mode mode);

/// c[m, n] (+)= a[k, m]^T b[k, n]: gradients of a product's weights (a = dy, b = x).
void multiply_transposed(const operations& ops, const const_matrix_view& a,
                         const const_matrix_view& b, const matrix_view& c, write_mode mode);

} // namespace weir::kernels
