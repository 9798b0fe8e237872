/// A file that only grows, by whole lines: the audit log and the metrics.
///
/// Lines are durable when `sync` has returned success; before, a crash may lose them or tear the
/// last. A failed write or sync loses nothing here: every line since the last successful sync is
/// kept in memory, and the next call writes them all again at the same place. So a full disk delays
/// lines, and never leaves half of one in the middle. The lines kept are bounded.
#pragma once

#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace weir::dataplane {

/// Used by one thread at a time. Destruction drops what was not written.
class append_log {
public:
  /// Opens or creates the file, its name durably. A torn last line of an earlier life gets its line
  /// end first, so that it stays one bad line.
  [[nodiscard]] static result<append_log> open(disk& storage, std::string path);

  /// Takes one line without its end, or several with ends between them. Writes, without sync, once
  /// 64 KiB have come together, and syncs by itself once 8 MiB are not durable. An error of the
  /// disk does not lose the line; `exhausted` does refuse it, when 16 MiB are waiting for a disk
  /// that takes nothing.
  [[nodiscard]] result<void> append(std::string_view line);
  /// Hands everything to the system: it survives the death of this process then.
  [[nodiscard]] result<void> write();
  /// Makes every line so far durable.
  [[nodiscard]] result<void> sync();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Lines' bytes that are not durable yet.
  [[nodiscard]] std::size_t pending_bytes() const { return pending_.size(); }

private:
  append_log(std::unique_ptr<file> opened, std::string path, std::uint64_t durable_bytes)
      : opened_(std::move(opened)), path_(std::move(path)), durable_bytes_(durable_bytes) {}

  std::unique_ptr<file> opened_;
  std::string path_;
  /// Where `pending_` begins in the file.
  std::uint64_t durable_bytes_;
  std::string pending_;
  /// How much of `pending_` the system has.
  std::size_t written_ = 0;
};

} // namespace weir::dataplane
