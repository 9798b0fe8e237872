/// The audit of a run directory: reads every event log and manifest that it holds.
#pragma once

#include "actors/audit/audit.hpp"
#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <string>

namespace weir {

/// Audits the run in `run_directory`, the parent of the directory of bundles. Errors: not_found
/// when it holds no event log; those of the disk.
[[nodiscard]] result<audit_report> audit_run(dataplane::disk& storage,
                                             const std::string& run_directory);

} // namespace weir
