/// What a run may be resumed with: the configuration of the bundle against the one given now.
#pragma once

#include "examples/weir/config.hpp"

namespace weir {

/// One key whose value differs.
struct config_change {
  std::string path;
  std::string old_value;
  std::string new_value;
  /// False if the run cannot be resumed with the new value.
  bool allowed = false;
  /// What the change means, or what to do instead.
  std::string note;

  friend bool operator==(const config_change&, const config_change&) = default;
};

/// Every difference, in the table's order; empty for equal configurations.
[[nodiscard]] std::vector<config_change> compatibility(const run_config& old_config,
                                                       const run_config& new_config);

/// One line per change; for logs and for the error of a refused resume.
[[nodiscard]] std::string to_string(const config_change& change);

/// Fails if a change is not allowed, with all of these. Errors: conflict.
[[nodiscard]] result<void> require_compatible(const std::vector<config_change>& changes);

} // namespace weir
