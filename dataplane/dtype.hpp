/// Element types of fields, and the shape of one cell.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir::dataplane {

/// The numbers are part of the on-disk format: append, never renumber.
enum class dtype : std::uint8_t {
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  i32 = 4,
  i64 = 5,
  u8 = 6,
  boolean = 7, ///< One byte, 0 or 1.
  bytes = 8,   ///< Opaque; one dimension.
  utf8 = 9,    ///< A text in UTF-8; one dimension, in bytes.
};

/// The dtype of an on-disk number; empty if format `version` has none of it.
[[nodiscard]] constexpr std::optional<dtype> dtype_from(std::uint8_t number,
                                                        std::uint32_t version) noexcept {
  const std::uint8_t newest = version < 2 ? 7 : 9;
  if (number < 1 || number > newest) return std::nullopt;
  return static_cast<dtype>(number);
}

/// Whether values of it have one dimension, whatever their length.
[[nodiscard]] constexpr bool is_opaque(dtype type) noexcept {
  return type == dtype::bytes || type == dtype::utf8;
}

/// Whether the bytes are well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::span<const std::byte> text) noexcept;

[[nodiscard]] constexpr std::uint64_t element_bytes(dtype type) noexcept {
  switch (type) {
  case dtype::f32:
  case dtype::i32:
    return 4;
  case dtype::f16:
  case dtype::bf16:
    return 2;
  case dtype::i64:
    return 8;
  case dtype::u8:
  case dtype::boolean:
  case dtype::bytes:
  case dtype::utf8:
    return 1;
  }
  return 0;
}

/// "f32", as errors and `weir export` spell it.
[[nodiscard]] constexpr std::string_view to_string(dtype type) noexcept {
  switch (type) {
  case dtype::f32:
    return "f32";
  case dtype::f16:
    return "f16";
  case dtype::bf16:
    return "bf16";
  case dtype::i32:
    return "i32";
  case dtype::i64:
    return "i64";
  case dtype::u8:
    return "u8";
  case dtype::boolean:
    return "bool";
  case dtype::bytes:
    return "bytes";
  case dtype::utf8:
    return "utf8";
  }
  return "unknown";
}

/// Most extents of one cell. Extents may be 0; a scalar has none.
inline constexpr std::size_t rank_max = 8;
/// Most bytes of one cell.
inline constexpr std::uint64_t cell_bytes_max = std::uint64_t{1} << 40;

/// Bytes of a cell of this shape; empty if it has too many extents or too many bytes.
[[nodiscard]] constexpr std::optional<std::uint64_t>
cell_bytes(dtype type, std::span<const std::uint64_t> shape) noexcept {
  if (shape.size() > rank_max) return std::nullopt;
  std::uint64_t bytes = element_bytes(type);
  bool nothing = false;
  for (const std::uint64_t extent : shape) {
    nothing = nothing || extent == 0;
    if (extent > cell_bytes_max || (extent != 0 && bytes > cell_bytes_max / extent))
      return std::nullopt;
    bytes *= extent == 0 ? 1 : extent;
  }
  return nothing ? 0 : bytes;
}

} // namespace weir::dataplane
