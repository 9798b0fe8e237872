/// The `disk` of a real machine: system calls, and nothing that decides. Files are in
/// `posix_file.hpp` and `direct_file.hpp`.
#pragma once

#include "dataplane/disk.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace weir::dataplane {

/// The file system of this process. Thread-safe. New files are written past the page cache where
/// that pays (`direct_file.hpp`); up to 8 MiB of memory are kept for it.
[[nodiscard]] std::unique_ptr<disk> make_posix_disk();

/// Who holds a run directory, as it stands in its lock file.
struct process_identity {
  std::int64_t pid = 0;
  std::string host;

  friend bool operator==(const process_identity&, const process_identity&) = default;
};
[[nodiscard]] process_identity this_process();

} // namespace weir::dataplane
