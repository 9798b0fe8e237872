/// A graph under a seed: one thread, virtual time, a schedule that can be repeated.
///
///   auto run = weir::simulate(7, [](weir::graph& system) {
///     const auto store = system.add<keeper>("keeper");
///     system.add<writer>("writer", store);               // calls finish_run() at its end
///   });
///   // run.outcome, run.trace_hash: the same for the same seed, on every machine and compiler
///
/// The actors are the production ones. A graph that is constructed with a simulation's world takes
/// its turns from it: `start` and `wait_blocking` and their kind step the simulation, on the
/// calling thread. Messages between two actors keep their order; everything else may be overtaken.
/// Blocking work runs as steps of the schedule; storage is what the options name.
///
/// What makes a run repeatable is up to the actors: no clock, randomness, thread or storage but the
/// world's; no decision by the order of addresses or of a hash table.
#pragma once

#include "actors/graph.hpp"
#include "actors/runtime/detail/simulated_scheduler.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace weir {

struct simulation_options {
  /// Of the schedule and of `world::random`.
  std::uint64_t seed = 1;
  /// What a turn costs in virtual time. Large values bring deadlines into play.
  std::chrono::nanoseconds step_cost{1'000};
  /// Jobs of the blocking pool begin up to this much later than they could.
  std::chrono::nanoseconds job_delay_max{0};
  std::size_t pool_threads = 2;
  /// Must outlive the simulation; null where nobody uses storage.
  dataplane::disk* storage = nullptr;
  /// Empty: warnings and errors go to the standard error stream.
  log_hook log = {};
  /// How many of the newest messages `describe_trace` tells.
  std::size_t trace_depth = 64;
};

/// A world whose schedule is stepped by hand; one graph at a time lives in it, several one after
/// the other. Used on one thread.
class simulation {
public:
  explicit simulation(simulation_options options);
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;
  /// @pre no graph of this world is left

  [[nodiscard]] world& env() noexcept { return world_; }

  /// One message, job or jump in time; false when nothing is left that could ever run.
  bool step() { return schedule_.step(); }
  /// At most so many steps; how many there were.
  std::uint64_t run(std::uint64_t steps_max);

  [[nodiscard]] std::uint64_t steps() const noexcept { return schedule_.steps(); }
  /// Messages that were read; timers and completions are among them.
  [[nodiscard]] std::uint64_t messages() const noexcept { return schedule_.messages(); }
  [[nodiscard]] std::chrono::nanoseconds elapsed() const noexcept { return schedule_.now(); }
  /// Of every message so far: from whom, to whom, what, when. No content, no floating point.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return schedule_.hash(); }
  /// The newest messages, a line each: what a failing seed prints.
  [[nodiscard]] std::string describe_trace() const { return schedule_.describe(); }

private:
  detail::simulated_scheduler schedule_;
  world world_;
};

/// How a simulated run ended.
struct simulated_run {
  result<void> outcome;
  std::uint64_t trace_hash = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  std::chrono::nanoseconds elapsed{0};
};

/// Builds a graph by `build(graph&)`, runs it until an actor finishes the run or fails, and stops
/// it. A graph in which nobody can go on is an error that shows who waits for what.
template <class Build>
  requires std::is_invocable_v<Build&, graph&>
[[nodiscard]] simulated_run simulate(simulation_options options, Build build) {
  simulation around(std::move(options));
  simulated_run ended;
  {
    graph system(around.env());
    build(system);
    ended.outcome = system.start();
    if (ended.outcome) ended.outcome = system.wait_blocking();
    auto stopped = system.stop();
    if (ended.outcome) ended.outcome = std::move(stopped);
  }
  ended.trace_hash = around.trace_hash();
  ended.steps = around.steps();
  ended.messages = around.messages();
  ended.elapsed = around.elapsed();
  return ended;
}

template <class Build>
  requires std::is_invocable_v<Build&, graph&>
[[nodiscard]] simulated_run simulate(std::uint64_t seed, Build build) {
  simulation_options options;
  options.seed = seed;
  return simulate(std::move(options), std::move(build));
}

} // namespace weir
