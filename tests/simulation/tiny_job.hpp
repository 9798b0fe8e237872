/// The main job of a plan: production actors, scripted generators, the tiny learner.
#pragma once

#include "actors/main_job.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/watcher.hpp"

#include <memory>
#include <string>

namespace weir::sim {

inline constexpr const char* run_directory_path = "/run";
inline constexpr const char* checkpoint_directory_path = "/run/checkpoints";

/// `sampler` is that of the life. `seen` is told what the watcher learns. The job is for a life in
/// `env`, and does not outlive it.
[[nodiscard]] main_job tiny_job(const run_plan& plan, const sampler_choice& sampler, world& env,
                                const std::shared_ptr<observed>& seen);

/// The run directory with its lock, and the directory of its bundles.
[[nodiscard]] result<std::shared_ptr<dataplane::run_directory>>
open_run_directory(dataplane::disk& storage);

[[nodiscard]] restore_request request_of(const run_plan& plan, const main_job& job);

} // namespace weir::sim
