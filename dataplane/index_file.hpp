/// The frame of data_plane/index.fb: a preamble, then chunks, each a FlatBuffer with its place in
/// the order, its size and its checksum in front. Neither side ever holds more than one chunk.
///
///   preamble   0  8  "weirindx"      16 24  incarnation, life, number of the cut
///              8  4  version, 2      40 16  XXH3-128 of the 40 bytes before
///             12  4  zero
///   chunk      0  8  ordinal, from 0 16 16  XXH3-128 of the payload
///              8  8  payload bytes   32 16  XXH3-128 of the 32 bytes before
///             48     payload: a `Chunk` of index.fbs
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/segment_file.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::dataplane {

/// Version 2 knows the dtypes `bytes` and `utf8`. All versions are read, the newest is written.
inline constexpr std::uint32_t index_format_version = 2;
/// Largest payload of a chunk: what a reader takes memory for.
inline constexpr std::size_t index_chunk_bytes_max = std::size_t{16} * 1024 * 1024;

/// In a `CellRecord`, in place of a position in the list of segments: the value has no bytes.
inline constexpr std::uint32_t no_segment = 0xffffffff;

class index_writer {
public:
  explicit index_writer(byte_sink sink) : sink_(std::move(sink)) {}

  [[nodiscard]] result<void> begin(epoch_id epoch);
  [[nodiscard]] result<void> append(std::span<const std::byte> payload);
  /// Chunks so far.
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

private:
  byte_sink sink_;
  std::uint64_t chunks_ = 0;
};

/// Reads in order; texts say which chunk, not which file.
class index_reader {
public:
  explicit index_reader(file& source) : source_(source) {}

  /// Verifies the preamble. `unsupported` for a newer format, `corrupt` for damage.
  [[nodiscard]] result<epoch_id> begin();
  /// The next payload, its checksum verified, its FlatBuffer not. Lasts until the next call.
  [[nodiscard]] result<std::span<const std::byte>> next();
  [[nodiscard]] bool at_end() const { return left_ == 0; }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }
  /// Of the file. @pre `begin` succeeded
  [[nodiscard]] std::uint32_t version() const { return version_; }

private:
  [[nodiscard]] result<void> take(std::size_t bytes);

  file& source_;
  std::uint64_t position_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint32_t version_ = 0;
  std::vector<std::byte> taken_;
};

} // namespace weir::dataplane
