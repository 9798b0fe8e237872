/// The other side of the barrier: what an origin and an owner answer, once for all actors.
///
/// An actor that is an origin derives from `participant` and says so; its mutation gate closes and
/// opens as the checkpoint actor asks. An owner overrides `capture`, which must be O(1): it pins or
/// shares what it owns and returns how to write it later. Writing happens off the barrier, on the
/// blocking pool, from the capture alone, while the owner goes on mutating.
#pragma once

#include "actors/audit/event.hpp"
#include "actors/checkpoint/owner_capture.hpp"
#include "actors/conservation.hpp"
#include "actors/runtime/actor.hpp"
#include "actors/runtime/gate.hpp"
#include "dataplane/section_file.hpp"
#include "messages/message.hpp"

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weir {

/// Where an owner writes its captured section.
struct section_target {
  dataplane::disk& storage;
  std::string directory; ///< Of the unfinished bundle.
  epoch_id epoch;
  /// Name of a published bundle of the same step whose policy is linked instead of written; empty
  /// when the trainer writes it.
  std::string link_policy_from;
  /// What its files call between two pieces, on the thread that writes; may be empty.
  dataplane::write_pace pace = {};
};

/// An owner's part of a cut: what it reports at once, and how to write the rest later. `write` is
/// called on a pool thread, at most once, and holds everything that it needs.
struct captured_section {
  sequence_number sequence = {};
  /// This owner's terms of the conservation law; the others stay empty.
  cut_tallies tallies = {};
  std::int64_t trainer_step = -1;
  std::function<result<std::vector<dataplane::finished_section>>(const section_target&)> write = {};
};

/// Which sides of the barrier an actor answers.
enum class barrier_role : std::uint8_t { only_origin, only_owner, both };

class participant : public actor {
public:
  /// This owner's terms of the conservation law, as a Cut would find them now.
  [[nodiscard]] cut_tallies tallies();
  /// Aborts if an invariant of the actor's state does not hold. For tests, between two turns.
  virtual void check_invariants() const {}

protected:
  /// `events` outlives the actor.
  participant(context ctx, barrier_role role, event_sink& events);

  /// Whether the state may be captured now; an error refuses the checkpoint (a warm-up that is not
  /// finished is no state that a run could go on from).
  [[nodiscard]] virtual result<void> capturable() const { return {}; }
  /// Captures the durable state, in O(1). Called between two handlers, never inside a mutation.
  [[nodiscard]] virtual captured_section capture();
  /// A barrier is announced: touches what `capture` will, to have it at hand, and changes nothing.
  /// Makes a capture and drops it, unless that would change something.
  virtual void prepare_capture() { std::ignore = capture(); }

  [[nodiscard]] result<void> admissible(const lease_ref& lease) const override {
    return captured_.admissible(lease.epoch());
  }
  /// Counts a mutation that was applied under a lease, and taints a capture that it came too late
  /// for. Every handler of a mutating request calls it, once it applied.
  void applied(const lease_ref& lease) { captured_.applied(lease.epoch()); }
  /// This owner's numbered events: handed to the transitions of its state.
  [[nodiscard]] event_stream& events() { return events_; }
  /// Counts a change of durable state that no lease covers (the end of a warm-up).
  void mutated() { captured_.mutated(); }
  /// Writes what a restore changed in the loaded state: this owner's first events, and a change
  /// since the bundle if there are any.
  void restored_with(const std::vector<group_event>& changes);
  /// Newest trainer step that a cut captured; -1 before the first.
  [[nodiscard]] std::int64_t captured_step() const { return captured_step_; }
  /// Raised after each Cut.
  [[nodiscard]] signal& cut_happened() { return cut_happened_; }

private:
  task<result<message<Announced>>> on_announce(message<Announce> request);
  task<result<message<Quiesced>>> on_quiesce(message<Quiesce> request);
  task<result<void>> leases_settled(epoch_id epoch);
  task<result<message<Resumed>>> on_resume(message<Resume> request);
  task<void> on_abort(message<AbortEpoch> request);
  task<result<message<Captured>>> on_cut(message<Cut> request);
  task<result<message<SectionWritten>>> on_write(message<WriteSection> request);
  task<void> on_release(message<ReleaseCapture> request);

  const barrier_role role_;
  event_stream events_;
  owner_capture<captured_section> captured_;
  std::int64_t captured_step_ = -1;
  signal cut_happened_;
};

/// Writes the one file of an owner that has no other: header, then `payload`.
[[nodiscard]] result<std::vector<dataplane::finished_section>>
write_one_section(const section_target& target, std::string path,
                  std::span<const std::byte> payload);

/// Between the ids of code and of messages.
[[nodiscard]] epoch_id epoch_of(const EpochId* epoch);
[[nodiscard]] std::unique_ptr<EpochId> wire_epoch(epoch_id epoch);
[[nodiscard]] dataplane::finished_section section_from(const SectionFile& file, epoch_id epoch);
[[nodiscard]] Hash128 wire_sum(const group_tally& tally);
[[nodiscard]] group_tally tally_from(std::uint64_t count, const Hash128* sum);

} // namespace weir
