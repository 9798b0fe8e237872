/// One segment on disk: a sequence of LZ4 frames that the plain `lz4` tool decodes (it steps over
/// the skippable ones, and yields the columns as they are stored, shuffled).
///
///   header      skippable: which segment, of which cut, which columns of how many bytes
///   per chunk   skippable record: what the next frame holds, its checksum, its own checksum
///               data frame: up to 4 MiB of one column, byte-shuffled and compressed, or as it is
///   end         skippable: number of chunks and bytes, its own checksum
///
/// FORMAT.md has every byte. A checksum is verified before what it covers is decoded, so that no
/// damage reaches LZ4, and sizes are checked before memory is taken.
///
/// The stream of a column is its live values in the order of their rows, without gaps: column bytes
/// are live bytes. A value may cross a border of chunks.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/dtype.hpp"
#include "dataplane/segment.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

inline constexpr std::uint32_t segment_format_version = 1;

struct segment_column {
  std::uint32_t partition = 0;
  std::uint16_t field = 0;
  dtype type = dtype::u8;
  std::uint64_t bytes = 0;

  friend bool operator==(const segment_column&, const segment_column&) = default;
};

struct segment_header {
  std::uint64_t segment = 0;
  /// Of the bundle that wrote it.
  epoch_id epoch;
  std::vector<segment_column> columns;

  friend bool operator==(const segment_header&, const segment_header&) = default;
};

/// What is to be written: per column of the header the pieces of its stream.
struct segment_content {
  segment_header header;
  std::vector<std::vector<std::span<const std::byte>>> pieces;
};

/// Takes the next bytes of a file.
using byte_sink = std::function<result<void>(std::span<const std::byte>)>;

/// Writes a segment in pieces of at most 4 MiB, with about 12 MiB of memory, and returns the bytes
/// of the file. The only errors are those of the sink.
[[nodiscard]] result<std::uint64_t> write_segment(const segment_content& content,
                                                  const byte_sink& sink);

/// A segment in memory again: its columns, one behind the other, each 64-byte aligned.
struct loaded_segment {
  segment_header header;
  std::shared_ptr<const segment> memory;
  /// By column: where it begins.
  std::vector<std::uint64_t> begins;
};

/// Reads and verifies a whole file. `corrupt` for damage, `unsupported` for a newer format,
/// `exhausted` if the system has no memory for it. Texts do not name the file: the caller does.
[[nodiscard]] result<loaded_segment> read_segment(file& source);

} // namespace weir::dataplane
