/// The sampler's state: the ledger of unfinished groups, the reserve of spares, the dispatch index,
/// the shortfall of each step, and what was dropped. No actor, coroutine, clock or I/O.
///
/// Every transition is one synchronous call: it either happens whole, with its events appended, or
/// returns an error and has changed nothing. A repeated request is recognized above, by its lease.
/// `events` numbers the audit log; `transaction` is that of the lease.
///
/// An error of `drop` means that the run must end: a budget of the configuration is spent.
#pragma once

#include "actors/sampler/failure_limits.hpp"
#include "actors/sampler/ledger.hpp"
#include "actors/sampler/sampler_policy.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace weir {

/// Answer to an admission. Nothing changed unless `admitted`.
struct admission_outcome {
  bool admitted = false;
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  std::uint64_t window = 0;
  /// In dispatch order.
  std::vector<group_id> groups = {};
  /// Where the groups above N went that stay RESERVED, if there are any.
  std::optional<std::uint64_t> tail_admission = {};
};

/// Stamp of a group whose commit was decided.
struct release_outcome {
  sample_id sample = {};
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  std::uint64_t window = 0;
};

/// What to do after a failed attempt. Without a retry the group is to be dropped.
struct failure_outcome {
  bool retry = false;
  std::uint32_t content_attempt = 0;
  std::int64_t backoff_ns = 0;
};

/// What became of a group that failed for good. `spare` took its place, with its stamp; without one
/// its step is short.
struct replacement_outcome {
  std::optional<ledger_record> spare = {};
};

/// Stamp of a READY group that was promoted: the place that is free now.
struct lent_stamp {
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
};

/// What a restore means for the ledger, for the table that it prints.
struct sampler_restored {
  std::uint64_t admitted = 0;
  std::uint64_t reserved = 0;
  /// Admitted groups that earlier incarnations dispatched too often: one data failure more each.
  std::uint64_t suspected = 0;
};

/// Why a restored ADMITTED group must be dropped instead of dispatched, if it must.
[[nodiscard]] std::optional<drop_reason> spent(const ledger_record& record,
                                               const failure_limits& limits);

class sampler_state {
public:
  /// `groups_per_step` is N. @pre 1 <= N <= limits::groups_per_step_max
  sampler_state(std::shared_ptr<const sampler_policy> policy, std::uint64_t groups_per_step,
                failure_limits limits);

  /// Adds RESERVED entries and returns how many groups are unfinished. `admission` is new, or still
  /// RESERVED: then the groups join it (a short tail is filled up this way).
  /// Errors: conflict if a group is in the ledger already or the admission was used;
  /// invalid_argument for an empty batch, a group twice, or no siblings.
  [[nodiscard]] result<std::uint64_t> reserve(std::uint64_t admission,
                                              std::span<const group_reservation> groups,
                                              event_stream& events, std::uint64_t transaction);

  /// Whether the next dispatch batch may be admitted. Promises nothing: `admit` decides.
  /// Errors: of a policy of a user's own; the run must end.
  [[nodiscard]] result<bool> may_admit() const;
  /// While a RESERVED batch waits at the gate and no group is in flight: who keeps which batch
  /// waiting. Then only the trainer can open it. Else empty.
  [[nodiscard]] std::string shut_gate() const;
  /// Index that the next admission gets.
  [[nodiscard]] std::int64_t next_dispatch_index() const { return image_.dispatch_index + 1; }

  /// Rechecks the gate; if it is open, moves the dispatch index and makes the first N groups of the
  /// admission ADMITTED. The rest gets a fresh admission id.
  /// Errors: not_found if no RESERVED group belongs to the admission; conflict if it has fewer than
  /// N groups and the sampler stamps, since such a step could never fill; those of a policy.
  [[nodiscard]] result<admission_outcome> admit(std::uint64_t admission, event_stream& events,
                                                std::uint64_t transaction);

  /// Removes the entry of a finished group: this decides its commit. Nothing when there is no
  /// entry, or when it is at another attempt: then the rows must be dropped.
  /// Errors: conflict if the group was never admitted.
  [[nodiscard]] result<std::optional<release_outcome>> release(group_id group,
                                                               std::uint32_t content_attempt);

