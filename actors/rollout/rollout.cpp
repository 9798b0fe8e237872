#include "actors/rollout/rollout.hpp"

#include "actors/rollout/abort_unless_finished.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/failpoint.hpp"
#include "actors/runtime/stream.hpp"
#include "actors/waiting_time.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

/// A group is with a generator, as long as this lives.
class stay_with_generator {
public:
  stay_with_generator(health_state& health, std::size_t generator)
      : health_(health), generator_(generator) {
    health_.began(generator_);
  }
  stay_with_generator(const stay_with_generator&) = delete;
  stay_with_generator& operator=(const stay_with_generator&) = delete;
  ~stay_with_generator() { health_.ended(generator_); }

private:
  health_state& health_;
  std::size_t generator_;
};

/// Token batches of one group that may be under way before the generator has to wait.
constexpr std::uint64_t stream_credit = 16;

/// Ends a group's turn in the bookkeeping on every way out of its coroutine.
class end_of_group {
public:
  end_of_group(rollout_state& state, group_id group, signal& ended, std::function<void()> moved)
      : state_(state), group_(group), ended_(ended), moved_(std::move(moved)) {}
  end_of_group(const end_of_group&) = delete;
  end_of_group& operator=(const end_of_group&) = delete;
  ~end_of_group() {
    state_.finished(group_);
    moved_();
    ended_.raise();
  }

private:
  rollout_state& state_;
  group_id group_;
  signal& ended_;
  std::function<void()> moved_;
};

std::vector<std::string> names_of(const std::vector<handle<generator_protocol>>& generators) {
  std::vector<std::string> names;
  for (const auto& one : generators)
    names.push_back(one.name());
  return names;
}

weight_version newest_version(const TokenBatch& batch) {
  weight_version newest;
  for (flatbuffers::uoffset_t i = 0; batch.siblings() != nullptr && i < batch.siblings()->size();
       ++i) {
    const auto* versions = batch.siblings()->Get(i)->versions();
    if (versions != nullptr && versions->size() > 0)
      newest = std::max(newest, weight_version(versions->Get(versions->size() - 1)));
  }
  return newest;
}

admission_outcome outcome_of(const BatchAdmitted& answer) {
  admission_outcome outcome;
  outcome.admitted = answer.admitted();
  outcome.dispatch_index = answer.dispatch_index();
  outcome.target_step = answer.target_step();
  outcome.admission_version = weight_version(answer.admission_version());
  outcome.window = answer.window();
  for (flatbuffers::uoffset_t i = 0; answer.groups() != nullptr && i < answer.groups()->size(); ++i)
    outcome.groups.emplace_back(answer.groups()->Get(i));
  if (answer.tail_admission() >= 0)
    outcome.tail_admission = static_cast<std::uint64_t>(answer.tail_admission());
  return outcome;
}

} // namespace

rollout::rollout(context ctx, rollout_options options, rollout_peers peers, text_codec codec,
                 event_sink& events, std::shared_ptr<run_counters> counters)
    : participant(std::move(ctx), barrier_role::only_origin, events), options_(options),
      peers_(std::move(peers)), codec_(std::move(codec)), counters_(std::move(counters)),
      state_(options_.limits), health_(options_.health, names_of(peers_.generators)) {
  ensure(!peers_.generators.empty(), "a rollout actor has a generator");
  ensure(!peers_.environments.empty(), "a rollout actor has an environment");
}

task<void> rollout::run() {
  children().spawn(&rollout::watch_generators, this);
  auto done = co_await dispatch();
  if (!done) fail(std::move(done.error()));
}

task<result<void>> rollout::dispatch() {
  auto recovered = co_await recover();
  if (!recovered) co_return failure(std::move(recovered.error()));
  groups_.spawn(&rollout::give_up_stale, this);
  while (true) {
    const next_supply next = state_.next_move();
    result<void> done;
    switch (next.move) {
    case supply_move::reserve:
      done = co_await reserve_next(next);
      break;
    case supply_move::divert:
      done = co_await divert_next(next);
      break;
    case supply_move::drain:
      done = co_await drain_next(next);
      break;
    case supply_move::admit:
      done = co_await admit_next(next);
      break;
    case supply_move::drop_remainder:
      done = co_await drop_remainder(next);
      break;
    case supply_move::wait:
      co_await group_ended_.raised();
      break;
    case supply_move::finish:
      SupplyEndedT ended;
      ended.reason = "the dataset is exhausted";
      peers_.replay.tell(pack(ended));
      co_return result<void>();
    }
    if (!done) co_return failure(std::move(done.error()));
  }
}

