/// Files of one tree that were closed before they are durable, so that one call can make all of
/// them so.
///
/// An fsync of a short new file costs a request to the disk for its bytes, its inode and each
/// folder above it, a flush of the disk's cache, and a wait for each of them in turn: for the ten
/// files of a small bundle more than everything else about it. syncfs(2) has all of it written
/// together. It writes whatever else is dirty on that file system, too, and so is used only while
/// that is little; otherwise each file is synced by itself, by the descriptor it was written with.
///
/// Not even then is syncfs believed about bytes: ext4 allocates when it writes, throws the bytes
/// away if there is no block for them, and syncfs does not say so. So each file's bytes are written
/// by its own descriptor as it is closed, which tells, and waited for by it; syncfs adds inodes and
/// names.
///
/// Only ext4 and XFS, whose syncfs is known to make bytes, inodes and names durable, and only since
/// Linux 5.8, where it reports that a write failed. An error is final for all of the tree, also
/// where the write that failed was another's.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/posix_file.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

namespace weir::dataplane {

/// Thread-safe.
class deferred_syncs {
public:
  /// Descriptors are few: the files of a large bundle sync themselves beyond that. Fewer where the
  /// system allows the process fewer than eight times as many.
  static constexpr std::size_t taken_max = 64;

  /// All are synced together while less than `others_bytes` wait to be written on this machine: by
  /// default what a slow disk writes in a second.
  explicit deferred_syncs(std::uint64_t others_bytes = std::uint64_t{64} << 20)
      : others_bytes_(others_bytes) {}

  /// Closes a file that is written whole, and keeps its descriptor until the sync. False: not this
  /// one, sync it now. An error: its bytes are lost.
  [[nodiscard]] result<bool> take(posix_file& written);
  /// Lets go of a file that was removed. Its room on the disk comes back.
  void forget(const std::string& path);

  /// `disk::sync_tree` of `storage`, with the files that were taken below `directory`; lets go of
  /// them.
  [[nodiscard]] result<void> sync_tree(disk& storage, const std::string& directory);

private:
  struct taken_file {
    std::string path;
    descriptor opened;
  };
  [[nodiscard]] bool keep(posix_file& written);
  [[nodiscard]] std::list<taken_file> take_below(const std::string& directory);
  /// Whether the names are written as well.
  [[nodiscard]] result<bool> sync(const std::list<taken_file>& files, const std::string& directory);

  std::uint64_t others_bytes_;
  std::mutex mutex_;
  std::list<taken_file> taken_;
};

} // namespace weir::dataplane
