/// When a checkpoint is asked for, and when the run stops for it.
///
/// | asked for | when |
/// |-----------|------|
/// | period    | inside the consume lease of a step that `save_period` divides: exactly that step |
/// | last_step | the last step of the job was consumed, or the data ran out |
/// | interval  | `save_interval_ns` passed since the newest attempt; any step |
/// | deadline  | `must_save_by_ns` passed: saved once, then the run stops unfinished |
/// | signal    | SIGTERM or SIGINT: saved, then the run stops unfinished |
///
/// A save that fails is an error in the log and is asked for again at the next period or interval;
/// after a deadline or a signal it ends the run instead. The state asks for one save at a time and
/// remembers a more urgent reason that comes meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir {

/// YAML `checkpointing`. Times in nanoseconds of the same monotonic clock as `now`.
struct save_schedule {
  bool enabled = true;
  /// Steps between two saves; 0: never for that reason.
  std::uint64_t save_period = 10;
  std::optional<std::int64_t> save_interval_ns = {};
  /// Since the start of the process; `started_ns` says when that was, if it was before this life's.
  std::optional<std::int64_t> must_save_by_ns = {};
  std::optional<std::int64_t> started_ns = {};
  /// Steps of the whole job.
  std::optional<std::uint64_t> steps_max = {};
};

/// In rising urgency.
enum class save_reason : std::uint8_t { none, interval, period, last_step, deadline, signal };
[[nodiscard]] std::string_view to_string(save_reason reason) noexcept;

enum class stop_reason : std::uint8_t {
  none,
  job_done,    ///< Exit 0.
  unfinished,  ///< Saved: exit 75, a supervisor starts it again.
  save_failed, ///< Not saved: the error is the run's.
};

class schedule_state {
public:
  schedule_state(save_schedule options, std::int64_t started_ns);

  /// The trainer consumes this step: asked in the lease, before it is released. The reason, if a
  /// save is to be asked for before anything else mutates.
  [[nodiscard]] save_reason step_consumed(std::uint64_t step, std::int64_t now);
  /// No further step will come: the data ran out.
  [[nodiscard]] save_reason data_ended(std::int64_t now);
  [[nodiscard]] save_reason signalled(std::int64_t now);
  /// Time passed. Due at `next_tick()` at the latest.
  [[nodiscard]] save_reason tick(std::int64_t now);
  [[nodiscard]] std::optional<std::int64_t> next_tick() const;

  /// The save that was asked for ended. Another reason when one became due meanwhile.
  [[nodiscard]] save_reason published(std::int64_t now);
  [[nodiscard]] save_reason failed(std::int64_t now);

  /// Whether the run is to end now. Nothing while a save is under way.
  [[nodiscard]] stop_reason stop() const;
  /// The reason of the save under way; `none` between saves.
  [[nodiscard]] save_reason asked() const { return asked_; }
  /// The most urgent reason that came while a save was under way.
  [[nodiscard]] save_reason waiting() const { return waiting_; }

private:
  save_reason ask(save_reason reason, std::int64_t now);
  save_reason ended(bool is_published, std::int64_t now);

  save_schedule options_;
  std::int64_t started_ns_;
  std::int64_t newest_attempt_ns_;
  save_reason asked_ = save_reason::none;
  save_reason waiting_ = save_reason::none;
  stop_reason stop_ = stop_reason::none;
  bool deadline_asked_ = false;
  bool job_ended_ = false;
  /// The save under way holds the end of the job.
  bool asked_at_end_ = false;
};

} // namespace weir
