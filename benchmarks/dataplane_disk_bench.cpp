/// What a snapshot costs on the disk: bytes, rates, memory, and reading it back.
///
/// Bounds: incompressible values are hashed and written as they are, so that the disk decides.
/// Tokens are shuffled and compressed: LZ4 of the same bytes, as they stand, is the baseline.
///
/// A restore has to bring every byte into memory that it did not have before: the system clears a
/// page, copies into it, and what was copied is hashed (or decoded) from the cache. Its baseline is
/// one thread that reads the same files into fresh memory of the same pages, with no hash. Reads
/// into one warm buffer, which stays in the cache, are shown beside it: no restore can do that. A
/// restore uses both cores. Giving memory back is timed on neither side.
#include "actors/checkpoint/pool_jobs.hpp"
#include "benchmarks/dataplane_bench.hpp"
#include "dataplane/compression.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/segment.hpp"
#include "dataplane/segment_file.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace weir::benchmarks {

namespace {

using namespace dataplane;
namespace fs = std::filesystem;

constexpr std::size_t payload_bytes = 64 * mebi;
constexpr std::size_t row_bytes = 64 * 1024;
const epoch_id epoch{1, 1, 1};

double rate(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e6;
}

/// Forgets the pages of a file, so that the next read is of the disk.
void forget(const std::string& path) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ensure(opened >= 0, "a file that was written is there");
  ::posix_fadvise(opened, 0, 0, POSIX_FADV_DONTNEED);
  ::close(opened);
}

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

std::uint64_t bytes_below(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files_below(directory))
    bytes += fs::file_size(file);
  return bytes;
}

/// A store of rows of one field over the given bytes.
snapshot snapshot_of(std::span<const std::byte> bytes, dtype type) {
  store plane;
  for (std::size_t at = 0; at < bytes.size(); at += 16 * row_bytes) {
    std::vector<row_input> rows(16);
    for (std::size_t one = 0; one < rows.size(); ++one)
      rows[one].cells.push_back({.field = "values",
                                 .type = type,
                                 .shape = {row_bytes / element_bytes(type)},
                                 .bytes = bytes.subspan(at + one * row_bytes, row_bytes)});
    ensure(plane.put("rollouts", rows).has_value(), "the rows are put");
  }
  return plane.capture();
}

/// Reads a file in pieces of 4 MiB, each behind the one before, or all to the same place.
void read_bare(const std::string& path, std::span<std::byte> target, bool same_place) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ensure(opened >= 0, "a file that was written is there");
  while (!target.empty()) {
    const auto done = ::read(opened, target.data(), std::min(4 * mebi, target.size()));
    ensure(done >= 0, "a file that was written can be read");
    if (done == 0) break;
    if (!same_place) target = target.subspan(static_cast<std::size_t>(done));
  }
  ::close(opened);
}

class written_snapshots {
public:
  written_snapshots(std::string directory, snapshot state)
      : directory_(std::move(directory)), state_(std::move(state)), storage_(make_posix_disk()),
        pool_(make_blocking_pool({.threads = 1, .queue_limit = 4096, .nice = 0})),
        run_(jobs_on(*pool_)) {}

  double write_rate() {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    return rate(payload_bytes, seconds_of([&] {
                  const auto done = write_snapshot(*storage_, directory_, epoch, state_);
                  ensure(done.has_value(), "a snapshot is written");
                  ensure(storage_->sync_tree(directory_).has_value(), "and durable");
                }));
  }

  double read_rate(bool cold) {
    if (cold) std::ranges::for_each(files_below(directory_), forget);
    std::optional<result<snapshot>> read;
    const double seconds =
        seconds_of([&] { read.emplace(read_snapshot(*storage_, directory_, epoch, run_)); });
    ensure(read->has_value(), "a snapshot is read");
    return rate(payload_bytes, seconds);
  }

