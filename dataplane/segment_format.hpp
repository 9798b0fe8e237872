/// Numbers of the segment's file that its writer and its reader share; FORMAT.md explains them.
#pragma once

#include "dataplane/compression.hpp"
#include "dataplane/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace weir::dataplane::detail {

inline constexpr std::uint64_t header_magic = 0x6d67657372696577; // "weirsegm"
inline constexpr std::uint64_t end_magic = 0x646e657372696577;    // "weirsend"
inline constexpr std::uint32_t chunk_magic = 0x6b6e6863;          // "chnk"
inline constexpr std::size_t header_fixed_bytes = 48;
inline constexpr std::size_t header_column_bytes = 16;
inline constexpr std::size_t checksum_bytes = 16;
inline constexpr std::size_t chunk_record_bytes = 64;
inline constexpr std::size_t end_record_bytes = 48;
/// No LZ4 frame grows by more than this when it is decoded.
inline constexpr std::uint64_t expansion_max = 256;
inline constexpr std::uint64_t columns_max =
    (frame_content_max - header_fixed_bytes - checksum_bytes) / header_column_bytes;

/// Elements that gain from a shuffle, and whose type says so.
[[nodiscard]] constexpr std::size_t shuffle_of(dtype type) noexcept {
  const std::uint64_t bytes = element_bytes(type);
  return bytes == 2 || bytes == 4 ? static_cast<std::size_t>(bytes) : 1;
}

} // namespace weir::dataplane::detail
