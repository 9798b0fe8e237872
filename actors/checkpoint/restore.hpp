/// Restore: from a bundle on disk to the states that actors are built from.
///
/// Everything is loaded and verified in memory before anything runs; the only thing on disk that a
/// failed restore may have changed is INCARNATION. No actor: the driver calls this before it
/// composes a graph.
///
///     lock -> survey -> choose -> load -> check -> raise INCARNATION -> survey again
///
/// The second survey closes the gap that a process which lost its lock could use: it reads
/// INCARNATION before it publishes, so nothing can appear after the number was raised; what
/// appeared before is seen, and the choice is made again.
#pragma once

#include "actors/checkpoint/restore_plan.hpp"
#include "actors/dataloader/dataloader_state.hpp"
#include "actors/replay/replay_index.hpp"
#include "actors/rollout/drop_replay.hpp"
#include "actors/rollout/reconcile.hpp"
#include "actors/sampler/ledger.hpp"
#include "actors/sampler/sampler_policy.hpp"
#include "dataplane/bundle_reader.hpp"
#include "dataplane/run_directory.hpp"
#include "dataplane/snapshot.hpp"
#include "dataplane/snapshot_file.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// What a run asks of its directory.
struct restore_request {
  std::string run_directory;
  std::string checkpoint_directory;
  /// Restore this bundle instead of the newest.
  std::optional<std::string> from;
  /// Set all bundles aside and begin a new run.
  bool fresh = false;
  /// READY groups are generated again: drop_replay.hpp.
  bool drop_replay = false;
  std::shared_ptr<const sampler_policy> policy;
  std::uint64_t groups_per_step = 0;
  /// Needed if the sampler does not support buffer checkpoints.
  prompt_lookup find_prompt = {};
  /// Reads and verifies segments side by side; empty: one after the other.
  dataplane::job_runner run_jobs = {};
};

/// The states of one cut, decoded and checked against each other.
struct restored_states {
  dataplane::bundle bundle;
  dataloader_cursor cursor;
  sampler_image sampler;
  replay_image replay;
  dataplane::snapshot rows;
  /// Where those rows stand in the bundle's files: what the next bundle links.
  std::shared_ptr<const dataplane::snapshot_files> files;
  /// The files of `policy/`, by path, verified against the manifest.
  std::map<std::string, std::vector<std::byte>> policy;
  restore_plan plan;
  /// Empty unless it was asked for.
  dropped_replay dropped;
  reconciled changes;
};

/// Checks what only the caller can: dataset, model, run configuration. An error refuses the restore
/// before anything on disk has changed.
using restore_check = std::function<result<void>(const restored_states&)>;

/// A life of the run, begun.
struct begun_life {
  incarnation life;
  std::string run_id;
  /// Nothing for a new run.
  std::optional<restored_states> states;
  /// Valid bundles of the directory, the restored one's history only.
  std::vector<dataplane::bundle> known;
  /// For people: bundles that were passed over or set aside, and why.
  std::vector<std::string> notices;
};

/// Versions before the bundle's own whose weights it holds (`policy/weights_N/`), newest first.
[[nodiscard]] std::vector<weight_version> kept_versions(const restored_states& states);

/// Loads the parts of the bundle at `path` but its policy, and checks them against each other
/// (restore step 3): what they say alone, whatever run asks. Errors: corrupt or unsupported, naming
/// file and reason.
[[nodiscard]] result<restored_states> read_parts(dataplane::disk& storage, const std::string& path,
                                                 const dataplane::bundle& chosen,
                                                 const dataplane::job_runner& run_jobs = {});

/// Loads one bundle and checks its parts against each other (restore steps 1 to 4). Errors: corrupt
/// or unsupported, naming file and reason; conflict when it contradicts the request.
[[nodiscard]] result<restored_states> load_bundle(dataplane::disk& storage,
                                                  const restore_request& request,
                                                  const dataplane::bundle& chosen);

/// Begins a life in a locked directory. `new_run_id` names the run when it is new.
[[nodiscard]] result<begun_life> begin_life(dataplane::disk& storage,
                                            dataplane::run_directory& directory,
                                            const restore_request& request,
                                            const std::string& new_run_id,
                                            const restore_check& check);

} // namespace weir