  /// The same files, read into memory that is as fresh as that of a restore.
  double bare_read_rate(bool cold) const {
    const auto files = files_below(directory_);
    if (cold) std::ranges::for_each(files, forget);
    std::vector<std::shared_ptr<segment>> read;
    return rate(payload_bytes, seconds_of([&] {
                  for (const std::string& path : files) {
                    const std::uint64_t bytes = fs::file_size(path);
                    read.push_back(segment::allocate(bytes));
                    read_bare(path, read.back()->writable(0, bytes), false);
                  }
                }));
  }

  /// The same files, read into one warm buffer. It is aligned to pages: what the processor copies
  /// by one instruction comes at a fifth of the rate to a place that is 16 bytes off.
  double buffered_read_rate() {
    if (!buffer_) buffer_ = segment::allocate(4 * mebi);
    return rate(payload_bytes, seconds_of([&] {
                  for (const std::string& path : files_below(directory_))
                    read_bare(path, buffer_->writable(0, 4 * mebi), true);
                }));
  }

  [[nodiscard]] const std::string& directory() const { return directory_; }

private:
  std::string directory_;
  snapshot state_;
  std::unique_ptr<disk> storage_;
  std::unique_ptr<blocking_pool> pool_; ///< With the caller, both cores.
  job_runner run_;
  std::shared_ptr<segment> buffer_;
};

/// write + fsync of the bytes in pieces of 4 MiB, and nothing else.
double bare_write_rate(const std::string& directory, std::span<const std::byte> bytes) {
  const std::string path = directory + "/bare";
  fs::remove(path);
  return rate(bytes.size(), seconds_of([&] {
                const int file =
                    ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
                ensure(file >= 0, "a file is made");
                for (std::size_t at = 0; at < bytes.size(); at += 4 * mebi) {
                  const auto piece = bytes.subspan(at, std::min(4 * mebi, bytes.size() - at));
                  const auto done = ::write(file, piece.data(), piece.size());
                  ensure(done == static_cast<ssize_t>(piece.size()), "a file is written");
                }
                ensure(::fsync(file) == 0 && ::close(file) == 0, "a file is synced");
              }));
}

void noise_rows(const std::string& directory, std::vector<row>& rows) {
  const auto bytes = noise(payload_bytes, 4);
  written_snapshots snapshots(directory + "/noise", snapshot_of(bytes, dtype::f32));
  rows.push_back(compare(
      {"snapshot of 64 MiB written, incompressible", "MB/s", "write + fsync of the same bytes", 0.9,
       better::higher},
      [&] { return snapshots.write_rate(); }, [&] { return bare_write_rate(directory, bytes); }));
  rows.push_back(compare(
      {"bytes on disk / live payload, incompressible", "MB", "the payload", 1.01, better::lower},
      [&] { return static_cast<double>(bytes_below(snapshots.directory())) / 1e6; },
      [&] { return static_cast<double>(payload_bytes) / 1e6; }));
  rows.push_back(compare(
      {"restore of 64 MiB, incompressible, from the disk", "MB/s",
       "read of the same files into fresh memory", 0.8, better::higher},
      [&] { return snapshots.read_rate(true); }, [&] { return snapshots.bare_read_rate(true); },
      15));
  rows.push_back(compare(
      {"restore of 64 MiB, incompressible, from the page cache", "MB/s",
       "read of the same files into fresh memory", 0.8, better::higher},
      [&] { return snapshots.read_rate(false); }, [&] { return snapshots.bare_read_rate(false); },
      15));
  rows.push_back(compare(
      {"the same, against reads into one warm buffer", "MB/s",
       "read of the same files into one warm buffer", 0.8, better::higher},
      [&] { return snapshots.read_rate(false); }, [&] { return snapshots.buffered_read_rate(); },
      15));
}

// ---- Tokens ------------------------------------------------------------------------------------