/// Restore steps 5 and 7: prompts come back from the dataset by sample id. ADMITTED groups start at
/// once, in dispatch order; RESERVED batches are then the first that are admitted.
task<result<void>> rollout::recover() {
  auto request = pack(ListUnfinishedT());
  auto listed = co_await peers_.sampler.ask(request, within(options_.request_timeout));
  if (!listed) co_return failure(std::move(listed.error()));
  auto records = records_of((*listed)->groups());
  if (!records) co_return failure(std::move(records.error()));
  recovery_plan plan = plan_recovery(*records, (*listed)->next_admission(), options_.failures);
  plan.spares = (*listed)->spares();
  state_.recover(plan);
  auto dropped = co_await drop_spent(std::move(plan.spent));
  if (!dropped) co_return failure(std::move(dropped.error()));
  auto started = co_await start_admitted(std::move(plan.dispatch));
  if (!started) co_return failure(std::move(started.error()));
  std::vector<PromptKeyT> waiting;
  for (const ledger_record& record : *records) {
    if (record.phase != group_phase::reserved) continue;
    waiting.push_back(key_of(record));
    if (record.content_attempt > 0)
      reserved_attempts_.emplace(record.group, record.content_attempt);
  }
  auto fetched = co_await fetch(std::move(waiting));
  if (!fetched) co_return failure(std::move(fetched.error()));
  for (PromptT& prompt : *fetched)
    reserved_prompts_.emplace(group_id(prompt.group), std::move(prompt));
  co_return result<void>();
}

task<result<void>> rollout::drop_spent(std::vector<spent_group> spent) {
  for (const spent_group& one : spent) {
    const auto reason = static_cast<DropReason>(one.reason);
    auto dropped = co_await shielded(give_up(one.group.value, reason));
    if (!dropped) co_return failure(std::move(dropped.error()));
  }
  co_return result<void>();
}

task<result<void>> rollout::start_admitted(std::vector<ledger_record> records) {
  std::vector<PromptKeyT> keys;
  for (const ledger_record& record : records)
    keys.push_back(key_of(record));
  auto prompts = co_await fetch(std::move(keys));
  if (!prompts) co_return failure(std::move(prompts.error()));
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ledger_record& record = records[i];
    group_stamp stamp;
    stamp.dispatch_index = record.dispatch_index;
    stamp.target_step = record.target_step;
    stamp.admission_version = record.admission_version.value;
    stamp.window = record.window;
    start(make_group(std::move((*prompts)[i]), stamp, record.content_attempt));
  }
  co_return result<void>();
}

task<result<std::vector<PromptT>>> rollout::fetch(std::vector<PromptKeyT> keys) {
  if (keys.empty()) co_return std::vector<PromptT>();
  FetchPromptsT want;
  for (PromptKeyT& key : keys)
    want.keys.push_back(std::make_unique<PromptKeyT>(std::move(key)));
  auto request = pack(want);
  auto fetched = co_await peers_.loader.ask(request, within(options_.request_timeout));
  if (!fetched) co_return failure(std::move(fetched.error()));
  std::vector<PromptT> prompts;
  if ((*fetched)->prompts() != nullptr) prompts = unpack_prompts(*(*fetched)->prompts());
  if (prompts.size() != keys.size())
    co_return failure(errc::corrupt, "the dataloader found " + std::to_string(prompts.size()) +
                                         " of " + std::to_string(keys.size()) +
                                         " prompts to restore");
  co_return prompts;
}

/// Reads ahead without a lease, then moves the cursor and the ledger under one.
task<result<void>> rollout::reserve_next(next_supply next) {
  auto peeked = co_await peek(next.groups);
  if (!peeked) co_return failure(std::move(peeked.error()));
  auto batch = std::make_shared<const prompt_batch>(std::move(*peeked));
  auto taken = co_await take_batch(batch, next);
  co_return std::move(taken);
}

/// What was read, into an admission; fewer prompts than asked for are the last ones.
task<result<void>> rollout::take_batch(std::shared_ptr<const prompt_batch> batch,
                                       next_supply next) {
  if (batch->prompts.size() < next.groups) state_.end_data();
  if (batch->prompts.empty()) co_return result<void>();
  auto reserved = co_await shielded(reserve(batch, next.admission));
  if (!reserved) co_return failure(std::move(reserved.error()));
  std::vector<group_id> groups;
  for (const PromptT& prompt : batch->prompts) {
    groups.emplace_back(prompt.group);
    reserved_prompts_.emplace(groups.back(), prompt);
  }
  state_.reserved(next.admission, groups);
  co_return result<void>();
}