  /// Removes those of `groups` that are in the ledger and returns them; counts them by reason, and
  /// records the shortfall of the steps they were stamped for.
  /// Errors: exhausted if a budget or the floor of a step does not allow it. The run must end.
  [[nodiscard]] result<std::vector<group_id>> drop(std::span<const group_id> groups,
                                                   drop_reason reason, event_stream& events,
                                                   std::uint64_t transaction);

  // The reserve (sampler_reserve.cpp).

  /// Sets a batch aside as spares, before any admission, and returns how many there are now.
  /// Errors: as `reserve`.
  [[nodiscard]] result<std::uint64_t> divert(std::span<const group_reservation> groups,
                                             event_stream& events, std::uint64_t transaction);
  /// Makes at most `count` spares RESERVED under `admission`, the oldest first, and returns them.
  /// Errors: conflict if the admission was used.
  [[nodiscard]] result<std::vector<ledger_record>> drain(std::uint64_t admission,
                                                         std::uint64_t count, event_stream& events,
                                                         std::uint64_t transaction);
  /// Drops an ADMITTED group as `drop` does; a spare takes its place if the limits and the reserve
  /// allow it. Nothing when the group is not in the ledger.
  /// Errors: as `drop`; conflict if the group was never admitted.
  [[nodiscard]] result<std::optional<replacement_outcome>>
  replace(group_id group, drop_reason reason, event_stream& events, std::uint64_t transaction);
  /// Gives a spare that has just taken a place the stamp of the group that was promoted into it.
  /// Errors: not_found if the spare is not in the ledger, conflict if it took no place.
  [[nodiscard]] result<ledger_record> repay(group_id group, const lent_stamp& stamp,
                                            event_stream& events, std::uint64_t transaction);

  /// Counts a failed attempt. Nothing when the group is not in the ledger.
  /// Errors: conflict if the group was never admitted.
  [[nodiscard]] result<std::optional<failure_outcome>> record_failure(group_id group,
                                                                      failure_kind kind,
                                                                      event_stream& events,
                                                                      std::uint64_t transaction);

  /// `version` is live on every serving generator. Returns false for one that is not newer.
  bool version_live(weight_version version);

  /// Groups that `step` should train on: N less its shortfall.
  [[nodiscard]] std::uint64_t target(std::uint64_t step) const;
  /// Forgets the shortfall of a step that was consumed.
  void settle(std::uint64_t step);

  [[nodiscard]] std::vector<ledger_record> unfinished() const;
  [[nodiscard]] std::uint64_t next_admission() const { return image_.next_admission; }
  [[nodiscard]] const sampler_policy& policy() const { return *policy_; }
  [[nodiscard]] const failure_limits& limits() const { return limits_; }
  [[nodiscard]] std::size_t unfinished_groups() const { return image_.ledger.size(); }
  [[nodiscard]] std::uint64_t spares() const { return image_.in_reserve.count; }

  /// O(1). The live state, and what a cut keeps.
  [[nodiscard]] const sampler_image& capture() const { return image_; }

  /// Takes over a decoded image, all or nothing, and counts one more dispatch of each ADMITTED
  /// group. @pre `reconcile` (rollout/reconcile.hpp) saw it together with the replay index.
  /// Errors: conflict if this state is not empty; invalid_argument if N or the sampler differ.
  [[nodiscard]] result<sampler_restored> load(const sampler_image& image);

  /// Aborts if an invariant does not hold. O(n).
  void check_invariants() const;

private:
  [[nodiscard]] result<void> check_reservations(std::uint64_t admission,
                                                std::span<const group_reservation> groups) const;
  /// What the reservations of one request must be, whatever becomes of them.
  [[nodiscard]] result<void> check_new_groups(std::span<const group_reservation> groups) const;
  [[nodiscard]] result<void> check_budgets(std::uint64_t groups, drop_reason reason) const;
  [[nodiscard]] result<void>
  check_floor(const std::map<std::uint64_t, std::uint64_t>& losses) const;
  /// Takes a group out of the ledger for good and counts it.
  void remove(group_id group, drop_reason reason, event_stream& events, std::uint64_t transaction);
  [[nodiscard]] bool replaceable(const ledger_record& record) const;
  [[nodiscard]] weight_version earliest_start(std::int64_t target_step,
                                              weight_version admission_version) const;

  std::shared_ptr<const sampler_policy> policy_;
  failure_limits limits_;
  sampler_image image_;
  /// RESERVED groups by admission; follows from the ledger.
  std::map<std::uint64_t, std::set<group_id>> reserved_;
};

} // namespace weir
