#include "actors/sampler/sampler.hpp"

#include "actors/runtime/combinators.hpp"
#include "actors/sampler/replacement_reserve.hpp"
#include "actors/waiting_time.hpp"

#include <tuple>
#include <utility>

namespace weir {

namespace {

using wire_reservations = flatbuffers::Vector<flatbuffers::Offset<GroupReservation>>;

result<std::vector<group_reservation>> reservations_of(const wire_reservations* entries) {
  std::vector<group_reservation> groups;
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

/// The ledger, and the reserve where there is one.
result<std::vector<dataplane::finished_section>> write_sections(const section_target& target,
                                                                const sampler_image& image) {
  auto written = write_one_section(target, "rollout_recovery.fb", encode(image, target.epoch));
  if (!written || image.reserve.empty()) return written;
  auto reserve =
      write_one_section(target, replacement_reserve_file, encode_reserve(image, target.epoch));
  if (!reserve) return reserve;
  written->push_back(std::move(reserve->front()));
  return written;
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
  serve(&sampler::on_divert);
  serve(&sampler::on_drain);
  serve(&sampler::on_replace);
  serve(&sampler::on_repay);
  serve(&sampler::on_failure);
  serve(&sampler::on_settle);
  serve(&sampler::on_list);
  serve(&sampler::on_target);
  serve(&sampler::on_version_live);
}

task<result<message<GroupsReserved>>> sampler::on_reserve(lease_ref lease,
                                                          message<ReserveGroups> request) {
  const auto groups = reservations_of(request->groups());
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
  auto opened = co_await with_deadline(gate_open(), within(standing_wait_max));
  co_return std::move(opened);
}

task<result<message<AdmissionOpened>>> sampler::gate_open() {
  while (true) {
    const auto open = state_.may_admit();
    if (!open) co_return failure(open.error());
    if (*open) break;
    co_await version_moved_.raised();
  }
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

task<result<message<GroupsDiverted>>> sampler::on_divert(lease_ref lease,
                                                         message<DivertGroups> request) {
  const auto groups = reservations_of(request->groups());
  if (!groups) co_return failure(groups.error());
  const auto spares = state_.divert(*groups, events(), lease.transaction());
  if (!spares) co_return failure(spares.error());
  applied(lease);
  GroupsDivertedT answer;
  answer.spares = *spares;
  co_return pack(answer);
}

task<result<message<ReserveDrained>>> sampler::on_drain(lease_ref lease,
                                                        message<DrainReserve> request) {
  const auto drained =
      state_.drain(request->admission(), request->count(), events(), lease.transaction());
  if (!drained) co_return failure(drained.error());
  applied(lease);
  ReserveDrainedT answer;
  for (const ledger_record& record : *drained)
    answer.groups.push_back(pack_record(record));
  answer.spares = state_.spares();
  co_return pack(answer);
}

task<result<message<GroupReplaced>>> sampler::on_replace(lease_ref lease,
                                                         message<ReplaceGroup> request) {
  const auto reason = reason_of(request->reason());
  if (!reason) co_return failure(reason.error());
  const auto outcome =
      state_.replace(group_id(request->group()), *reason, events(), lease.transaction());
  if (!outcome) co_return failure(outcome.error());
  GroupReplacedT answer;
  answer.dropped = outcome->has_value();
  if (answer.dropped) applied(lease);
  if (answer.dropped && (*outcome)->spare) answer.spare = pack_record(*(*outcome)->spare);
  answer.spares = state_.spares();
  co_return pack(answer);
}

task<result<message<GroupRepaid>>> sampler::on_repay(lease_ref lease, message<RepayGroup> request) {
  lent_stamp stamp;
  stamp.dispatch_index = request->dispatch_index();
  stamp.target_step = request->target_step();
  stamp.admission_version = weight_version(request->admission_version());
  const auto repaid =
      state_.repay(group_id(request->group()), stamp, events(), lease.transaction());
  if (!repaid) co_return failure(repaid.error());
  applied(lease);
  GroupRepaidT answer;
  answer.group = pack_record(*repaid);
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
  answer.spares = state_.spares();
  for (const ledger_record& record : state_.unfinished())
    answer.groups.push_back(pack_record(record));
  co_return pack(answer);
}

task<result<message<TargetRead>>> sampler::on_target(message<ReadTarget> request) {
  TargetReadT answer;
  answer.groups = state_.target(request->step());
  answer.shut_gate = state_.shut_gate();
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
  section.write = [image](const section_target& target) { return write_sections(target, image); };
  return section;
}

} // namespace weir
