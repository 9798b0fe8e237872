/// What goes into the store and what is said about it: rows, cells, tags, queries.
#pragma once

#include "dataplane/dtype.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weir::dataplane {

/// Bounds of one partition and of one row; an excess is `invalid_argument` that names them.
inline constexpr std::size_t partitions_max = 1024;
inline constexpr std::size_t fields_max = 4096;
inline constexpr std::size_t tag_names_max = 1024;
inline constexpr std::size_t consumers_max = 256;
inline constexpr std::size_t name_bytes_max = 256;
inline constexpr std::size_t key_bytes_max = 1024;
inline constexpr std::size_t tag_text_bytes_max = 1024;

using tag_value = std::variant<std::int64_t, double, std::string>;

/// A small typed key/value of a row, for queries.
struct tag {
  std::string name;
  tag_value value;

  friend bool operator==(const tag&, const tag&) = default;
};

/// One value of one field, contiguous, native byte order (little endian). `bytes` is borrowed for
/// the call. A shape without extents is a scalar.
struct cell_input {
  std::string field;
  dtype type = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// A row to be written. A key, if not empty, is unique among the rows of its partition.
struct row_input {
  std::string key;
  std::vector<tag> tags;
  std::vector<cell_input> cells;
};

/// Fields to be added to a row, and tags to be set (a tag of that name is replaced).
struct row_patch {
  row_id row;
  std::vector<tag> tags;
  std::vector<cell_input> cells;
};

/// Staged rows are invisible; cleared ones are gone, and their ids are never used again.
enum class row_state : std::uint8_t { staged = 1, committed = 2 };
/// What one named consumer did with a committed row; a row without a mark is available to it.
enum class consumer_state : std::uint8_t { claimed = 1, consumed = 2 };

/// Whether a stage may go above the high-water mark: groups that the open step still needs are
/// always granted, and counted (rollouts.md), or its last straggler could never be staged.
enum class admission : std::uint8_t { ordinary, priority };

struct field_summary {
  std::string name;
  dtype type = dtype::u8;
  std::vector<std::uint64_t> shape;

  friend bool operator==(const field_summary&, const field_summary&) = default;
};

/// Everything about a row but its payload.
struct row_summary {
  row_id id;
  std::string key;
  row_state state = row_state::staged;
  std::vector<tag> tags;
  std::vector<field_summary> fields;
  std::vector<std::pair<std::string, consumer_state>> consumers;

  friend bool operator==(const row_summary&, const row_summary&) = default;
};

struct partition_inventory {
  std::string name;
  std::vector<row_summary> rows;

  friend bool operator==(const partition_inventory&, const partition_inventory&) = default;
};

/// Matches rows that have the tag, of the same type, within [lowest, highest].
struct tag_range {
  std::string name;
  tag_value lowest;
  tag_value highest;
};

/// Matches rows whose tag has exactly this value.
[[nodiscard]] inline tag_range tag_equals(std::string name, const tag_value& value) {
  return {std::move(name), value, value};
}

/// All conditions hold. Only committed rows are ever found.
struct row_query {
  std::vector<tag_range> tags;
  /// Names of fields that the row must have.
  std::vector<std::string> produced;
  /// If not empty: only rows that this consumer has neither claimed nor consumed.
  std::string available_to;
  std::size_t rows_max = std::numeric_limits<std::size_t>::max();
};

namespace detail {
template <class Number>
constexpr dtype dtype_of() {
  if constexpr (std::is_same_v<Number, float>)
    return dtype::f32;
  else if constexpr (std::is_same_v<Number, std::int32_t>)
    return dtype::i32;
  else if constexpr (std::is_same_v<Number, std::int64_t>)
    return dtype::i64;
  else if constexpr (std::is_same_v<Number, std::uint8_t>)
    return dtype::u8;
  else
    static_assert(!sizeof(Number), "this type has no dtype: fill a cell_input by hand");
}
} // namespace detail

/// A vector as a cell. Borrows `values`.
template <class Number>
[[nodiscard]] cell_input vector_cell(std::string field, std::span<const Number> values) {
  return {.field = std::move(field),
          .type = detail::dtype_of<Number>(),
          .shape = {values.size()},
          .bytes = std::as_bytes(values)};
}

/// One number as a cell. Borrows `value`.
template <class Number>
[[nodiscard]] cell_input scalar_cell(std::string field, const Number& value) {
  return {.field = std::move(field),
          .type = detail::dtype_of<Number>(),
          .shape = {},
          .bytes = std::as_bytes(std::span(&value, 1))};
}
/// A temporary would be gone before the call that reads it.
template <class Number>
cell_input scalar_cell(std::string field, const Number&& value) = delete;

/// A text as a cell; it must be UTF-8. Borrows `text`.
[[nodiscard]] inline cell_input text_cell(std::string field, std::string_view text) {
  return {.field = std::move(field),
          .type = dtype::utf8,
          .shape = {text.size()},
          .bytes = std::as_bytes(std::span(text))};
}
/// Bytes of any meaning as a cell. Borrows `bytes`.
[[nodiscard]] inline cell_input bytes_cell(std::string field, std::span<const std::byte> bytes) {
  return {.field = std::move(field), .type = dtype::bytes, .shape = {bytes.size()}, .bytes = bytes};
}

} // namespace weir::dataplane
