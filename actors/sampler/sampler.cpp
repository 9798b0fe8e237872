#include "actors/sampler/sampler.hpp"

#include <tuple>
#include <utility>

namespace weir {

namespace {

result<std::vector<group_reservation>> reservations_of(const ReserveGroups& request) {
  std::vector<group_reservation> groups;
  const auto* const entries = request.groups();
  for (flatbuffers::uoffset_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    const GroupReservation& entry = *entries->Get(i);
    if (entry.sample() == nullptr || entry.content_hash() == nullptr)
      return failure(errc::invalid_argument, "group " + std::to_string(entry.group()) +
                                                 ": sample and content hash are needed");
    group_reservation group;
    group.group = group_id(entry.group());
    group.sample = {entry.sample()->epoch(), entry.sample()->position()};
    group.hash = {entry.content_hash()->low(), entry.content_hash()->high()};
    group.task = text_of(entry.task());
    group.siblings = entry.siblings();
    groups.push_back(std::move(group));
  }
  return groups;
}

result<drop_reason> reason_of(DropReason reason) {
  const auto number = static_cast<std::uint8_t>(reason);
  if (number >= drop_reasons)
    return failure(errc::invalid_argument,
                   "drop reason " + std::to_string(number) + " is not known");
  return static_cast<drop_reason>(number);
}

} // namespace

sampler::sampler(context ctx, sampler_state state, event_sink& events,
                 const std::vector<group_event>& restamped)
    : participant(std::move(ctx), barrier_role::only_owner, events), state_(std::move(state)) {
  restored_with(restamped);
  serve(&sampler::on_reserve);
  serve(&sampler::on_await_admission);
  serve(&sampler::on_admit);
  serve(&sampler::on_release_group);
  serve(&sampler::on_drop);
  serve(&sampler::on_failure);
  serve(&sampler::on_settle);
  serve(&sampler::on_list);
  serve(&sampler::on_target);
  serve(&sampler::on_version_live);
}

task<result<message<GroupsReserved>>> sampler::on_reserve(lease_ref lease,
                                                          message<ReserveGroups> request) {
  const auto groups = reservations_of(*request);
  if (!groups) co_return failure(groups.error());
  const auto unfinished =
      state_.reserve(request->admission(), *groups, events(), lease.transaction());
  if (!unfinished) co_return failure(unfinished.error());
  applied(lease);
  GroupsReservedT answer;
  answer.unfinished = *unfinished;
  co_return pack(answer);
}

task<result<message<AdmissionOpened>>>
sampler::on_await_admission(message<AwaitAdmission> request) {
  std::ignore = request; // The gate is one for all admissions; which of them it is decides admit.
  while (!state_.gate_open())
    co_await version_moved_.raised();
  AdmissionOpenedT answer;
  answer.dispatch_index = state_.next_dispatch_index();
  co_return pack(answer);
}

task<result<message<BatchAdmitted>>> sampler::on_admit(lease_ref lease,
                                                       message<AdmitBatch> request) {
  const auto outcome = state_.admit(request->admission(), events(), lease.transaction());
  if (!outcome) co_return failure(outcome.error());
  if (outcome->admitted) applied(lease);
  BatchAdmittedT answer;
  answer.admitted = outcome->admitted;
  answer.dispatch_index = outcome->dispatch_index;
  answer.target_step = outcome->target_step;
  answer.admission_version = outcome->admission_version.value;
  answer.window = outcome->window;
  for (const group_id group : outcome->groups)
    answer.groups.push_back(group.value);
  if (outcome->tail_admission)
    answer.tail_admission = static_cast<std::int64_t>(*outcome->tail_admission);
  co_return pack(answer);
}

task<result<message<GroupReleased>>> sampler::on_release_group(lease_ref lease,
                                                               message<ReleaseGroup> request) {
  const auto outcome = state_.release(group_id(request->group()), request->content_attempt());
  if (!outcome) co_return failure(outcome.error());
  GroupReleasedT answer;
  answer.found = outcome->has_value();
  if (answer.found) {
    applied(lease);
    const release_outcome& stamp = **outcome;
    answer.target_step = stamp.target_step;
    answer.admission_version = stamp.admission_version.value;
    answer.window = stamp.window;
    answer.dispatch_index = stamp.dispatch_index;
  }
  co_return pack(answer);
}

task<result<message<GroupsDropped>>> sampler::on_drop(lease_ref lease,
                                                      message<DropGroups> request) {
  const auto reason = reason_of(request->reason());
  if (!reason) co_return failure(reason.error());
  std::vector<group_id> groups;
  for (flatbuffers::uoffset_t i = 0; request->groups() != nullptr && i < request->groups()->size();
       ++i)
    groups.emplace_back(request->groups()->Get(i));
  const auto dropped = state_.drop(groups, *reason, events(), lease.transaction());
  if (!dropped) co_return failure(dropped.error());
  applied(lease);
  GroupsDroppedT answer;
  answer.dropped = dropped->size();
  co_return pack(answer);
}

task<result<message<FailureRecorded>>> sampler::on_failure(lease_ref lease,
                                                           message<RecordFailure> request) {
  const auto kind = request->kind() == FailureKind::data ? failure_kind::data : failure_kind::infra;
  const auto outcome =
      state_.record_failure(group_id(request->group()), kind, events(), lease.transaction());
  if (!outcome) co_return failure(outcome.error());
  FailureRecordedT answer;
  answer.found = outcome->has_value();
  if (answer.found) {
    applied(lease);
    answer.retry = (*outcome)->retry;
    answer.content_attempt = (*outcome)->content_attempt;
    answer.backoff_ns = static_cast<std::uint64_t>((*outcome)->backoff_ns);
  }
  co_return pack(answer);
}

task<result<message<StepSettled>>> sampler::on_settle(lease_ref lease,
                                                      message<SettleStep> request) {
  state_.settle(request->step());
  applied(lease);
  StepSettledT answer;
  answer.step = request->step();
  answer.dropped = state_.capture().dropped.total().count;
  co_return pack(answer);
}

task<result<message<UnfinishedListed>>> sampler::on_list(message<ListUnfinished> request) {
  std::ignore = request; // It has no fields.
  UnfinishedListedT answer;
  answer.next_admission = state_.next_admission();
  for (const ledger_record& record : state_.unfinished())
    answer.groups.push_back(pack_record(record));
  co_return pack(answer);
}

task<result<message<TargetRead>>> sampler::on_target(message<ReadTarget> request) {
  TargetReadT answer;
  answer.groups = state_.target(request->step());
  co_return pack(answer);
}

task<void> sampler::on_version_live(message<VersionLive> note) {
  if (state_.version_live(weight_version(note->version()))) version_moved_.raise();
  co_return;
}

captured_section sampler::capture() {
  captured_section section;
  section.sequence = events().newest();
  const sampler_image image = state_.capture();
  add_tallies(image, section.tallies);
  section.write = [image](const section_target& target) {
    return write_one_section(target, "rollout_recovery.fb", encode(image, target.epoch));
  };
  return section;
}

} // namespace weir
