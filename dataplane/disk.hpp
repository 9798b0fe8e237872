/// The seam between weir and the file system: everything that is durable goes through a `disk`.
///
/// The calls are synchronous, thread-safe for different paths, and return errors as values. An
/// implementation retries EINTR and short transfers itself, so that a caller sees all or an error.
/// What survives what, the whole of it:
///
///   a process that is killed   loses nothing that a call returned success for, unless the disk
///                              queues appends (`file::append`);
///   a machine that loses power loses everything that was not synced: the bytes of a file until
///                              `file::sync`, and the *names* in a directory (created, linked,
///                              renamed, removed) until `sync_directory` of that directory.
///
/// Syncing a file does not sync its name, and syncing a directory does not sync the files in it:
/// a file is durable once both returned success. Not yet synced changes may reach the disk in any
/// order and in part. An error of a sync is final: whether the bytes are on the disk is unknown and
/// a second sync that succeeds proves nothing, so give the file up and write another one.
///
/// Errors: `no_space` for ENOSPC and EDQUOT, `not_found` and `already_exists` for names,
/// `unsupported` where the file system cannot do it (hard links), `io_failed` for the rest. The
/// text names the path and the system's own words.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::dataplane {

enum class entry_kind : std::uint8_t { file, directory, symlink, other };

/// One name in a directory.
struct directory_entry {
  std::string name;
  entry_kind kind = entry_kind::other;

  friend bool operator==(const directory_entry&, const directory_entry&) = default;
};

/// What a path names; a symbolic link is described itself, never followed.
struct file_status {
  entry_kind kind = entry_kind::other;
  std::uint64_t bytes = 0;
  /// Equal for two paths of one disk exactly if they are hard links of one file.
  std::uint64_t inode = 0;
  /// Names of the file: more than one if it was linked.
  std::uint64_t links = 1;
};

/// An open file. Destruction closes it and drops close's error: call `close` after writing, since
/// some file systems report a failed write only there. Used by one thread at a time.
class file {
public:
  virtual ~file() = default;
  file() = default;
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  /// Writes all of `bytes` behind the last append. Volatile until `sync`. A disk may queue the
  /// appends to a file that was made by `create`: then an error of one comes with a later call, at
  /// the latest with `sync` or `close`, and a killed process loses what neither has returned for.
  [[nodiscard]] virtual result<void> append(std::span<const std::byte> bytes) = 0;
  /// Writes all of `bytes` at `offset`; the file grows as needed. Does not move the append position
  /// of a file that is written by `append`: use one or the other. Volatile until `sync`.
  [[nodiscard]] virtual result<void> write_at(std::uint64_t offset,
                                              std::span<const std::byte> bytes) = 0;
  /// Reads into `target` and returns how many bytes: fewer than asked only at the end of the file.
  [[nodiscard]] virtual result<std::size_t> read_at(std::uint64_t offset,
                                                    std::span<std::byte> target) = 0;
  [[nodiscard]] virtual result<std::uint64_t> size() = 0;
  /// Makes the bytes durable, not the name. An error is final, see above.
  [[nodiscard]] virtual result<void> sync() = 0;
  /// Has the disk begin with a sync, if it can do so in the background. Nothing is durable before
  /// `sync` returned; errors come with it.
  virtual void start_sync() {}
  [[nodiscard]] virtual result<void> close() = 0;
  /// Closes a new file that is written whole; `disk::sync_tree` makes it durable, or this does.
  [[nodiscard]] virtual result<void> close_for_tree();
  /// The first `bytes` of the file, to be read in place, until the last holder is gone; they
  /// outlive the file object and the name. @pre the file has as many. `unsupported` where that is
  /// impossible.
  [[nodiscard]] virtual result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes);
};

/// An exclusive lock on a file, held until destruction or the death of the process.
class file_lock {
public:
  virtual ~file_lock() = default;
  file_lock() = default;
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

  /// Replaces the content of the lock file: a note for whoever finds it taken, not durable.
  [[nodiscard]] virtual result<void> describe(std::string_view content) = 0;
};

/// A file system. Paths are absolute or relative to the working directory, with '/'.
class disk {
public:
  virtual ~disk() = default;
  disk() = default;
  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;

  /// Creates a file for writing; `already_exists` if the name is taken. The name is volatile until
  /// `sync_directory` of its parent.
  [[nodiscard]] virtual result<std::unique_ptr<file>> create(const std::string& path) = 0;
  /// As `create`; where `spare` is a file that nobody else names or has open, it may become the one
  /// at `path`, empty, so that its room on the disk is used again: the former bytes are gone then.
  /// Otherwise it stays. Both paths are of one directory.
  [[nodiscard]] virtual result<std::unique_ptr<file>> create_over(const std::string& spare,
                                                                  const std::string& path);
  /// Whether `create_over` has a use for the files of this directory.
  [[nodiscard]] virtual bool writes_over(const std::string& directory);
  /// Opens for reading and writing, at the end; created when missing, as by `create`.
  [[nodiscard]] virtual result<std::unique_ptr<file>> open_or_create(const std::string& path) = 0;
  /// Opens a regular file for reading; does not follow a symbolic link at the end of `path`.
  [[nodiscard]] virtual result<std::unique_ptr<file>> open(const std::string& path) = 0;

