/// The subcommands of the program, one function each. `main.cpp` reads the command line and calls
/// them; each prints its own findings and returns an exit code.
#pragma once

#include "examples/weir/config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// What a supervisor reads.
enum class exit_code : int {
  done = 0,
  failed = 1,
  bad_usage = 2,   ///< Command line or configuration: trying again does not help.
  unfinished = 75, ///< Saved on a signal before the job was done: start it again.
};

struct run_arguments {
  std::string config_path;
  std::vector<std::string> overrides;
  /// Set what the run directory holds aside and start anew.
  bool fresh = false;
  /// Restore from this bundle instead of the newest, for example "step_20".
  std::optional<std::string> from;
};

/// Runs, or resumes from the newest valid bundle.
[[nodiscard]] exit_code run(const run_arguments& arguments);

/// Prints the resolved configuration, or every finding.
[[nodiscard]] exit_code check(const std::string& config_path,
                              const std::vector<std::string>& overrides);

/// Verifies every byte of a bundle.
[[nodiscard]] exit_code verify(const std::string& bundle);

/// What the events of a run directory say, over all incarnations.
struct audit_report {
  std::uint64_t incarnations = 0;
  std::uint64_t steps = 0;
  std::uint64_t handed_out_groups = 0;
  std::uint64_t consumed_groups = 0;
  std::uint64_t dropped_groups = 0;
  std::uint64_t lost_groups = 0;
  std::uint64_t doubled_groups = 0;
  /// Everything that should not be, one line each.
  std::vector<std::string> findings;

  [[nodiscard]] bool clean() const {
    return lost_groups == 0 && doubled_groups == 0 && findings.empty();
  }
};

/// Reads the events of all incarnations, rolls back what lies beyond restored cuts, and checks that
/// no group was lost or consumed twice. Errors: not_found, corrupt, io_failed.
[[nodiscard]] result<audit_report> audit(const std::string& run_directory);

/// Prints the report; exit code done only if it is clean.
[[nodiscard]] exit_code print_audit(const std::string& run_directory);

struct drill_arguments {
  std::string config_path;
  std::vector<std::string> overrides;
  std::uint64_t kills = 10;
  std::uint64_t seed = 1;
};

/// Runs the job in a child process, kills it at random instants, restarts it, and compares.
[[nodiscard]] exit_code drill(const drill_arguments& arguments);

} // namespace weir
