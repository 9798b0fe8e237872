/// One life of a tiny job on a disk of its own, whatever its end: for tests of a single scenario.
#pragma once

#include "actors/audit/audit.hpp"
#include "actors/main_job.hpp"
#include "tests/simulation/plan.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace weir::sim {

struct one_life {
  /// How the run ended, as `graph::wait_blocking` would say.
  result<void> ended;
  std::chrono::nanoseconds took{0}; ///< Virtual.
  audit_report audit;
  std::string log; ///< Warnings and errors.
  /// When the run had ended and its last notes had arrived, before its actors were stopped.
  actor_counters left = {};
  std::shared_ptr<const run_counters> counters;
  dataplane::store_stat rows; ///< Of the data plane, at that time.
};

/// Four steps of four groups, with room for all of them: nothing happens but what a test adds.
[[nodiscard]] run_plan quiet_plan();

/// Lives `plan`, whose job `adjust` may change before it is composed; with `watch`, under a
/// watchdog.
[[nodiscard]] one_life live_once(const run_plan& plan,
                                 const std::function<void(main_job&)>& adjust = {},
                                 std::optional<watchdog_options> watch = {});

} // namespace weir::sim
