#include "tests/simulation/relays.hpp"

#include "actors/fault/fault.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace weir::sim {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

bool has_faults(const run_plan& plan) {
  return plan.delays_one_in + plan.duplicates_one_in + plan.reorders_one_in + plan.losses_one_in >
         0;
}

/// Puts the rules of a role together, the rarest first: the first that strikes decides.
class fault_list {
public:
  explicit fault_list(const run_plan& plan) : plan_(plan) {}

  /// These messages may be lost: whoever misses them asks again.
  template <class... Messages>
  fault_list& lost() {
    if (plan_.losses_one_in > 0)
      (list_.rules.push_back(on<Messages>().drop().chance(chance(plan_.losses_one_in))), ...);
    return *this;
  }
  /// Calls that may go out again.
  template <class... Requests>
  fault_list& again() {
    if (plan_.duplicates_one_in > 0)
      (list_.rules.push_back(on<Requests>().duplicate().chance(chance(plan_.duplicates_one_in))),
       ...);
    return *this;
  }
  /// Calls that may be late or overtaken.
  template <class... Requests>
  fault_list& late() {
    if (plan_.delays_one_in > 0)
      (list_.rules.push_back(delayed(on<Requests>(), plan_.delays_one_in)), ...);
    if (plan_.reorders_one_in > 0)
      (list_.rules.push_back(overtaken(on<Requests>(), plan_.reorders_one_in)), ...);
    return *this;
  }
  /// With the answers, all of them calls'.
  [[nodiscard]] fault_plan complete() {
    if (plan_.delays_one_in > 0) list_.rules.push_back(delayed(any_reply(), plan_.delays_one_in));
    if (plan_.reorders_one_in > 0)
      list_.rules.push_back(overtaken(any_reply(), plan_.reorders_one_in));
    return list_;
  }

private:
  static double chance(std::uint64_t one_in) { return 1.0 / static_cast<double>(one_in); }
  static fault_rule delayed(const fault_trigger& trigger, std::uint64_t one_in) {
    return trigger.delay(nanoseconds(0), milliseconds(2)).chance(chance(one_in));
  }
  static fault_rule overtaken(const fault_trigger& trigger, std::uint64_t one_in) {
    return trigger.reorder(3, milliseconds(2)).chance(chance(one_in));
  }

  const run_plan& plan_;
  fault_plan list_;
};

template <class Protocol>
main_job_relays::relay<Protocol> relay_of(fault_plan faults) {
  return [faults = std::move(faults)](graph& actors, handle<Protocol> behind) {
    return actors.add<fault<Protocol>>("faults-of-" + behind.name(), behind, faults);
  };
}

} // namespace

main_job_relays relays_of(const run_plan& plan) {
  main_job_relays relays;
  if (!has_faults(plan)) return relays;
  relays.loader = relay_of<dataloader_protocol>(fault_list(plan)
                                                    .again<PeekBatch, ReserveBatch, FetchPrompts>()
                                                    .late<PeekBatch, ReserveBatch, FetchPrompts>()
                                                    .complete());
  relays.sampler = relay_of<sampler_protocol>(
      fault_list(plan)
          .lost<AwaitAdmission, AdmissionOpened>()
          .again<ReserveGroups, AwaitAdmission, AdmitBatch, ReleaseGroup, DropGroups, RecordFailure,
                 DivertGroups, DrainReserve, ReplaceGroup, RepayGroup, ReadTarget, SettleStep>()
          .late<ReserveGroups, AwaitAdmission, AdmitBatch, ReleaseGroup, DropGroups, RecordFailure,
                DivertGroups, DrainReserve, ReplaceGroup, RepayGroup, ReadTarget, SettleStep>()
          .complete());
  relays.replay =
      relay_of<replay_protocol>(fault_list(plan)
                                    .lost<StartGroup, GroupStarted, StageGroup, GroupStaged,
                                          AwaitBatch, BatchReady, AwaitStale, StaleProposed>()
                                    .again<StartGroup, StageGroup, CommitGroup, PromoteGroup,
                                           AwaitBatch, ClaimBatch, ConsumeBatch, AwaitStale>()
                                    .late<StartGroup, StageGroup, CommitGroup, PromoteGroup,
                                          AwaitBatch, ClaimBatch, ConsumeBatch, AwaitStale>()
                                    .complete());
  relays.generator = relay_of<generator_protocol>(
      fault_list(plan)
          .lost<GenerateGroup, GenerationAccepted, AwaitWeightsLost>()
          .again<UpdateWeights, AwaitWeightsLost, Probe>()
          .late<GenerateGroup, UpdateWeights, AwaitWeightsLost, Probe>()
          .complete());
  relays.environment = relay_of<environment_protocol>(fault_list(plan)
                                                          .lost<ScoreCompletion, CompletionScored>()
                                                          .again<ScoreCompletion, Probe>()
                                                          .late<ScoreCompletion, Probe>()
                                                          .complete());
  return relays;
}

} // namespace weir::sim
