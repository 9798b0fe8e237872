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

#include "dataplane/checksum.hpp"
#include "dataplane/chunk_buffers.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/dtype.hpp"
#include "dataplane/segment.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace weir::dataplane {

/// Version 2 knows the dtypes `bytes` and `utf8`. All versions are read, the newest is written.
inline constexpr std::uint32_t segment_format_version = 2;

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

/// Writes a segment in pieces of at most 4 MiB, with about 5 MiB of memory, and returns the bytes
/// of the file. The only errors are those of the sink.
[[nodiscard]] result<std::uint64_t> write_segment(const segment_content& content,
                                                  const byte_sink& sink);

/// A segment in memory again: its columns, one behind the other, each 64-byte aligned.
struct loaded_segment {
  segment_header header;
  std::shared_ptr<const segment> memory;
  /// By column: where it begins.
  std::vector<std::uint64_t> begins;
  /// By column: bytes of its records and frames in the file.
  std::vector<std::uint64_t> stored_bytes;
};

/// What stands in front of a data frame.
struct chunk_record {
  std::uint32_t column = 0;
  std::uint64_t offset = 0;
  std::uint32_t content_bytes = 0;
  std::uint32_t frame_bytes = 0;
  std::uint32_t shuffle = 1;
  checksum128 frame_checksum;
};

/// A segment on its way into memory. `corrupt` for damage, `unsupported` for a newer format,
/// `exhausted` if the system has no memory for it. Texts do not name the file: the caller does.
class segment_loading {
public:
  /// Reads the header and takes the memory. `source` and `buffers` outlive it, and are used by
  /// several threads if several work.
  [[nodiscard]] static result<std::unique_ptr<segment_loading>> begin(file& source,
                                                                      chunk_buffers& buffers);
  segment_loading(const segment_loading&) = delete;
  segment_loading& operator=(const segment_loading&) = delete;
  ~segment_loading();

  /// For so many threads there is work.
  [[nodiscard]] std::size_t workers() const;
  /// Reads, verifies and decodes parts of some 4 MiB until none is left. Any number of threads;
  /// together they read the file from its beginning to its end, as a disk likes best.
  void work();
  /// The segment, or the first thing in the file that is wrong. @pre no thread works any more, and
  /// at least one did
  [[nodiscard]] result<loaded_segment> finish();

private:
  struct chunk_place {
    chunk_record record;
    std::uint64_t position = 0; ///< Of its frame in the file.
  };
  class scanner;

  segment_loading(std::unique_ptr<scanner> records, chunk_buffers& buffers);
  /// The next chunks; none at the end, or once anything was wrong.
  [[nodiscard]] std::vector<chunk_place> next_part();
  /// Returns whether all is well.
  bool load(std::span<const chunk_place> part, chunk_buffer& buffer);
  void fail(std::uint64_t position, error reason);

  std::unique_ptr<scanner> records_;
  chunk_buffers& buffers_;
  std::mutex mutex_;
  /// What is wrong first in the file, and where.
  std::optional<error> reason_;
  std::uint64_t reason_position_ = 0;
};

/// Reads and verifies a whole file.
[[nodiscard]] result<loaded_segment> read_segment(file& source);

} // namespace weir::dataplane
