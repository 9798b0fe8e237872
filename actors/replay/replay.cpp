#include "actors/replay/replay.hpp"

#include "actors/replay/replay_section.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/waiting_time.hpp"

#include <chrono>
#include <utility>

namespace weir {

namespace {

/// Half a millisecond of copying, at most every fifth one: 200 MB/s.
constexpr std::uint64_t compaction_step_bytes = std::uint64_t{1} << 20;
constexpr std::chrono::nanoseconds compaction_pause = std::chrono::milliseconds(5);

/// 0 stands for all of them.
std::uint64_t least_of(std::uint64_t groups_min, std::uint64_t groups) {
  return groups_min > 0 ? groups_min : groups;
}

} // namespace

replay::replay(context ctx, replay_contents contents, weight_version version, event_sink& events,
               std::shared_ptr<run_counters> counters)
    : participant(std::move(ctx), barrier_role::both, events), state_(std::move(contents.index)),
      store_(std::move(contents.rows)), version_(version), counters_(std::move(counters)),
      terms_(std::move(contents.terms)) {
  restored_with(contents.restamped);
  serve(&replay::on_start);
  serve(&replay::on_stage);
  serve(&replay::on_commit);
  serve(&replay::on_promote);
  serve(&replay::on_await_batch);
  serve(&replay::on_claim);
  serve(&replay::on_consume);
  serve(&replay::on_await_stale);
  serve(&replay::on_begun);
  serve(&replay::on_stop);
  serve(&replay::on_discard);
  serve(&replay::on_supply_ended);
  serve(&replay::on_version_moved);
}

task<void> replay::run() {
  tidying_.spawn(&replay::compact_when_cleared, this);
  while (true) {
    const auto due = eviction_due();
    if (!due) {
      fail(due.error());
      co_return;
    }
    if (!*due) {
      co_await changed_.raised();
      continue;
    }
    auto evicted = co_await shielded(evict());
    if (!evicted) {
      fail(std::move(evicted.error()));
      co_return;
    }
  }
}

/// Begins once, for what a restore left. Only clearing makes further work, so that an idle buffer
/// has no timer.
task<void> replay::compact_when_cleared() {
  while (true) {
    const auto step = store_->compact(compaction_step_bytes);
    if (!step)
      log(log_level::warning, "memory of cleared rows is kept: " + to_string(step.error()));
    if (step && !step->finished)
      co_await clock().after(compaction_pause);
    else
      co_await cleared_.raised();
  }
}

result<bool> replay::eviction_due() const {
  if (remainder_due_) return true;
  return state_.eviction_due(version_);
}

/// One lease, looked at again once it is held: what was due may be gone.
task<result<void>> replay::evict() {
  auto lease = co_await mutations().enter();
  const auto stale = state_.evict(version_, events(), lease.transaction());
  if (!stale) co_return failure(stale.error());
  drop(*stale, drop_reason::stale);
  if (std::exchange(remainder_due_, false))
    drop(state_.drop_remainder(events(), lease.transaction()), drop_reason::end_of_data);
  mutated();
  changed();
  co_return result<void>();
}

/// Answers once the group holds a capacity permit, and the version is live that it may start on: a
/// stamp that was given anew on a resume may name one that is yet to come. Asked again after a
/// timeout, it keeps its place.
task<result<message<GroupStarted>>> replay::on_start(message<StartGroup> request) {
  const start_request wanted{group_id(request->group()), request->dispatch_index(),
                             request->target_step(), weight_version(request->admission_version()),
                             request->window()};
  if (auto queued = state_.request_start(wanted); !queued)
    co_return failure(std::move(queued.error()));
  changed();
  while (!state_.started(wanted.group) || version_ < wanted.admission_version) {
    if (!state_.awaited(wanted.group))
      co_return failure(errc::cancelled, "group " + std::to_string(wanted.group.value) +
                                             " was stopped while it waited for a slot");
    co_await changed_.raised();
  }
  GroupStartedT answer;
  answer.group = wanted.group.value;
  co_return pack(answer);
}

/// Writes rows that are in no cut. Above the high-water mark it waits for room, unless the open
/// step needs the group: the step's straggler must always find a place.
task<result<message<GroupStaged>>> replay::on_stage(message<StageGroup> request) {
  const group_id group(request->group());
  const auto rows = rollout_rows::of(*request);
  if (!rows) co_return failure(rows.error());
  const auto versions = versions_of(rows->versions());
  if (!versions) co_return failure(versions.error());
  result<std::vector<row_id>> staged;
  while (true) {
    const auto kind = state_.needed_at(group, version_) ? dataplane::admission::priority
                                                        : dataplane::admission::ordinary;
    staged = store_->stage(rollout_partition, rows->rows(), kind);
    if (staged || staged.error().code != errc::exhausted) break;
    co_await changed_.raised();
    if (!state_.started(group))
      co_return failure(errc::conflict, "group " + std::to_string(group.value) +
                                            " was stopped while it waited for room");
  }
  if (!staged) co_return failure(std::move(staged.error()));
  const auto replaced =
      state_.stage({group, request->content_attempt(), versions->start, versions->end, *staged});
  if (!replaced) {
    drop_rows(*staged);
    co_return failure(replaced.error());
  }
  drop_rows(*replaced);
  GroupStagedT answer;
  answer.group = group.value;
  co_return pack(answer);
}

task<result<message<GroupCommitted>>> replay::on_commit(lease_ref lease,
                                                        message<CommitGroup> request) {
  if (request->sample() == nullptr)
    co_return failure(errc::invalid_argument,
                      "group " + std::to_string(request->group()) + ": a sample is needed");
  commit_request wanted;
  wanted.group = group_id(request->group());
  wanted.content_attempt = request->content_attempt();
  wanted.sample = {request->sample()->epoch(), request->sample()->position()};
  wanted.dispatch_index = request->dispatch_index();
  wanted.target_step = request->target_step();
  wanted.admission_version = weight_version(request->admission_version());
  wanted.window = request->window();
  if (request->content_hash() != nullptr)
    wanted.hash = content_hash{request->content_hash()->low(), request->content_hash()->high()};
  wanted.task = text_of(request->task());
  const auto rows = state_.commit(wanted, events(), lease.transaction());
  if (!rows) co_return failure(rows.error());
  const auto committed = store_->commit(rollout_partition, *rows);
  ensure(committed.has_value(), "staged rows of the index are staged in the store");
  applied(lease);
  changed();
  GroupCommittedT answer;
  answer.group = wanted.group.value;
  answer.rows = rows->size();
  co_return pack(answer);
}

/// A finished group of a later step stands in where one was dropped.
task<result<message<GroupPromoted>>> replay::on_promote(lease_ref lease,
                                                        message<PromoteGroup> request) {
  const auto lender = state_.promote(request->target_step(), request->dispatch_index(), events(),
                                     lease.transaction());
  GroupPromotedT answer;
  answer.found = lender.has_value();
  if (lender) {
    applied(lease);
    changed();
    answer.group = lender->group.value;
    answer.dispatch_index = lender->dispatch_index;
    answer.target_step = lender->target_step;
    answer.admission_version = lender->admission_version.value;
  }
  co_return pack(answer);
}

task<result<message<BatchReady>>> replay::on_await_batch(message<AwaitBatch> request) {
  auto ready = co_await with_deadline(batch_ready(std::move(request)), within(standing_wait_max));
  co_return std::move(ready);
}

task<result<message<BatchReady>>> replay::batch_ready(message<AwaitBatch> request) {
  const weight_version version(request->version());
  const std::uint64_t groups_min = least_of(request->groups_min(), request->groups());
  const std::uint64_t given_up = groups_given_up_;
  while (true) {
    const auto outlook = state_.outlook(request->step(), version, groups_min, request->groups());
    if (!outlook) co_return failure(outlook.error());
    const bool waits = outlook->prospect == batch_prospect::wait && given_up == groups_given_up_;
    const bool left_over = state_.claimed(request->step()) > 0 || outlook->available > 0;
    if (outlook->prospect == batch_prospect::ended && left_over) {
      remainder_due_ = true;
      changed_.raise();
    } else if (!waits) {
      BatchReadyT answer;
      answer.available = outlook->available;
      answer.end_of_data = outlook->prospect == batch_prospect::ended;
      co_return pack(answer);
    }
    co_await changed_.raised();
  }
}

task<result<message<BatchClaimed>>> replay::on_claim(lease_ref lease, message<ClaimBatch> request) {
  const auto claimed = state_.claim(request->step(), weight_version(request->version()),
                                    least_of(request->groups_min(), request->groups()),
                                    request->groups(), events(), lease.transaction());
  if (!claimed) co_return failure(claimed.error());
  applied(lease);
  changed();
  co_return read_groups(*claimed);
}

task<result<message<BatchConsumed>>> replay::on_consume(lease_ref lease,
                                                        message<ConsumeBatch> request) {
  const auto consumed = state_.consume(request->step(), events(), lease.transaction());
  clear_rows(consumed.rows);
  applied(lease);
  changed();
  BatchConsumedT answer;
  answer.groups = consumed.groups.size();
  answer.evicted = state_.capture().dropped.of(drop_reason::stale).count;
  co_return pack(answer);
}

task<result<message<StaleProposed>>> replay::on_await_stale(message<AwaitStale> request) {
  std::ignore = request; // It has no fields.
  auto proposed = co_await with_deadline(stale_proposed(), within(standing_wait_max));
  co_return std::move(proposed);
}

task<result<message<StaleProposed>>> replay::stale_proposed() {
  while (true) {
    const auto stale = state_.stale_in_flight(version_);
    if (!stale) co_return failure(stale.error());
    if (!stale->empty()) {
      StaleProposedT answer;
      for (const group_id group : *stale)
        answer.groups.push_back(group.value);
      co_return pack(answer);
    }
    co_await changed_.raised();
  }
}

task<void> replay::on_begun(message<GroupBegun> note) {
  std::optional<weight_version> start;
  if (note->start_version() >= 0)
    start = weight_version(static_cast<std::uint64_t>(note->start_version()));
  state_.begun(group_id(note->group()), start);
  changed();
  co_return;
}

task<void> replay::on_stop(message<StopGroup> note) {
  drop_rows(state_.stop(group_id(note->group())));
  ++groups_given_up_; // The step that waits for it may be short of it now.
  changed();
  co_return;
}

task<void> replay::on_discard(message<DiscardGroup> note) {
  drop_rows(state_.discard(group_id(note->group()), note->content_attempt()));
  drop_rows(state_.stop(group_id(note->group())));
  changed();
  co_return;
}

task<void> replay::on_supply_ended(message<SupplyEnded> note) {
  state_.end_supply(text_of(note->reason()));
  changed();
  co_return;
}

task<void> replay::on_version_moved(message<VersionMoved> note) {
  version_ = std::max(version_, weight_version(note->version()));
  changed();
  co_return;
}

captured_section replay::capture() {
  captured_section section;
  section.sequence = events().newest();
  const replay_image image = state_.capture();
  const dataplane::snapshot rows = store_->capture();
  add_tallies(image, section.tallies);
  section.write = [image, rows, terms = terms_, &time = clock()](const section_target& target) {
    return write_replay_section(target, image, rows, *terms, terms->pace(time));
  };
  return section;
}

/// Without the rows: a capture of theirs ends the segment that is being filled.
void replay::prepare_capture() {
  cut_tallies tallies;
  add_tallies(state_.capture(), tallies);
}

/// The rows of claimed groups, as the trainer wants them: in dispatch order, siblings in order.
result<message<BatchClaimed>> replay::read_groups(const std::vector<replay_record>& records) {
  BatchClaimedT answer;
  for (const replay_record& record : records) {
    auto rows = store_->get(rollout_partition, record.rows, rollout_fields());
    if (!rows) return failure(std::move(rows.error()));
    auto group = std::make_unique<ClaimedGroupT>();
    group->group = record.group.value;
    group->target_step = record.target_step;
    group->start_version = record.start_version.value;
    group->end_version = record.end_version.value;
    for (std::size_t row = 0; row < record.rows.size(); ++row)
      group->siblings.push_back(std::make_unique<SiblingRolloutT>(sibling_of(*rows, row)));
    answer.groups.push_back(std::move(group));
  }
  return pack(answer);
}

void replay::drop_rows(std::span<const row_id> rows) {
  if (rows.empty()) return;
  const auto dropped = store_->drop_staged(rollout_partition, rows);
  ensure(dropped.has_value(), "staged rows of the index are staged in the store");
  cleared_.raise();
}

void replay::drop(const cleared_groups& gone, drop_reason reason) {
  clear_rows(gone.rows);
  counters_->groups_dropped[static_cast<std::size_t>(reason)] += gone.groups.size();
}

void replay::clear_rows(std::span<const row_id> rows) {
  if (rows.empty()) return;
  const auto cleared = store_->clear(rollout_partition, rows);
  ensure(cleared.has_value(), "committed rows of the index are committed in the store");
  cleared_.raise();
}

/// Something moved: whoever waits for a permit, for room or for a batch looks again.
void replay::changed() {
  std::ignore = state_.grant_permits(); // Those who got one look for themselves.
  std::ignore = state_.grant_due(version_);
  counters_->groups_buffered.store(state_.buffered(), std::memory_order_relaxed);
  changed_.raise();
}

} // namespace weir
