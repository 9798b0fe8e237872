/// Seed after seed, on several processes: one whose invariant does not hold ends, and is reported
/// like any other violation.
///
/// Exit codes: 0 when nothing was violated. With rules switched off it is the other way round: the
/// sweep ends once `until` seeds were violated, and 0 says that there were as many.
#pragma once

#include "tests/simulation/crashing_run.hpp"

#include <cstdint>

namespace weir::sim {

struct sweep_options {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  bool one = false; ///< A single seed, in this process.
  unsigned jobs = 2;
  /// Of seeds that notice that a rule is off: one alone may be a whim of the schedule.
  std::uint64_t until = 1;
  run_options run; ///< Its seed is replaced.
};

/// Runs the first seed, prints its trace hash and, should it fail, its shortened schedule.
[[nodiscard]] int run_one(const sweep_options& options);
/// Runs all seeds; prints a summary, and the schedule of the first failing seeds.
[[nodiscard]] int run_sweep(const sweep_options& options);

} // namespace weir::sim