task<result<prompt_batch>> rollout::peek(std::uint64_t count) {
  PeekBatchT want;
  want.count = count;
  auto request = pack(want);
  auto peeked = co_await peers_.loader.ask(request, within(options_.request_timeout));
  if (!peeked) co_return failure(std::move(peeked.error()));
  prompt_batch batch;
  batch.first_group = (*peeked)->first_group();
  if ((*peeked)->prompts() != nullptr) batch.prompts = unpack_prompts(*(*peeked)->prompts());
  co_return batch;
}

task<result<void>> rollout::reserve(std::shared_ptr<const prompt_batch> batch,
                                    std::uint64_t admission) {
  auto lease = co_await mutations().enter();
  auto move_request = pack(cursor_move_of(*batch));
  auto moved = co_await peers_.loader.ask(lease, move_request, within(options_.request_timeout));
  if (!moved) co_return failure(std::move(moved.error()));
  co_await failpoint("rollout.reserving");
  auto own_request = pack(reservation_of(*batch, admission, options_.siblings));
  auto owned = co_await peers_.sampler.ask(lease, own_request, within(options_.request_timeout));
  if (!owned) co_return failure(std::move(owned.error()));
  co_return result<void>();
}

/// Waits at the gate without a lease, then decides under one; when the gate closed in between, the
/// same move comes up again.
task<result<void>> rollout::admit_next(next_supply next) {
  std::optional<waiting_time> waiting(std::in_place, clock(), counters_->gate_wait_ns);
  auto first = co_await first_of(gate_open(next.admission), reserve_low());
  waiting.reset();
  if (first.index() == 1) co_return result<void>(); // What the reserve lacks comes first.
  auto& opened = std::get<0>(first);
  if (!opened && opened.error().code == errc::timed_out)
    co_return result<void>(); // The gate opens with the trainer's progress, not with time.
  if (!opened) co_return failure(std::move(opened.error()));
  auto outcome = co_await shielded(admit(next.admission));
  if (!outcome) co_return failure(std::move(outcome.error()));
  if (!outcome->admitted) co_return result<void>();
  state_.admitted(next.admission, *outcome);
  group_stamp stamp;
  stamp.dispatch_index = outcome->dispatch_index;
  stamp.target_step = outcome->target_step;
  stamp.admission_version = outcome->admission_version.value;
  stamp.window = outcome->window;
  std::vector<group_ptr> batch;
  for (const group_id group : outcome->groups) {
    auto prompt = reserved_prompts_.extract(group);
    ensure(!prompt.empty(), "an admitted group was reserved here");
    const auto attempt = reserved_attempts_.extract(group);
    batch.push_back(
        make_group(std::move(prompt.mapped()), stamp, attempt.empty() ? 0 : attempt.mapped()));
  }
  for (std::size_t i = 0; i < batch.size() && !enforced(rule::slot_per_group); ++i) {
    auto slot = co_await take_slot(batch[i]); // None starts before all have a place.
    if (!slot) co_return failure(std::move(slot.error()));
  }
  for (const group_ptr& group : batch)
    start(group);
  co_return result<void>();
}

task<result<message<AdmissionOpened>>> rollout::gate_open(std::uint64_t admission) {
  AwaitAdmissionT wait;
  wait.admission = admission;
  auto request = pack(wait);
  auto opened = co_await peers_.sampler.ask(request, within(options_.gate_timeout));
  co_return std::move(opened);
}

task<result<admission_outcome>> rollout::admit(std::uint64_t admission) {
  auto lease = co_await mutations().enter();
  AdmitBatchT want;
  want.admission = admission;
  auto request = pack(want);
  auto admitted = co_await peers_.sampler.ask(lease, request, within(options_.request_timeout));
  if (!admitted) co_return failure(std::move(admitted.error()));
  co_return outcome_of(**admitted);
}

/// Too few prompts are left for a step that is bound to them.
task<result<void>> rollout::drop_remainder(next_supply next) {
  std::vector<std::uint64_t> groups;
  for (const group_id group : state_.reserved_batches().front().groups)
    groups.push_back(group.value);
  auto dropped = co_await shielded(drop(std::move(groups), DropReason::end_of_data));
  if (!dropped) co_return failure(std::move(dropped.error()));
  for (const group_id group : state_.reserved_batches().front().groups)
    reserved_prompts_.erase(group);
  state_.dropped_reserved(next.admission);
  co_return result<void>();
}

void rollout::start(group_ptr group) {
  groups_.spawn(&rollout::run_group, this, group);
}

