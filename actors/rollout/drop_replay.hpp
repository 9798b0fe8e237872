/// `drop_replay`: a restore that wants fresh samples. Every READY group goes back into the ledger,
/// ADMITTED, with its id and its stamp and the next content attempt: the same prompts for the same
/// steps, generated again from other random numbers. What a step had claimed goes with them.
///
/// Stamps are kept [S]: the dispatch index has passed these groups, and a step that waits for its
/// stamp would wait for ever if they got the next one instead.
#pragma once

#include "actors/replay/replay_index.hpp"
#include "actors/sampler/ledger.hpp"

#include <vector>

namespace weir {

/// What left the data plane.
struct dropped_replay {
  /// In dispatch order.
  std::vector<group_id> groups = {};
  /// To be cleared in the store.
  std::vector<row_id> rows = {};
  /// What the sampler writes to the audit log.
  std::vector<group_event> ledger_events = {};
};

/// The ledger's record of a READY group that is to be generated again, with its stamp; without an
/// admission yet. @pre The index knows its content hash.
[[nodiscard]] ledger_record unfinished_again(const replay_record& ready);

/// All or nothing. Before `reconcile`, which stamps anew if the sampler changed too.
/// Errors: unsupported for a bundle whose index holds no content hashes (format 1).
[[nodiscard]] result<dropped_replay> drop_replay(sampler_image& ledger, replay_image& replay);

} // namespace weir
