/// The sampler actor: the ledger of unfinished groups and the admission gate.
///
/// An owner; it never mutates on its own. Every decision is `sampler_state`'s. Those who wait at
/// the gate are woken when a version goes live, and the admission itself is decided again under a
/// lease. It waits for nobody.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
#include "actors/sampler/sampler_state.hpp"

namespace weir {

class sampler : public participant {
public:
  using protocol = sampler_protocol;
  static constexpr bool is_owner = true;

  /// `state` is fresh, or loaded from a bundle; `restamped` is what the restore changed in it, and
  /// stands first in this owner's events.
  sampler(context ctx, sampler_state state, event_sink& events,
          const std::vector<group_event>& restamped = {});

private:
  task<result<message<GroupsReserved>>> on_reserve(lease_ref lease, message<ReserveGroups> request);
  task<result<message<AdmissionOpened>>> on_await_admission(message<AwaitAdmission> request);
  task<result<message<BatchAdmitted>>> on_admit(lease_ref lease, message<AdmitBatch> request);
  task<result<message<GroupReleased>>> on_release_group(lease_ref lease,
                                                        message<ReleaseGroup> request);
  task<result<message<GroupsDropped>>> on_drop(lease_ref lease, message<DropGroups> request);
  task<result<message<GroupsDiverted>>> on_divert(lease_ref lease, message<DivertGroups> request);
  task<result<message<ReserveDrained>>> on_drain(lease_ref lease, message<DrainReserve> request);
  task<result<message<GroupReplaced>>> on_replace(lease_ref lease, message<ReplaceGroup> request);
  task<result<message<GroupRepaid>>> on_repay(lease_ref lease, message<RepayGroup> request);
  task<result<message<FailureRecorded>>> on_failure(lease_ref lease,
                                                    message<RecordFailure> request);
  task<result<message<StepSettled>>> on_settle(lease_ref lease, message<SettleStep> request);
  task<result<message<UnfinishedListed>>> on_list(message<ListUnfinished> request);
  task<result<message<TargetRead>>> on_target(message<ReadTarget> request);
  task<void> on_version_live(message<VersionLive> note);
  task<result<message<AdmissionOpened>>> gate_open();
  captured_section capture() override;
  void check_invariants() const override { state_.check_invariants(); }

  sampler_state state_;
  signal version_moved_;
};

} // namespace weir
