/// The observer actor of the program: the progress line and `metrics.jsonl`.
///
/// An example of an actor of one's own in a graph: trainer and checkpoint tell it what happened, by
/// the same protocol that a test or a dashboard would answer.
#pragma once

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/protocols.hpp"
#include "actors/run_counters.hpp"
#include "actors/runtime/actor.hpp"
#include "examples/weir/run_output.hpp"
#include "examples/weir/step_report.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

namespace weir {

/// Most groups in flight, and buffered.
struct permit_limits {
  std::uint64_t in_flight = 0;
  std::uint64_t buffered = 0;
};

class observer : public actor {
public:
  using protocol = observer_protocol;

  /// `limits`: of the permits that are taken.
  observer(context ctx, std::shared_ptr<run_output> output, std::shared_ptr<run_counters> counters,
           permit_limits limits);

private:
  /// How much a counter has grown since the step before.
  [[nodiscard]] std::uint64_t since_last_step(const std::atomic<std::uint64_t>& counter);
  [[nodiscard]] step_report report_of(const StepFinished& step);
  task<void> on_step(message<StepFinished> note);
  task<void> on_warmup(message<WarmupAdvanced> note);
  task<result<message<RunFinishNoted>>> on_finished(message<RunFinished> request);
  task<void> on_published(message<CheckpointPublished> note);
  task<void> on_validated(message<Validated> note);

  const std::shared_ptr<run_output> output_;
  const std::shared_ptr<run_counters> counters_;
  std::int64_t last_step_ns_;
  const permit_limits limits_;
  std::map<const void*, std::uint64_t> last_counts_; ///< By counter.
  std::uint64_t dropped_ = 0;                        ///< Groups of this life.
  std::int64_t published_ns_ = 0; ///< When the newest bundle was published; 0 before the first.
  double hold_us_ = 0.0;
};

} // namespace weir
