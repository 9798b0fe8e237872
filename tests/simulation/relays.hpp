/// Fault actors between the roles of a simulated job.
#pragma once

#include "actors/main_job.hpp"
#include "tests/simulation/plan.hpp"

namespace weir::sim {

/// Those that the plan asks for; without any, nobody stands between the roles.
///
/// Which contract allows which fault (messages/README.md, column "sent twice"):
///   late, overtaken  every call, and its answer: whoever asks waits. Notes keep their order, which
///                    senders rely on, as the runtime keeps it between two actors.
///   again            every call: a leased one is applied once, the others read, wait or replace.
///                    Not a generation, which is refused while it is under way.
///   lost             calls that are asked again: waits at a gate or for a batch, and what an
///                    attempt of a group consists of.
[[nodiscard]] main_job_relays relays_of(const run_plan& plan);

} // namespace weir::sim
