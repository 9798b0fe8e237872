/// The audit log of one incarnation on disk: `events-<incarnation>.jsonl`.
///
/// All owners append, from any thread, and never wait for the disk: lines gather in memory, in the
/// order of arrival. `sync` makes them durable; a checkpoint calls it before its MANIFEST is
/// written, so that the log can tell whatever a bundle holds.
#pragma once

#include "actors/audit/event.hpp"
#include "dataplane/append_log.hpp"

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

namespace weir {

class event_log final : public event_sink {
public:
  event_log(incarnation life, dataplane::append_log file) : life_(life), file_(std::move(file)) {}
  /// A log without a file, for a graph that is drawn and never started: it keeps nothing.
  explicit event_log(incarnation life) : life_(life) {}

  /// Thread-safe. Above `gathered_bytes_max` the caller writes what gathered, without a sync.
  void append(std::string_view owner, sequence_number sequence, const event& what) override;
  /// Makes everything appended so far durable. Blocks on the disk; appends go on meanwhile. After
  /// an error the lines are kept, and the next call tries again.
  [[nodiscard]] result<void> sync();

  static constexpr std::size_t gathered_bytes_max = 1024 * 1024;

private:
  /// Moves what gathered to the file. @pre `file_mutex_` is held
  void hand_over();

  const incarnation life_;
  std::mutex gathered_mutex_;
  std::string gathered_;
  std::mutex file_mutex_; ///< Taken before `gathered_mutex_`, never after it.
  std::optional<dataplane::append_log> file_;
  bool has_hole_ = false; ///< The disk took nothing for so long that lines were lost.
};

} // namespace weir