  /// Makes every change of names in this directory durable, and nothing else.
  [[nodiscard]] virtual result<void> sync_directory(const std::string& path) = 0;
  /// The same for several, in any order and perhaps at once. The first error ends it; which of the
  /// others were synced is unknown then.
  [[nodiscard]] virtual result<void> sync_directories(std::span<const std::string> paths);
  /// Makes all of a directory durable: its names, those in the folders below, and the bytes of what
  /// was closed by `file::close_for_tree` there. Where that is less work the whole file system is
  /// synced, and the error may be of another's file. @pre nobody changes anything there meanwhile,
  /// and the paths of those files began with `directory` as it is spelled here
  [[nodiscard]] virtual result<void> sync_tree(const std::string& directory);

  /// Renames a file or a directory, atomically, and replaces a file or link at `target`. Volatile
  /// until both parent directories are synced: until then either name may be there.
  [[nodiscard]] virtual result<void> rename(const std::string& source,
                                            const std::string& target) = 0;
  /// The same, but `already_exists` if anything has the name `target`.
  [[nodiscard]] virtual result<void> rename_exclusive(const std::string& source,
                                                      const std::string& target) = 0;
  /// Gives a file a second name; the bytes are shared. `unsupported` where that is impossible
  /// (other file system, too many links): copy instead. The name is volatile until its parent is
  /// synced.
  [[nodiscard]] virtual result<void> link(const std::string& source, const std::string& target) = 0;
  /// Makes a symbolic link at `path`; `already_exists` if the name is taken. Volatile as a name.
  [[nodiscard]] virtual result<void> make_symlink(const std::string& destination,
                                                  const std::string& path) = 0;
  [[nodiscard]] virtual result<std::string> read_symlink(const std::string& path) = 0;
  /// Removes the name of a file or a link. Volatile until its parent is synced: it may come back.
  [[nodiscard]] virtual result<void> unlink(const std::string& path) = 0;

  /// Makes one directory; `already_exists` if the name is taken. Volatile as a name.
  [[nodiscard]] virtual result<void> make_directory(const std::string& path) = 0;
  /// Removes an empty directory. Volatile as a name.
  [[nodiscard]] virtual result<void> remove_directory(const std::string& path) = 0;
  /// The names in a directory, sorted, without "." and "..".
  [[nodiscard]] virtual result<std::vector<directory_entry>> list(const std::string& path) = 0;
  [[nodiscard]] virtual result<file_status> stat(const std::string& path) = 0;

  /// Takes the exclusive lock of the file at `path`, created when missing. `already_exists` at once
  /// if another holder, in this process or another, has it; the file says who (`describe`).
  [[nodiscard]] virtual result<std::unique_ptr<file_lock>> lock(const std::string& path) = 0;
};

/// "a/b" from "a" and "b".
[[nodiscard]] std::string join(std::string_view directory, std::string_view name);
/// The directory part of a path: "a" of "a/b", "." of "b".
[[nodiscard]] std::string parent_of(std::string_view path);

/// Makes `path` and its missing parents, and syncs the parent of each that it made, and of the one
/// that was there: all durable, also when an earlier process died in here.
[[nodiscard]] result<void> make_directories(disk& storage, const std::string& path);

/// Whether files can be written in `directory`, or in the nearest folder above it that exists: a
/// probe of 64 KiB is written and removed, and nothing else is changed. The error says what is in
/// the way.
[[nodiscard]] result<void> require_writable(disk& storage, const std::string& directory);

/// Reads a whole file; `exhausted` if it is larger than `bytes_max`, before any allocation.
[[nodiscard]] result<std::vector<std::byte>> read_file(disk& storage, const std::string& path,
                                                       std::uint64_t bytes_max);

/// Replaces a small file durably and atomically: temporary beside it, sync, rename, sync of the
/// directory. A crash at any point leaves the former content or the given one.
[[nodiscard]] result<void> replace_file(disk& storage, const std::string& path,
                                        std::span<const std::byte> content);

/// Points the symbolic link `path` to `destination`, atomically. Volatile until its parent is
/// synced.
[[nodiscard]] result<void> replace_symlink(disk& storage, const std::string& destination,
                                           const std::string& path);

/// Removes a directory with everything in it, links not followed; a missing one is no error, and
/// something else of that name is one. Gives up with `exhausted` after `entries_max` names or 32
/// levels: nothing of ours is larger.
[[nodiscard]] result<void> remove_tree(disk& storage, const std::string& path,
                                       std::uint64_t entries_max = 1'000'000);

} // namespace weir::dataplane
