/// What must hold of a restored cut, of a life that ended, and of a run that is done.
#pragma once

#include "actors/audit/audit.hpp"
#include "actors/main_job.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <cstdint>
#include <vector>

namespace weir::sim {

/// The end of a run, as its disk tells it.
struct final_state {
  finish_reason end = finish_reason::end_of_data;
  audit_report audit;
  tiny_policy policy;
};

/// The policy of a bundle was trained on exactly the groups that the bundle counts as consumed.
[[nodiscard]] result<void> check_same_cut(const restored_states& states, const tiny_policy& policy);

/// Whenever a life ends, by a crash too: the invariants of every actor's state, and between two
/// transactions the conservation law over all owners.
[[nodiscard]] result<void> check_balanced(composed_life& life);

/// No lease, stream or row is left in a graph whose data ended.
[[nodiscard]] result<void> check_nothing_left(composed_life& life, const run_plan& plan,
                                              finish_reason end);

/// Audits the run on `storage` and reads its last bundle, as `request` restores it, into `state`;
/// no file is left over.
[[nodiscard]] result<void> look_at_the_end(dataplane::disk& storage, const restore_request& request,
                                           final_state& state);

/// The run that was disturbed trained on what the undisturbed one did, as far as that is promised.
[[nodiscard]] result<void> compare(const run_plan& plan, const final_state& undisturbed,
                                   const final_state& disturbed);

} // namespace weir::sim
