/// One life of a tiny job on a disk of its own, whatever its end: for tests of a single scenario.
#pragma once

#include "actors/audit/audit.hpp"
#include "actors/main_job.hpp"
#include "tests/simulation/plan.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace weir::sim {

struct one_life {
  /// How the run ended, as `graph::wait_blocking` would say.
  result<void> ended;
  std::chrono::nanoseconds took{0}; ///< Virtual.
  audit_report audit;
  std::string log;            ///< Warnings and errors.
  dataplane::store_stat rows; ///< Of the data plane at the end, a virtual second later.
};

/// Lives `plan`, whose job `adjust` may change before it is composed; with `watch`, under a
/// watchdog.
[[nodiscard]] one_life live_once(const run_plan& plan,
                                 const std::function<void(main_job&)>& adjust = {},
                                 std::optional<watchdog_options> watch = {});

} // namespace weir::sim
