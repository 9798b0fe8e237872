/// A new file whose bytes go past the page cache, on file systems where that pays.
///
/// What a bundle writes is not read again while the run lives, and a page of the cache costs more
/// than the copy into it: it is allocated, charged, written back by another thread and dropped with
/// the file. Appends are collected in a block of memory; what is there in whole pages is written
/// from it (O_DIRECT), the rest of the last page as any write. A large append whose memory lies as
/// the disk wants it is written from where it is. Whatever the file system refuses is written
/// through the cache, and a short file always is.
#pragma once

#include "dataplane/deferred_syncs.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/posix_file.hpp"
#include "dataplane/segment.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

/// Shorter files go through the cache: one request and one sync are less than two requests.
inline constexpr std::uint64_t direct_bytes_min = std::uint64_t{256} << 10;

/// A shorter append is collected: one request for many.
inline constexpr std::uint64_t uncopied_bytes_min = std::uint64_t{1} << 20;
/// Memory is aligned so for most disks. Another one refuses, and is given blocks from then on.
inline constexpr std::uint64_t direct_memory_bytes = 512;

/// Whether an append of `bytes`, which are to stand at `at` in their file, is large and aligned
/// with its place, so that a disk need not copy it.
[[nodiscard]] bool needs_no_copy(std::span<const std::byte> bytes, std::uint64_t at);

/// Memory that appends are collected in, used again from file to file. Thread-safe.
class direct_blocks {
public:
  /// Large enough for huge pages, of which the disk is handed few.
  static constexpr std::uint64_t block_bytes = std::uint64_t{4} << 20;

  /// Null if the system has no memory.
  [[nodiscard]] std::shared_ptr<segment> take();
  void give_back(std::shared_ptr<segment> block);

private:
  /// As many are kept as files are commonly written at once.
  static constexpr std::size_t kept_max = 2;

  std::mutex mutex_;
  std::vector<std::shared_ptr<segment>> kept_;
};

/// Of a file that was made, or why it was not. It holds a block from its first append until it is
/// synced. On a file system that is not known to take direct writes well (ext4 and XFS are) nothing
/// is collected, and every append goes through the cache at once. Everywhere an error stays with
/// its file.
[[nodiscard]] result<std::unique_ptr<file>>
write_directly(result<std::unique_ptr<posix_file>> made,
               const std::shared_ptr<direct_blocks>& blocks,
               const std::shared_ptr<deferred_syncs>& syncs);

} // namespace weir::dataplane
