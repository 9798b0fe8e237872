/// Shadow mode: what a restore does when the sampler does not support buffer checkpoints.
///
/// The bundle was read and verified whole, and nothing of its buffer is used. Every prompt that was
/// handed out and neither consumed nor dropped, wherever it stood, is RESERVED again: in group
/// order, in batches of N with fresh admissions, without a stamp. Admission then goes on from the
/// restored version v: d := v - 1. Shortfalls go with the stamps that they were of.
///
/// What is kept: the cursor, the totals of consumed and dropped groups, and of each group its
/// attempts, so that a prompt that failed fails no more often than it may. Nothing is lost and
/// nothing is trained twice; finished work is done again.
#pragma once

#include "actors/rollout/reconcile.hpp"

namespace weir {

/// For `reconcile`, which has checked both images and made them disjoint. On an error both are
/// unfit for use. `report` gets the events of the groups that were not RESERVED, for the ledger's
/// owner, and a line of each. Errors: those of `find`.
[[nodiscard]] result<void> reserve_again(sampler_image& ledger, replay_image& replay,
                                         const sampler_policy& policy, weight_version version,
                                         const prompt_lookup& find, reconciled& report);

} // namespace weir