/// LZ4 frames over the bytes as they stand: their sizes together.
std::uint64_t compress_bare(std::span<const std::byte> bytes,
                            std::vector<std::vector<std::byte>>& frames) {
  std::uint64_t written = 0;
  frames.resize((bytes.size() + frame_content_max - 1) / frame_content_max);
  for (std::size_t at = 0; at < bytes.size(); at += frame_content_max) {
    std::vector<std::byte>& frame = frames[at / frame_content_max];
    compress_frame(bytes.subspan(at, std::min(frame_content_max, bytes.size() - at)), frame);
    written += frame.size();
  }
  return written;
}

void token_rows(const std::string& directory, std::vector<row>& rows) {
  const auto ids = tokens(payload_bytes / 4, 6);
  const auto bytes = std::as_bytes(std::span(ids));
  segment_content content;
  content.header.segment = 1;
  content.header.columns.push_back({0, 0, dtype::i32, bytes.size()});
  content.pieces.push_back({bytes});
  std::uint64_t ours_bytes = 0;
  std::uint64_t bare_bytes = 0;
  std::vector<std::vector<std::byte>> frames;
  const auto encode = [&] {
    return rate(bytes.size(), seconds_of([&] {
                  const auto done = write_segment(
                      content, [](std::span<const std::byte>) { return result<void>(); });
                  ours_bytes = *done;
                }));
  };
  rows.push_back(compare(
      {"tokens shuffled, compressed and hashed, one thread", "MB/s",
       "LZ4 frames over the unshuffled bytes", 1.5, better::higher},
      encode, [&] {
        return rate(bytes.size(), seconds_of([&] { bare_bytes = compress_bare(bytes, frames); }));
      }));
  rows.push_back(compare(
      {"the bytes of those tokens", "MB", "LZ4 over the unshuffled bytes", 1.0, better::lower},
      [&] { return static_cast<double>(ours_bytes) / 1e6; },
      [&] { return static_cast<double>(bare_bytes) / 1e6; }));
  written_snapshots snapshots(directory + "/tokens", snapshot_of(bytes, dtype::i32));
  static_cast<void>(snapshots.write_rate());
  std::vector<std::byte> decoded(frame_content_max);
  rows.push_back(compare(
      {"restore of 64 MiB of tokens, from the page cache", "MB/s", "LZ4 decoding of bare frames",
       0.8, better::higher},
      [&] { return snapshots.read_rate(false); },
      [&] {
        return rate(bytes.size(), seconds_of([&] {
                      for (const auto& frame : frames)
                        ensure(decompress_frame(frame, decoded).has_value(), "a frame decodes");
                    }));
      },
      15));
}

// ---- The index ---------------------------------------------------------------------------------

void index_rows(const std::string& directory, std::vector<row>& rows) {
  constexpr std::size_t count = 100'000;
  constexpr std::size_t fields = 4;
  store plane;
  const std::vector<std::byte> bytes(64);
  for (std::size_t at = 0; at < count; at += 1000) {
    std::vector<row_input> some(1000);
    for (std::size_t row = 0; row < some.size(); ++row) {
      some[row].tags = {{"group", static_cast<std::int64_t>((at + row) / 8)}};
      for (std::size_t field = 0; field < fields; ++field)
        some[row].cells.push_back(
            {"f" + std::to_string(field), dtype::f32, {4}, std::span(bytes).first(16)});
    }
    ensure(plane.put("rollouts", some).has_value(), "the rows are put");
  }
  written_snapshots snapshots(directory + "/index", plane.capture());
  static_cast<void>(snapshots.write_rate());
  const double written =
      static_cast<double>(fs::file_size(snapshots.directory() + "/" + index_path()));
  rows.push_back(at_most("index per row of 4 fields and a tag (64 + 32 a field)", "bytes",
                         64.0 + 32.0 * fields,
                         [&] { return written / static_cast<double>(count); }));
}

} // namespace

std::vector<row> snapshot_rows(const std::string& directory) {
  std::vector<row> rows;
  noise_rows(directory, rows);
  token_rows(directory, rows);
  index_rows(directory, rows);
  memory_rows(directory, rows);
  increment_rows(directory, rows);
  return rows;
}

} // namespace weir::benchmarks
