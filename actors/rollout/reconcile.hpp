/// The part of a restore that needs the ledger and the replay index together: before either owner
/// takes its image over.
///
/// 1. N must be the same. The dispatch index must not be older than any work. No label may name
///    weights that are newer than the restored ones.
/// 2. A group in both belongs to the data plane: its ledger entry is discarded.
/// 3. If the sampler or its window changed, all groups are stamped anew in dispatch order: READY
///    and ADMITTED, in batches of N, from the restored version v on, so that the dispatch index
///    becomes v - 1 + number of batches. RESERVED groups fill up the last of these batches and are
///    ADMITTED with it, in the new window. The others stay RESERVED, in batches of N that the gate
///    admits next, in order: the stamps that follow. Each group that was admitted keeps the window
///    that was in force then. There may be more batches than the gate would have let in: a group
///    starts only once weights within its window of its new step are live, and a READY one that is
///    older than that is generated again for the step (next content attempt); under weight_fifo the
///    step is the turn of its batch. Without a gate what is stale is evicted; ready_first promises
///    no bound for what another sampler admitted.
///
/// 4. If the sampler does not support buffer checkpoints, all groups are RESERVED again instead
///    (reserve_again.hpp).
///
/// Refusing a changed sampler, or stamping only the READY groups, would lose groups or wedge.
#pragma once

#include "actors/replay/replay_index.hpp"
#include "actors/sampler/ledger.hpp"
#include "actors/sampler/sampler_policy.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir {

/// What happened to one group whose stamp changed.
struct restamped_group {
  group_id group = {};
  std::int64_t target_before = -1;
  std::int64_t target_after = -1;
  /// It was READY, and too old for the step.
  bool generated_again = false;

  friend bool operator==(const restamped_group&, const restamped_group&) = default;
};

/// For the table that a restore prints.
struct reconciled {
  /// Ledger entries that the data plane owned already.
  std::vector<group_id> discarded = {};
  /// Sampler and window of the bundle, if they changed.
  bool restamped = false;
  std::string sampler_before = {};
  std::uint64_t window_before = 0;
  std::vector<restamped_group> groups = {};
  /// Shadow mode: `groups` are to be generated again, and the rows of the bundle are not used.
  bool buffer_left = false;
  /// Rows of groups that are generated again: to be cleared in the store.
  std::vector<row_id> rows = {};
  /// Groups that the last re-stamped step lacks.
  std::uint64_t shortfall = 0;
  /// What the owners write to the audit log once they have loaded their images.
  std::vector<group_event> ledger_events = {};
  std::vector<group_event> replay_events = {};
};

/// What the dataset says of a prompt: the index does not keep it. Errors: as the dataloader's.
using prompt_lookup = std::function<result<group_reservation>(group_id group, sample_id sample)>;

/// All or nothing: on an error both images are as before. `version` is the trainer's restored one.
/// Errors: invalid_argument for another N; corrupt for images that contradict each other;
/// those of the policy and of `find`, which only shadow mode needs.
[[nodiscard]] result<reconciled> reconcile(sampler_image& ledger, replay_image& replay,
                                           const sampler_policy& policy,
                                           std::uint64_t groups_per_step, weight_version version,
                                           const prompt_lookup& find = {});

} // namespace weir
