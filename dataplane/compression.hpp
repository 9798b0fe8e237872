/// LZ4 frames, as the plain `lz4` tool reads them, and the byte shuffle in front of them.
///
/// Frames here always say their content size, hold independent blocks, and carry no LZ4 checksum:
/// the files that contain them have their own over the stored bytes, verified before any decoding.
#pragma once

#include "messages/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::dataplane {

/// Largest content of one frame; a frame of it is a single block.
inline constexpr std::size_t frame_content_max = std::size_t{4} * 1024 * 1024;
/// Most bytes of a frame with that content, and of one with `content_bytes`.
[[nodiscard]] std::size_t frame_bytes_max(std::size_t content_bytes) noexcept;

/// One frame with the content compressed, in `target` (replaced; its capacity is used again).
/// @pre `content.size() <= frame_content_max`
void compress_frame(std::span<const std::byte> content, std::vector<std::byte>& target);

/// The bytes in front of and behind content that stands in its frame as it is, for data that does
/// not compress: nothing is copied.
/// @pre `content_bytes` is from 1 to `frame_content_max`
[[nodiscard]] std::array<std::byte, 19> stored_frame_head(std::size_t content_bytes);
inline constexpr std::array<std::byte, 4> stored_frame_tail{};
[[nodiscard]] constexpr std::size_t stored_frame_bytes(std::size_t content_bytes) noexcept {
  return 19 + content_bytes + stored_frame_tail.size();
}

/// Decodes exactly one frame into exactly `target`. `corrupt` if it is anything else: another size,
/// bytes behind its end, a skippable frame.
[[nodiscard]] result<void> decompress_frame(std::span<const std::byte> frame,
                                            std::span<std::byte> target);

/// Whether compression is worth its time: a 64 KiB sample, taken from all over `content` and
/// shuffled as the whole would be, shrinks by at least a sixteenth.
[[nodiscard]] bool compresses(std::span<const std::byte> content, std::size_t element_bytes);

/// Puts the first bytes of all elements together, then the second bytes, and so on: numbers of
/// similar size become runs. `element_bytes` 1 copies.
/// @pre sizes are equal, a multiple of `element_bytes`, and do not overlap
void shuffle_bytes(std::span<const std::byte> source, std::size_t element_bytes,
                   std::span<std::byte> target);
/// The inverse.
void unshuffle_bytes(std::span<const std::byte> source, std::size_t element_bytes,
                     std::span<std::byte> target);

/// Appends a skippable frame, which `lz4` steps over.
void append_skippable_frame(std::vector<std::byte>& target, std::span<const std::byte> payload);
/// Bytes in front of the payload of a skippable frame.
inline constexpr std::size_t skippable_header_bytes = 8;
/// The magic number of the skippable frames that weir writes.
inline constexpr std::uint32_t skippable_magic = 0x184D2A57;

} // namespace weir::dataplane
