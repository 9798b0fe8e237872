/// What a run says: the progress line, messages above it, `metrics.jsonl`. Thread-safe, since the
/// log hook of the world is called from any thread.
#pragma once

#include "actors/checkpoint/checkpoint.hpp"
#include "dataplane/append_log.hpp"
#include "examples/weir/config.hpp"
#include "examples/weir/progress.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace weir {

class run_output {
public:
  /// `max_steps`: of the job. The progress line is for the standard output.
  run_output(std::uint64_t max_steps, logger_level level);

  /// Where metrics go from now on: one file over all incarnations of a run.
  void write_metrics_to(dataplane::append_log file);

  /// A line above the progress line; warnings and errors on the standard error stream.
  void say(const std::string& text);
  void log(log_level level, std::string_view actor, std::string_view text);
  void show(progress state);
  void metric(const std::string& json_line);
  void record(const checkpoint_record& record, incarnation life);
  /// A checkpoint that was not published.
  void record_failure(const error& why, incarnation life);
  /// Leaves the progress line as it is. Makes the metrics durable.
  void finish();

  /// Set once the trainer said that the job is done.
  [[nodiscard]] bool job_done() const { return job_done_; }
  void set_job_done(const std::string& reason);
  [[nodiscard]] std::string done_reason();

private:
  std::mutex mutex_;
  progress_line line_;
  std::uint64_t max_steps_;
  logger_level level_;
  std::optional<dataplane::append_log> metrics_;
  std::atomic<bool> job_done_ = false;
  std::string done_reason_;
};

} // namespace weir
