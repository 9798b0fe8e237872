/// The rows of the checkpoint harness that take whole bundles, or whole jobs.
#pragma once

#include "benchmarks/report.hpp"

#include <string>

namespace weir::benchmarks {

/// From a bundle of 10,000 groups and 1 GiB on the disk to states that actors can be built from.
[[nodiscard]] row restore_row(const std::string& directory);
/// The main job with a bundle after every step against the same job without.
[[nodiscard]] row every_step_row(const std::string& directory);

} // namespace weir::benchmarks
