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

#include <memory>

namespace weir {

class observer : public actor {
public:
  using protocol = observer_protocol;

  observer(context ctx, std::shared_ptr<run_output> output, std::shared_ptr<run_counters> counters);

private:
  task<void> on_step(message<StepFinished> note);
  task<void> on_warmup(message<WarmupAdvanced> note);
  task<result<message<RunFinishNoted>>> on_finished(message<RunFinished> request);
  task<void> on_published(message<CheckpointPublished> note);

  const std::shared_ptr<run_output> output_;
  const std::shared_ptr<run_counters> counters_;
  std::int64_t last_step_ns_;
  std::uint64_t last_tokens_ = 0;
  std::int64_t published_ns_ = 0; ///< When the newest bundle was published; 0 before the first.
  double hold_us_ = 0.0;
};

} // namespace weir