task<void> rollout::run_group(group_ptr group) {
  const auto moved = [this] { flights_moved(); };
  const end_of_group bookkeeping(state_, group_id(group->prompt.group), group_ended_, moved);
  const group_id id(group->prompt.group);
  auto ended = co_await first_of(finish_group(group), aborted(id));
  aborted_.erase(id);
  auto* const done = std::get_if<0>(&ended);
  if (done != nullptr && !*done) fail(std::move(done->error()));
}

/// Attempts until the group is committed, or its failures say that it is dropped.
task<result<void>> rollout::finish_group(group_ptr group) {
  auto slot = co_await take_slot(group);
  if (!slot) co_return failure(std::move(slot.error()));
  co_await failpoint("rollout.started");
  while (true) {
    co_await take_flight(group);
    const std::size_t generator = co_await take_generator(group);
    const auto limit = within(options_.rollout_timeout);
    auto produced = co_await with_deadline(produce(group, generator), limit);
    if (produced) produced = co_await failpoint("rollout.produced");
    if (produced) {
      auto committed = co_await shielded(commit(group));
      co_return std::move(committed);
    }
    log(log_level::warning,
        "group " + std::to_string(group->prompt.group) + ": " + to_string(produced.error()));
    const FailureKind kind = failure_kind_of(produced.error());
    auto verdict = co_await shielded(record_failure(group, kind));
    if (!verdict) co_return failure(std::move(verdict.error()));
    if (!verdict->found) co_return result<void>();
    if (!verdict->retry) {
      const DropReason reason =
          kind == FailureKind::data ? DropReason::data_failure : DropReason::infra_failure;
      auto dropped = co_await shielded(give_up(group->prompt.group, reason));
      if (!dropped) dropped.error().text += "; its last attempt: " + to_string(produced.error());
      co_return std::move(dropped);
    }
    group->content_attempt = verdict->content_attempt;
    if (kind == FailureKind::infra) group->failed_at = generator;
    state_.end_flight(group_id(group->prompt.group));
    flights_moved();
    co_await failpoint("rollout.backing_off");
    co_await clock().after(std::chrono::nanoseconds(verdict->backoff_ns));
  }
}

/// The version that makes all of its tokens, with pinned weights.
std::optional<std::uint64_t> rollout::pin_of(const rollout_group& group) const {
  if (!options_.pins) return std::nullopt;
  return pinned_version(group.stamp, *options_.pins);
}

/// The group's place in replay, and the earliest version that it may start on: whoever waited for
/// weights in flight would keep others, which make those weights possible, from flying. A wait that
/// times out is asked again, and keeps its turn.
task<result<void>> rollout::take_slot(group_ptr group) {
  auto request = pack(start_of(*group, pin_of(*group)));
  const waiting_time waiting(clock(), counters_->slot_wait_ns);
  while (true) {
    auto granted = co_await peers_.replay.ask(request, within(options_.gate_timeout));
    if (granted) co_return result<void>();
    if (granted.error().code != errc::timed_out) co_return failure(std::move(granted.error()));
  }
}

task<void> rollout::take_flight(group_ptr group) {
  const group_id id(group->prompt.group);
  state_.request_flight(id, group->stamp.dispatch_index);
  flights_moved();
  const waiting_time waiting(clock(), counters_->flight_wait_ns);
  while (!state_.flying(id))
    co_await flights_moved_.raised();
}

void rollout::flights_moved() {
  std::ignore = state_.grant_flights(); // Those who got one look for themselves.
  counters_->groups_in_flight.store(state_.in_flight(), std::memory_order_relaxed);
  flights_moved_.raise();
}

/// Generates, scores and stages every sibling. Holds no lease: a cut never waits for it.
task<result<void>> rollout::produce(group_ptr group, std::size_t generator) {
  group->rollouts.assign(group->siblings, sibling_rollout());
  group->failed.reset();
  tell_begun(group); // Nothing of an attempt before is kept.
  auto generated = co_await generate(group, generator);
  if (!generated) co_return failure(std::move(generated.error()));
  scope scoring;
  for (std::uint32_t sibling = 0; sibling < group->siblings; ++sibling)
    scoring.spawn(&rollout::score_sibling, this, group, sibling);
  co_await scoring.joined();
  if (group->failed) co_return failure(*group->failed);
  auto request = pack(staged_form(*group));
  co_await failpoint("rollout.staging");
  auto staged = co_await peers_.replay.ask(request, within(options_.request_timeout));
  if (!staged) co_return failure(std::move(staged.error()));
  co_return result<void>();
}

