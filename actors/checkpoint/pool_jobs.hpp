/// Independent jobs on a pool's threads and the caller's own, for a restore.
#pragma once

#include "actors/runtime/blocking_pool.hpp"
#include "dataplane/snapshot_file.hpp"

namespace weir {

/// The caller works too, and waits only for what another thread has begun: so a pool that is busy,
/// or stepped by hand, holds nothing up. `pool` outlives the runner.
[[nodiscard]] dataplane::job_runner jobs_on(blocking_pool& pool);

} // namespace weir
