/// What `store::get` returns: per field one contiguous buffer and where each row lies in it.
#pragma once

#include "dataplane/dtype.hpp"
#include "dataplane/row.hpp"
#include "dataplane/segment.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::dataplane {

/// One field of all rows of a batch. The bytes belong to the column, or to the segment that it
/// pins: they stay as they are whatever happens to the store, and may be read from any thread.
struct column {
  std::string field;
  dtype type = dtype::u8;
  /// The values of all rows, one behind the other.
  std::span<const std::byte> bytes;
  /// Rows + 1 positions in `bytes`, in elements.
  std::vector<std::uint64_t> offsets;
  /// The shapes of all rows, one behind the other, and rows + 1 positions in them.
  std::vector<std::uint64_t> extents;
  std::vector<std::uint32_t> extent_offsets;
  /// Whether `bytes` lies in a segment, with nothing copied.
  bool zero_copy = false;

  /// Keeps `bytes` alive: a segment of the store, or the buffer `copied` (used again if recycled).
  std::shared_ptr<const segment> pin;
  std::shared_ptr<segment> copied;

  [[nodiscard]] std::span<const std::uint64_t> shape(std::size_t row) const {
    return std::span(extents).subspan(extent_offsets[row],
                                      extent_offsets[row + 1] - extent_offsets[row]);
  }

  /// All values as numbers. @pre `Number` is the column's dtype
  template <class Number>
  [[nodiscard]] std::span<const Number> values() const {
    ensure(detail::dtype_of<Number>() == type, "a column is read as what it holds");
    return {reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number)};
  }

  /// The values of one row.
  template <class Number>
  [[nodiscard]] std::span<const Number> values(std::size_t row) const {
    return values<Number>().subspan(offsets[row], offsets[row + 1] - offsets[row]);
  }

  /// The text of one row. @pre the dtype is utf8
  [[nodiscard]] std::string_view text(std::size_t row) const {
    ensure(type == dtype::utf8, "a column is read as what it holds");
    const auto own = bytes.subspan(offsets[row], offsets[row + 1] - offsets[row]);
    return {reinterpret_cast<const char*>(own.data()), own.size()};
  }
  /// The bytes of one row. @pre the dtype is bytes
  [[nodiscard]] std::span<const std::byte> blob(std::size_t row) const {
    ensure(type == dtype::bytes, "a column is read as what it holds");
    return bytes.subspan(offsets[row], offsets[row + 1] - offsets[row]);
  }
};

/// Rows in the order asked for, columns in the order of the fields asked for.
struct batch {
  std::vector<row_id> rows;
  std::vector<column> columns;
};

} // namespace weir::dataplane
