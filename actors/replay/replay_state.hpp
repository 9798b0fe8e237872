/// The replay actor's state: permits, staged rows, the replay index, selection by the sampler's
/// policy. No actor, coroutine, clock or I/O; rows are ids, their tensors live in the data plane.
///
/// A slot is a group that holds a capacity permit: started and not ready yet, or READY. Every path
/// out of a slot (claim, eviction, drop, stop) gives its permit back once. Slots stand in dispatch
/// order, (dispatch index, group), whatever the order of commits.
///
/// Transitions are whole or not at all, as in sampler_state.hpp. What a cut keeps is the index and
/// the totals; permits and staged rows end with the incarnation.
#pragma once

#include "actors/replay/dispatch_permits.hpp"
#include "actors/replay/replay_index.hpp"
#include "actors/sampler/sampler_policy.hpp"
#include "actors/sampler/slot_table.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// A group that asks for a capacity permit, with its stamp: a policy looks at unready slots too.
struct start_request {
  group_id group = {};
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  std::uint64_t window = 0;
};

/// Staged rows of one attempt of a group.
struct staged_group {
  group_id group = {};
  std::uint32_t content_attempt = 0;
  weight_version start_version = {};
  weight_version end_version = {};
  /// One per sibling, in sibling order.
  std::vector<row_id> rows = {};
};

/// A commit, with the stamp that the ledger gave out when it decided it.
struct commit_request {
  group_id group = {};
  std::uint32_t content_attempt = 0;
  sample_id sample = {};
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  std::uint64_t window = 0;
  /// Of the prompt's record.
  std::optional<content_hash> hash = {};
  std::string task = {};
};

/// Groups that left the index, with the rows that the data plane must clear now.
struct cleared_groups {
  std::vector<group_id> groups = {};
  std::vector<row_id> rows = {};
};

/// Whether the next chunk of a step can be claimed.
enum class batch_prospect : std::uint8_t {
  wait,  ///< Not yet.
  ready, ///< A claim finds it now.
  ended, ///< Never: the data is at its end, and so is the run.
};
struct batch_outlook {
  batch_prospect prospect = batch_prospect::wait;
  /// Groups that a claim would get now; at the end, groups that are left over.
  std::uint64_t available = 0;
};

struct replay_options {
  /// `max_buffered_rollouts`: started and ready groups.
  std::uint64_t groups_buffered_max = 64;
  /// Reproducible modes: claim only the ready prefix in dispatch order.
  bool ready_prefix_only = false;
};

/// What a restore means for replay, for the table that it prints.
struct replay_restored {
  std::uint64_t ready = 0;
  /// Of these, claimed by a step that did not finish.
  std::uint64_t unclaimed = 0;
};

/// Versions of the first and of the last kept token over all siblings: the smallest and the
/// largest. Errors: invalid_argument if no sibling has a token.
struct version_span {
  weight_version start = {};
  weight_version end = {};
};
[[nodiscard]] result<version_span>
versions_of(std::span<const std::vector<std::uint64_t>> sibling_token_versions);

class replay_state {
public:
  replay_state(std::shared_ptr<const sampler_policy> policy, replay_options options);

  // Permits. `grant_permits` is called after each change; it answers whoever got one.

  /// Queues a group for a capacity permit. Nothing if it holds or awaits one.
  /// Errors: conflict if the group is in the index already.
  [[nodiscard]] result<void> request_start(const start_request& request);
  /// Starts waiting groups while permits are free; returns them in dispatch order.
  [[nodiscard]] std::vector<group_id> grant_permits();
  /// Starts those that the step at `version` is stamped for, over the limit if need be: a restored
  /// buffer may be full of later steps' groups, which only this step's end makes room for.
  [[nodiscard]] std::vector<group_id> grant_due(weight_version version);
  [[nodiscard]] bool started(group_id group) const { return permits_.holds(group); }
  /// Whether the step at `version` cannot be filled without this started group: its stamp is due,
  /// or, without stamps, no started group is older. Such a group is staged whatever the store
  /// holds.
  [[nodiscard]] bool needed_at(group_id group, weight_version version) const;
  /// Whether the group holds a permit or waits for one, and was not stopped since.
  [[nodiscard]] bool awaited(group_id group) const { return starts_.contains(group); }
  /// The first token that is kept of a started group was made by `start`; nothing: none is kept.
  void begun(group_id group, std::optional<weight_version> start);
  /// The groups in flight that the policy would give up at `version`. It promises nothing: their
  /// ledger entries decide. Errors: those of the policy.
  [[nodiscard]] result<std::vector<group_id>> stale_in_flight(weight_version version) const;
  /// Ends a group that will not be committed: dropped, aborted, or its rollout gone. Returns its
  /// staged rows, to be dropped. Nothing if the group is unknown or READY.
  [[nodiscard]] std::vector<row_id> stop(group_id group);

  // Staged rows. Invisible, in no cut.

  /// Remembers the rows of one attempt, and returns those of an earlier attempt, to be dropped.
  /// Errors: conflict if the group was not started, is READY, or is at a newer attempt.
  [[nodiscard]] result<std::vector<row_id>> stage(staged_group staged);
  /// Forgets staged rows whose commit found no ledger entry, and returns them, to be dropped.
  [[nodiscard]] std::vector<row_id> discard(group_id group, std::uint32_t content_attempt);

  // Transitions.

