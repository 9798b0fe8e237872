/// Room on disk for segments that are seldom read.
///
/// A spilled segment is a file without a name, mapped into memory: the system reads pages as they
/// are asked for, drops them when it is short of memory, and takes the room back with the last
/// holder, whoever dies how. Nothing here is durable: a restore knows only bundles. A process that
/// is killed between making a file and taking its name away leaves the name behind; `open` removes
/// what it finds. That may be a name that another process has just made, and is about to take away:
/// no harm to either, so that runs may share a folder.
///
/// A file is synced before it takes the memory's place, for the error and not to last: what the
/// system fails to write later would be read as something else, without an error. A disk that
/// cannot be read later ends the process (SIGBUS), as memory that cannot be read would.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/segment.hpp"
#include "messages/error.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weir::dataplane {

class spill_area {
public:
  /// Makes the folder if it is missing and removes what an earlier life left in it. The disk
  /// outlives the area.
  [[nodiscard]] static result<std::shared_ptr<spill_area>>
  open(disk& storage, std::string directory, std::uint64_t bytes_max);

  /// A segment with the same bytes, on disk. Blocks for the time of a write and a sync.
  /// `exhausted`: it does not fit into what is left of `bytes_max`. Otherwise errors of the disk,
  /// `unsupported` if it cannot map files; nothing is left behind.
  [[nodiscard]] result<std::shared_ptr<const segment>> spill(const segment& source);

  [[nodiscard]] std::uint64_t bytes_max() const { return bytes_max_; }
  /// Bytes of the segments that somebody still holds.
  [[nodiscard]] std::uint64_t used_bytes() const { return used_->load(); }
  /// Segments that were spilled, those that are gone too.
  [[nodiscard]] std::uint64_t spilled() const { return spilled_.load(); }
  [[nodiscard]] std::uint64_t room_bytes() const {
    return bytes_max_ - std::min(bytes_max_, used_bytes());
  }

private:
  spill_area(disk& storage, std::string directory, std::uint64_t bytes_max)
      : storage_(storage), directory_(std::move(directory)), bytes_max_(bytes_max) {}
  [[nodiscard]] result<std::unique_ptr<file>> make_nameless_file();

  disk& storage_;
  std::string directory_;
  std::uint64_t bytes_max_;
  std::uint64_t next_file_ = 1;
  std::atomic<std::uint64_t> spilled_ = 0;
  /// Segments may die after the area, and on any thread.
  std::shared_ptr<std::atomic<std::uint64_t>> used_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

} // namespace weir::dataplane
