/// The `disk` of a machine whose kernel does file work in the background (io_uring).
///
/// Names are handled as by `make_posix_disk`. What differs is the bytes of a file that was made by
/// `create`: an append is copied into a buffer and written while the caller goes on, at most
/// `buffers_per_file` at a time; a sync follows the last write without a call in between; several
/// directories are synced at once; a long read is many short ones in flight. So an error of a
/// queued append comes with a later call on that file, at the latest with `sync` or `close`, and
/// every call after it fails with the same words: no sync returns success over a lost write.
///
/// What was queued and neither synced nor closed is lost with the process. Nothing of weir counts
/// on it: a file that must keep its appends over a kill without a sync (the logs) is opened by
/// `open_or_create`, and written at once.
#pragma once

#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace weir::dataplane {

/// Which back end a run writes through.
enum class disk_kind : std::uint8_t {
  automatic, ///< io_uring where the kernel allows it, else posix, and a line says why.
  posix,
  io_uring, ///< An error where the kernel does not allow it.
};

/// A disk, and what is to be said about the choice; nothing if it was what was asked for.
struct chosen_disk {
  std::unique_ptr<disk> storage;
  std::string notice;
};

/// The file system of this process through io_uring; thread-safe as `make_posix_disk`.
/// `unsupported`: the kernel, its settings or a container do not allow it, or this program was
/// built without it; the text says which.
[[nodiscard]] result<std::unique_ptr<disk>> make_uring_disk();

[[nodiscard]] result<chosen_disk> choose_disk(disk_kind wanted);

} // namespace weir::dataplane
