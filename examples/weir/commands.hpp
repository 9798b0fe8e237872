/// The subcommands of the program, one function each. `main.cpp` reads the command line and calls
/// them; each prints its own findings and returns an exit code.
#pragma once

#include "actors/audit/audit.hpp"
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
  /// Generate the finished groups of the bundle again: same prompts and steps, fresh samples.
  bool drop_replay = false;
  /// Restore from this bundle instead of the newest, for example "step_20".
  std::optional<std::string> from;
  /// Points to arm, "name=kill@3", for drills by hand and tests; see actors/runtime/failpoint.hpp.
  std::string failpoints;
};

/// Runs, or resumes from the newest valid bundle.
[[nodiscard]] exit_code run(const run_arguments& arguments);

/// Prints the resolved configuration, and every finding: also of a custom sampler, which it
/// loads.
[[nodiscard]] exit_code check(const std::string& config_path,
                              const std::vector<std::string>& overrides);

/// Prints the graph of actors that the configuration composes, as Graphviz text. Starts nothing and
/// writes nothing; reads no weights.
[[nodiscard]] exit_code print_graph(const std::string& config_path,
                                    const std::vector<std::string>& overrides);

/// Prints what a bundle holds: files, partitions, fields, segments, groups by state.
[[nodiscard]] exit_code inspect(const std::string& bundle);

/// Verifies every byte of a bundle, and that its parts agree; prints all that is wrong, and where.
[[nodiscard]] exit_code verify(const std::string& named);

/// Writes the rows of a bundle as safetensors and JSON Lines into a directory, which has none of
/// these files yet, and prints their paths.
[[nodiscard]] exit_code export_bundle(const std::string& bundle, const std::string& directory);

/// Prints what differs between two bundles. Like diff: done without a difference, failed with
/// some, bad_usage if one cannot be read.
[[nodiscard]] exit_code diff(const std::string& first, const std::string& second);

/// Reads the events of all incarnations, rolls back what lies beyond restored cuts, and checks that
/// no group was lost or consumed twice. Errors: not_found, corrupt, io_failed.
[[nodiscard]] result<audit_report> audit_run(const std::string& run_directory);

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