task<result<void>> rollout::generate(group_ptr group, std::size_t chosen) {
  const auto generator = peers_.generators[chosen];
  const stay_with_generator stay(health_, chosen);
  abort_unless_finished guard(generator, abort_of(*group));
  auto tokens = open_stream<TokenBatch>(*this, stream_credit);
  auto request = pack(generation_of(*group, options_.max_new_tokens, tokens.id(), pin_of(*group)));
  co_await failpoint("rollout.asking");
  auto accepted = co_await generator.ask(request, within(options_.generation_timeout));
  if (!accepted) co_return failure(std::move(accepted.error()));
  while (!all_finished(*group)) {
    auto item = co_await tokens.next(within(options_.generation_timeout));
    if (!item) co_return failure(std::move(item.error()));
    if (!*item)
      co_return failure(errc::unavailable, "group " + std::to_string(group->prompt.group) +
                                               ": the token stream ended early");
    auto appended = append_tokens(*group, *(**item).operator->());
    if (!appended) co_return failure(std::move(appended.error()));
    if (group->told_start < 0) tell_begun(group);
    health_.saw(chosen, newest_version(*(**item).operator->()));
    co_await failpoint("rollout.generating");
  }
  guard.finished();
  co_return result<void>();
}

task<void> rollout::score_sibling(group_ptr group, std::uint32_t sibling) {
  ScoreCompletionT want;
  want.group = group->prompt.group;
  want.sibling = sibling;
  want.prompt = group->prompt.text;
  want.answer = group->prompt.answer;
  want.completion = codec_.decode(group->rollouts[sibling].tokens);
  const auto& environment = peers_.environments[sibling % peers_.environments.size()];
  auto request = pack(want);
  co_await failpoint("rollout.scoring");
  auto scored = co_await environment.ask(request, within(options_.env_timeout));
  if (scored)
    group->rollouts[sibling].reward = (*scored)->reward();
  else if (!group->failed)
    group->failed = std::move(scored.error());
}

/// Releasing the ledger entry decides; rows without one are thrown away.
task<result<void>> rollout::commit(group_ptr group) {
  auto lease = co_await mutations().enter();
  ReleaseGroupT give;
  give.group = group->prompt.group;
  give.content_attempt = group->content_attempt;
  co_await failpoint("rollout.releasing");
  auto release_request = pack(give);
  auto released =
      co_await peers_.sampler.ask(lease, release_request, within(options_.request_timeout));
  if (!released) co_return failure(std::move(released.error()));
  if (!(*released)->found()) {
    peers_.replay.tell(pack(discard_of(*group)));
    co_return result<void>();
  }
  co_await failpoint("rollout.committing");
  auto commit_request = pack(commit_of(*group, **released));
  auto committed =
      co_await peers_.replay.ask(lease, commit_request, within(options_.request_timeout));
  if (!committed) co_return failure(std::move(committed.error()));
  co_return result<void>();
}

task<result<failure_verdict>> rollout::record_failure(group_ptr group, FailureKind kind) {
  auto lease = co_await mutations().enter();
  RecordFailureT want;
  want.group = group->prompt.group;
  want.kind = kind;
  auto request = pack(want);
  co_await failpoint("rollout.recording");
  auto recorded = co_await peers_.sampler.ask(lease, request, within(options_.request_timeout));
  if (!recorded) co_return failure(std::move(recorded.error()));
  failure_verdict verdict;
  verdict.found = (*recorded)->found();
  verdict.retry = (*recorded)->retry();
  verdict.content_attempt = (*recorded)->content_attempt();
  verdict.backoff_ns = (*recorded)->backoff_ns();
  co_return verdict;
}

task<result<void>> rollout::drop(std::vector<std::uint64_t> groups, DropReason reason) {
  auto lease = co_await mutations().enter();
  DropGroupsT want;
  want.groups = groups;
  want.reason = reason;
  auto request = pack(want);
  auto dropped = co_await peers_.sampler.ask(lease, request, within(options_.request_timeout));
  if (!dropped) co_return failure(std::move(dropped.error()));
  for (const std::uint64_t group : groups) {
    StopGroupT stop;
    stop.group = group;
    peers_.replay.tell(pack(stop));
  }
  counters_->groups_dropped[static_cast<std::size_t>(reason)] += groups.size();
  co_return result<void>();
}

group_ptr rollout::make_group(PromptT prompt, group_stamp stamp,
                              std::uint32_t content_attempt) const {
  auto group = std::make_shared<rollout_group>();
  group->prompt_tokens = codec_.encode(prompt.text);
  group->prompt = std::move(prompt);
  group->stamp = stamp;
  group->content_attempt = content_attempt;
  group->siblings = options_.siblings;
  return group;
}

} // namespace weir
