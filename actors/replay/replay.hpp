/// The replay actor: owns the data plane and the replay index.
///
/// Decisions are `replay_state`'s, tensors are the store's; here they are kept in step: each
/// handler changes both in one turn, between two suspension points. An owner; its evictor is an
/// origin, with the actor's own mutation gate.
///
/// Rows that are cleared leave segments half dead: a second coroutine of its own moves what is left
/// in them, a little at a time with pauses between, so that no message waits long behind it.
///
/// Waits on: capacity (slots, bytes) and the arrival of groups, on behalf of whoever asked; the
/// asker's deadline ends the wait.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/checkpoint/write_terms.hpp"
#include "actors/protocols.hpp"
#include "actors/replay/replay_state.hpp"
#include "actors/run_counters.hpp"
#include "dataplane/store.hpp"

#include <memory>

namespace weir {

/// The two halves of what replay owns: the index, and the rows that it names.
struct replay_contents {
  replay_state index;
  std::shared_ptr<dataplane::store> rows;
  /// What the restore changed in the index: stands first in this owner's events.
  std::vector<group_event> restamped = {};
  /// On which its rows are written; knows the segments of the bundle that was restored.
  std::shared_ptr<write_terms> terms = std::make_shared<write_terms>();
};

class replay : public participant {
public:
  using protocol = replay_protocol;
  static constexpr bool is_owner = true;
  static constexpr bool is_origin = true;

  /// `contents` is empty, or loaded from a bundle; `version` is the trainer's.
  replay(context ctx, replay_contents contents, weight_version version, event_sink& events,
         std::shared_ptr<run_counters> counters);

private:
  task<void> run() override; ///< The evictor.
  task<result<message<GroupStarted>>> on_start(message<StartGroup> request);
  task<result<message<GroupStaged>>> on_stage(message<StageGroup> request);
  task<result<message<GroupCommitted>>> on_commit(lease_ref lease, message<CommitGroup> request);
  task<result<message<GroupPromoted>>> on_promote(lease_ref lease, message<PromoteGroup> request);
  task<result<message<BatchReady>>> on_await_batch(message<AwaitBatch> request);
  task<result<message<BatchClaimed>>> on_claim(lease_ref lease, message<ClaimBatch> request);
  task<result<message<BatchConsumed>>> on_consume(lease_ref lease, message<ConsumeBatch> request);
  task<result<message<StaleProposed>>> on_await_stale(message<AwaitStale> request);
  task<void> on_begun(message<GroupBegun> note);
  task<void> on_stop(message<StopGroup> note);
  task<void> on_discard(message<DiscardGroup> note);
  task<void> on_supply_ended(message<SupplyEnded> note);
  task<void> on_version_moved(message<VersionMoved> note);
  task<result<message<BatchReady>>> batch_ready(message<AwaitBatch> request);
  task<result<message<StaleProposed>>> stale_proposed();
  captured_section capture() override;
  void prepare_capture() override;
  void check_invariants() const override { state_.check_invariants(); }

  task<void> compact_when_cleared();
  task<result<void>> evict();
  [[nodiscard]] result<bool> eviction_due() const;
  result<message<BatchClaimed>> read_groups(const std::vector<replay_record>& records);
  void drop_rows(std::span<const row_id> rows);
  void drop(const cleared_groups& gone, drop_reason reason);
  void clear_rows(std::span<const row_id> rows);
  void changed();

  replay_state state_;
  std::shared_ptr<dataplane::store> store_;
  weight_version version_;
  std::shared_ptr<run_counters> counters_;
  std::uint64_t groups_given_up_ = 0; ///< Since the start: whoever awaits a batch looks again.
  bool remainder_due_ = false;        ///< The data ended, and groups are left that no step can use.
  std::shared_ptr<write_terms> terms_;
  signal changed_;
  signal cleared_; ///< Rows went, or there may be half dead segments from before.
  scope tidying_;
};

} // namespace weir