  /// Staged rows become committed, the group READY. Returns the rows, for the data plane.
  /// Errors: conflict if that attempt is not staged.
  [[nodiscard]] result<std::vector<row_id>> commit(const commit_request& request,
                                                   event_stream& events, std::uint64_t transaction);

  /// What the next claim of `groups_min` to `groups` groups for `step` can expect.
  /// Errors: exhausted if the step can never fill, with what is claimed, needed and buffered, or
  /// if the policy chooses too few of the groups that are there, and nothing else can come.
  [[nodiscard]] result<batch_outlook> outlook(std::uint64_t step, weight_version version,
                                              std::uint64_t groups_min, std::uint64_t groups) const;
  /// For exactly `groups` groups.
  [[nodiscard]] result<batch_outlook> outlook(std::uint64_t step, weight_version version,
                                              std::uint64_t groups) const {
    return outlook(step, version, groups, groups);
  }

  /// READY -> CLAIMED for all groups that the policy selects, up to `groups`; none if it selects
  /// fewer than `groups_min`. Returns them in dispatch order. Their permits are free again. A step
  /// may claim in several chunks, all at one version.
  /// Errors: invalid_argument if the policy selects what is not READY, or twice; conflict for
  /// another version.
  [[nodiscard]] result<std::vector<replay_record>> claim(std::uint64_t step, weight_version version,
                                                         std::uint64_t groups_min,
                                                         std::uint64_t groups, event_stream& events,
                                                         std::uint64_t transaction);
  /// Exactly `groups` groups, or none.
  [[nodiscard]] result<std::vector<replay_record>> claim(std::uint64_t step, weight_version version,
                                                         std::uint64_t groups, event_stream& events,
                                                         std::uint64_t transaction) {
    return claim(step, version, groups, groups, events, transaction);
  }

  /// CLAIMED -> CONSUMED for all groups of the step.
  [[nodiscard]] cleared_groups consume(std::uint64_t step, event_stream& events,
                                       std::uint64_t transaction);

  /// Stamps the READY group of the furthest step after `target_step` for that step instead, as part
  /// of dispatch batch `dispatch_index`; of several, the first in dispatch order. Returns its
  /// record as it was; nothing if no later step has a READY group.
  [[nodiscard]] std::optional<replay_record> promote(std::int64_t target_step,
                                                     std::int64_t dispatch_index,
                                                     event_stream& events,
                                                     std::uint64_t transaction);

  /// Whether an eviction at `version` would find anything: look before taking a lease.
  /// Errors: those of the policy.
  [[nodiscard]] result<bool> eviction_due(weight_version version) const;
  /// READY -> DROPPED(stale) for what the policy evicts at `version`. Errors: those of the policy.
  [[nodiscard]] result<cleared_groups> evict(weight_version version, event_stream& events,
                                             std::uint64_t transaction);
  /// READY -> DROPPED(end_of_data) for everything that is left when no step can use it, what an
  /// unfinished step claimed included.
  [[nodiscard]] cleared_groups drop_remainder(event_stream& events, std::uint64_t transaction);

  /// No further group will be committed in this run. The text says why.
  void end_supply(std::string reason);
  [[nodiscard]] bool supply_ended() const { return supply_end_.has_value(); }

  // Observers.

  /// Started and READY groups; READY groups; groups claimed for a step.
  [[nodiscard]] std::uint64_t slots() const { return slots_.size(); }
  [[nodiscard]] std::uint64_t buffered() const { return image_.ready.count; }
  [[nodiscard]] std::uint64_t claimed(std::uint64_t step) const;
  [[nodiscard]] std::uint64_t staged() const { return staged_.size(); }
  [[nodiscard]] const dispatch_permits& permits() const { return permits_; }
  [[nodiscard]] const sampler_policy& policy() const { return *policy_; }

  /// O(1). The live state, and what a cut keeps.
  [[nodiscard]] const replay_image& capture() const { return image_; }

  /// Takes over a decoded image, all or nothing. CLAIMED groups are READY again and forget their
  /// step. Permits may be overdrawn by it. @pre `reconcile` saw it together with the ledger.
  /// Errors: conflict if this state is not empty.
  [[nodiscard]] result<replay_restored> load(const replay_image& image);

  /// Aborts if an invariant does not hold. O(n).
  void check_invariants() const;

private:
  struct step_claim {
    weight_version version = {};
    std::vector<group_id> groups = {};
  };

  /// Ends these slots and gives their permits back. @pre Keys rise.
  void release_slots(std::span<const slot_key> keys);
  [[nodiscard]] result<void> check_progress(std::uint64_t step, std::uint64_t groups,
                                            std::uint64_t chosen, std::uint64_t useful) const;
  [[nodiscard]] result<std::vector<group_id>>
  selectable(weight_version version, std::uint64_t groups_min, std::uint64_t groups_max) const;
  [[nodiscard]] result<std::vector<replay_record>>
  ready_records(std::span<const group_id> groups) const;
  void drop_ready(group_id group, drop_reason reason, cleared_groups& cleared, event_stream& events,
                  std::uint64_t transaction);

  std::shared_ptr<const sampler_policy> policy_;
  replay_options options_;
  replay_image image_;
  dispatch_permits permits_;
  slot_table slots_;
  /// Groups that are started and not READY, or wait for a permit.
  std::map<group_id, start_request> starts_;
  std::map<group_id, staged_group> staged_;
  /// CLAIMED groups by step; the groups follow from the index.
  std::map<std::uint64_t, step_claim> claims_;
  std::optional<std::string> supply_end_;
};

} // namespace weir
