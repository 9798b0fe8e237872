/// The rules of the design that stand for a concrete counterexample, each with a switch that turns
/// it off: in tests and in the simulation only, so that they can show that they would notice.
///
/// A rule is decided at one place in the code, which asks `enforced`: one relaxed load. With a rule
/// suspended, that place does what the counterexample of its comment does, and nothing else
/// changes. A process cannot suspend a rule by configuration, environment or command line.
///
/// [P] was found by a model of the barrier (tests/model), [S] by random schedules with crashes, [A]
/// by enumerating what a power loss may leave. Rule 8 (the death of an origin or an owner ends the
/// incarnation) has no switch: the compiler refuses to supervise one.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir {

enum class rule : std::uint8_t {
  /// [P] 1: a transaction is settled when its lease was released and every request under it was
  /// answered. Off: released is enough; a request whose wait was cut short is applied after the cut
  /// that holds the rest of its transaction.
  settled_when_answered,
  /// [P] 2: gates and owners ignore an epoch at or below the newest they saw. Off: a late Quiesce
  /// closes a gate that nobody will open, and a late Cut replaces the capture of the running epoch.
  stale_epochs_ignored,
  /// [P] 3: a cut is published only if every gate stayed closed from its Quiesced to its Resume.
  /// Off: a gate that opened by itself lets a transaction change one owner before its capture and
  /// the next one after it. `foreign_epoch_taints` stands behind this rule: suspend both.
  published_only_if_held,
  /// [P] 4: a leased request is applied once, known by origin, instance, transaction and step. Off:
  /// one that is sent twice is applied twice.
  leased_requests_idempotent,
  /// [P] 4: an answer belongs to the request whose id it bears. Off: a late or doubled answer is
  /// taken for that of a later request, whose transaction then counts as settled too early.
  answers_matched_by_id,
  /// [P] 6: a gate opens by itself at its hold limit. Off: the checkpoint actor dies between
  /// Quiesce and Resume, and the origin never mutates again.
  gate_opens_by_itself,
  /// [P] 7: a leased request of a foreign epoch is applied, and taints the capture. Off: it taints
  /// nothing. `published_only_if_held` stands behind this rule: suspend both.
  foreign_epoch_taints,
  /// [P] 7: only fenced instances and earlier incarnations are refused; Abort raises no fence. Off:
  /// an owner that was told of an Abort refuses leases that were granted before it, and half of
  /// their transaction, applied elsewhere, stays for ever.
  fence_only_by_instance,
  /// [S] The trainer's captured state switches inside the consume lease. Off: before it; a cut in
  /// between holds the weights after a step whose groups are still claimed, and a restore trains
  /// them twice.
  captured_in_consume_lease,
  /// [A] The directory of a bundle is synced after its MANIFEST is written. Off: once older bundles
  /// are retired, a power loss may leave no bundle with a MANIFEST at all.
  directory_synced_after_manifest,
  /// [S] The admission gate is looked at again under the lease. Off: two admissions that waited for
  /// the same opening both pass, and the second one is stamped beyond the window.
  gate_rechecked_under_lease,
  /// [S] Capacity is taken per group, in dispatch order. Off: for a whole batch at its admission;
  /// with room for less than a batch, generation waits for ever.
  slot_per_group,
  /// [S] A version is live when every serving generator has it, and a group starts only on a
  /// generator at its admission version or later. Off: it is live once it is made, and a generator
  /// that lags starts groups on weights outside of their window.
  version_live_on_every_generator,
  /// [S] weight_fifo orders by admission version. Off: by start version; a batch that straddles an
  /// update never fills a step, and the gate waits for that step.
  fifo_by_admission_version,
  /// [S] When sampler or window change, all groups are stamped anew on resume. Off: only the READY
  /// ones; the stamps of the others are passed over or taken twice, and steps overflow or starve.
  restamped_on_resume,
  /// [S] The groups that the open step needs are staged above the high-water mark. Off: look-ahead
  /// fills the store, and the step's straggler never finds room.
  open_step_granted_credit,
  /// [S] With pinned weights, a bundle holds the versions max(0, v-W) to v. Off: only v; the next
  /// admission after a restore names v-W, which nobody has, and is made by other weights.
  earlier_versions_in_bundles,
  /// A token bears the version of the weights that made it. Off: the newest version that its
  /// generator was sent, installed or not; staleness and importance weights are then wrong.
  stamp_follows_weights,
  /// [S] `drop_replay` leaves every group its stamp. Off: it is reserved and admitted anew; the
  /// dispatch index has passed its step, which waits for it for ever.
  drop_replay_keeps_stamps,
  /// [S] A replacement, the promotion into its place and the repayment of the lender are one lease.
  /// Off: one each; a cut in between holds a step with too many groups, and another with too few.
  replaced_under_one_lease,
};

/// In the order of the enumeration.
[[nodiscard]] std::span<const rule> all_rules() noexcept;
/// The enumerator's own name.
[[nodiscard]] std::string_view to_string(rule which) noexcept;
[[nodiscard]] std::optional<rule> rule_named(std::string_view name) noexcept;

namespace detail {

extern std::atomic<std::uint32_t> suspended_rules;

[[nodiscard]] constexpr std::uint32_t bit_of(rule which) noexcept {
  return std::uint32_t{1} << static_cast<unsigned>(which);
}

} // namespace detail

[[nodiscard]] inline bool enforced(rule which) noexcept {
  return (detail::suspended_rules.load(std::memory_order_relaxed) & detail::bit_of(which)) == 0;
}

/// Turns one rule off for as long as it lives, in the whole process. For tests and the simulation.
/// @pre the rule is enforced
class [[nodiscard]] rule_suspension {
public:
  explicit rule_suspension(rule which) noexcept;
  rule_suspension(const rule_suspension&) = delete;
  rule_suspension& operator=(const rule_suspension&) = delete;
  ~rule_suspension();

private:
  rule which_;
};

} // namespace weir
