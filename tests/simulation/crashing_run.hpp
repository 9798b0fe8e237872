/// One seed: a run that is crashed and restarted until its crashes are spent, then goes on to its
/// end; and everything that must hold meanwhile and afterwards.
///
/// What is checked, besides the invariants that end a process by themselves:
///   at every end        of a life: the invariants of every actor's state, permits and slots among
///                       them; between two transactions the conservation law over all owners
///   after every crash   the newest bundle opens, and is not older than one whose publish returned;
///                       incarnations rise; the restored policy is of the same cut as the groups
///                       that replay counts as consumed
///   always              a life ends: nobody waits for ever
///   at the end          the audit over all event logs is clean; the groups that were consumed, and
///                       the policy that was trained on them, are those of an uninterrupted run as
///                       far as the sampler promises; no row, slot, lease, stream, file or
///                       temporary directory is left over
#pragma once

#include "messages/rule.hpp"
#include "tests/simulation/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::sim {

struct run_options {
  std::uint64_t seed = 1;
  /// The seed chooses among these.
  std::vector<std::string> samplers = all_samplers();
  /// How many crashes; without it as many as the seed chooses.
  std::optional<std::uint64_t> crashes;
  /// Rules that are switched off meanwhile: the run should not be clean.
  std::vector<rule> without = {};
  /// Instead of what the seed chooses: a shortened schedule.
  std::optional<std::vector<crash_point>> schedule;
};

struct run_report {
  run_plan plan;
  std::vector<crash_point> planned;
  std::uint64_t crashes = 0; ///< Those that struck before the job was done.
  std::uint64_t lives = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  /// Of every message, and of the disk at every crash.
  std::uint64_t trace_hash = 0;
  /// What did not hold; empty for a clean run.
  std::string violation;
  /// The newest messages before that.
  std::string trace;
  /// What actors logged as warnings and errors in that life.
  std::string log;

  [[nodiscard]] bool clean() const { return violation.empty(); }
};

[[nodiscard]] run_report run_seed(const run_options& options);

/// Leaves crashes out of a failing schedule as long as it still fails.
[[nodiscard]] run_report shrink(const run_options& options, const run_report& failing);

/// For people: plan, crashes, what was violated, the newest messages.
[[nodiscard]] std::string describe(const run_report& report);

} // namespace weir::sim
