#include "actors/checkpoint/checkpoint.hpp"

#include "actors/checkpoint/balance.hpp"
#include "actors/checkpoint/participant.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/fail_run.hpp"
#include "actors/runtime/offload.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

namespace weir {

namespace {

/// What an owner said of its part, or why it cannot be understood.
result<captured_report> report_of(const Captured& answer) {
  captured_report report;
  report.sequence = sequence_number(answer.sequence());
  report.tainted = answer.tainted();
  report.mutations = answer.mutations();
  report.trainer_step = answer.trainer_step();
  if (answer.tallies() == nullptr) return report;
  for (const auto* tally : *answer.tallies()) {
    const std::string state = text_of(tally->state());
    auto added = add_tally(report.tallies, state, tally_from(tally->count(), tally->sum()));
    if (!added) return failure(std::move(added.error()));
  }
  return report;
}

/// "; origin reader of the graph is not in its list" for each difference; empty without one.
std::string differences(const std::string& role, const std::vector<std::string>& in_graph,
                        const std::vector<std::string>& in_list) {
  std::string text;
  for (const std::string& name : in_graph) {
    if (std::ranges::find(in_list, name) == in_list.end())
      text += "; " + role + " " + name + " of the graph is not in its list";
  }
  for (const std::string& name : in_list) {
    if (std::ranges::find(in_graph, name) == in_graph.end())
      text += "; " + name + " is in its list, and no " + role + " of the graph is called so";
  }
  return text;
}

std::int64_t nanoseconds(std::chrono::nanoseconds duration) {
  return duration.count();
}

} // namespace

checkpoint::checkpoint(context ctx, checkpoint_options options, checkpoint_peers peers,
                       checkpoint_services services)
    : actor(ctx), options_(std::move(options)), peers_(std::move(peers)), self_(std::move(ctx)),
      services_(std::move(services)), number_(++services_.lives->begun),
      barrier_(options_.barrier, life(), number_, peers_.origins, peers_.owners,
               options_.restored && number_ == 1),
      schedule_(options_.schedule, clock().now()), fenced_(number_ == 1) {
  if (!services_.lives->events) services_.lives->events.emplace(*services_.log, name());
  serve(&checkpoint::on_request);
  serve(&checkpoint::on_periodic);
}

task<void> checkpoint::run() {
  constexpr std::chrono::nanoseconds idle = std::chrono::seconds(60);
  if (auto found = find_participants(); !found) {
    fail_run(self_, std::move(found.error())); // Another life would not find them either.
    co_return;
  }
  if (!fenced_) children().spawn(&checkpoint::abort_earlier_life, this);
  hurry_if_awaited(); // The life before may have told the pool otherwise.
  while (true) {
    std::int64_t next = now() + nanoseconds(idle);
    next = std::min(next, barrier_.deadline().value_or(next));
    next = std::min(next, schedule_.next_tick().value_or(next));
    next = std::min(next, late_at_.value_or(next));
    const auto rest = std::chrono::nanoseconds(std::max<std::int64_t>(next - now(), 0));
    auto woken = co_await first_of(wait_for_change(), sleep(rest));
    std::ignore = woken; // Either way the deadlines are looked at again.
    const auto reports = lease_reports();
    perform(barrier_.tick(now(), reports));
    schedule(schedule_.tick(now()));
    hurry_if_awaited();
  }
}

result<void> checkpoint::check_graph(const graph_roster& all) const {
  const std::string differing = differences("origin", all.origins, peers_.origins) +
                                differences("owner", all.owners, peers_.owners);
  if (!differing.empty())
    return failure(errc::invalid_argument, "no cut of its barrier would be whole" + differing);
  if (all.owners.empty())
    return failure(errc::invalid_argument, "the graph has no owner: a cut would hold nothing");
  return {};
}

result<void> checkpoint::find_participants() {
  for (const std::string& name : peers_.origins) {
    const auto found = self_.find<origin_protocol>(name);
    if (!found)
      return failure(errc::not_found, "the barrier's origin " + name + " is not in the graph");
    origins_.emplace(name, found);
  }
  for (const std::string& name : peers_.owners) {
    const auto found = self_.find<owner_protocol>(name);
    if (!found)
      return failure(errc::not_found, "the barrier's owner " + name + " is not in the graph");
    owners_.emplace(name, found);
  }
  return {};
}

/// Gates that are closed for an epoch of the life before open, and its captures are dropped: nobody
/// waits for the hold limit. An epoch without a number is above all of that life, and below ours.
task<void> checkpoint::abort_earlier_life() {
  const epoch_id above{life().value, number_, 0};
  AbortEpochT note;
  note.epoch = wire_epoch(above);
  const auto told = pack(note);
  for (const auto& [name, origin] : origins_)
    origin.tell(told);
  for (const auto& [name, owner] : owners_)
    if (!origins_.contains(name)) owner.tell(told);
  const auto store = services_.store;
  auto work = [store, above] { return store->fence(above); };
  auto published = co_await offload_in_background(std::move(work));
  if (published) log_published(*published);
  fenced_ = true;
  fence_raised_.raise();
}

/// Every bundle of this incarnation once, whichever life published it.
void checkpoint::log_published(const published_event& what) {
  if (what.epoch <= services_.lives->newest_logged) return;
  services_.lives->newest_logged = what.epoch;
  services_.lives->events->append(what);
}

task<void> checkpoint::wait_for_change() {
  co_await changed_.raised();
}
task<void> checkpoint::sleep(std::chrono::nanoseconds rest) {
  co_await clock().after(rest);
}

task<checkpoint::published_reply> checkpoint::on_request(message<RequestCheckpoint> request) {
  if (request->has_metric()) metric_ = request->metric();
  const request_ticket mine = issue(ticket{text_of(request->reason()), true, true, std::nullopt});
  while (!tickets_.at(mine.value).answer)
    co_await answered_.raised();
  auto answer = std::move(*tickets_.at(mine.value).answer);
  tickets_.erase(mine.value);
  if (!answer) co_return failure(std::move(answer.error()));
  co_return pack(*answer);
}

task<void> checkpoint::on_periodic(message<PeriodicCheckpoint> note) {
  metric_ = note->has_metric() ? std::optional(note->metric()) : std::nullopt;
  // Nobody waits; a failure is logged.
  std::ignore = issue(ticket{"every save_period steps", false, false, std::nullopt});
  co_return;
}

request_ticket checkpoint::issue(ticket request) {
  const request_ticket mine{next_ticket_++};
  tickets_.emplace(mine.value, std::move(request));
  perform(barrier_.request(now(), mine));
  return mine;
}

void checkpoint::schedule(save_reason reason) {
  if (reason == save_reason::none) return;
  scheduled_ = request_ticket{next_ticket_}; // `settle` tells the schedule, maybe at once.
  const bool urgent = reason >= save_reason::last_step;
  std::ignore = issue(ticket{std::string(to_string(reason)), false, urgent, std::nullopt});
}

bool checkpoint::is_urgent() const {
  return std::ranges::any_of(
      tickets_, [](const auto& one) { return one.second.urgent && !one.second.answer; });
}

void checkpoint::perform(const barrier_effects& effects) {
  for (const barrier_effect& effect : effects)
    perform_one(effect);
  hurry_if_awaited();
  changed_.raise();
}

/// A bundle is written at leisure while nobody waits for it: nobody who asked, not the next
/// checkpoint, and not its own deadline; nor for the end of one that failed already.
void checkpoint::hurry_if_awaited() {
  if (late_at_ && now() >= *late_at_) {
    late_at_.reset();
    pressed_ = true;
  }
  const bool due = barrier_.has_waiting() || schedule_.waiting() >= save_reason::last_step;
  const bool awaited = is_urgent() || due || pressed_;
  if (hurried_ == awaited) return;
  hurried_ = awaited;
  env().pool(work_class::background).hurry(awaited);
}

void checkpoint::perform_one(const barrier_effect& effect) {
  if (const auto* first = std::get_if<send_announce>(&effect)) {
    conversations_.spawn(&checkpoint::announce, this, *first);
  } else if (const auto* ask = std::get_if<send_quiesce>(&effect)) {
    conversations_.spawn(&checkpoint::quiesce, this, *ask);
  } else if (const auto* take = std::get_if<send_cut>(&effect)) {
    conversations_.spawn(&checkpoint::cut, this, *take);
  } else if (const auto* open = std::get_if<send_resume>(&effect)) {
    conversations_.spawn(&checkpoint::resume, this, *open);
  } else if (const auto* stop = std::get_if<send_abort>(&effect)) {
    AbortEpochT note;
    note.epoch = wire_epoch(stop->epoch);
    if (const auto origin = origins_.find(stop->to); origin != origins_.end())
      origin->second.tell(pack(note));
    else
      owners_.at(stop->to).tell(pack(note));
  } else if (const auto* release = std::get_if<send_release>(&effect)) {
    ReleaseCaptureT note;
    note.epoch = wire_epoch(release->epoch);
    owners_.at(release->to).tell(pack(note));
  } else if (const auto* ready = std::get_if<publish_cut>(&effect)) {
    conversations_.spawn(&checkpoint::publish, this, ready->cut);
  } else if (const auto* done = std::get_if<answer_published>(&effect)) {
    settle(done->tickets, services_.lives->newest.value_or(CheckpointPublishedT()));
  } else if (const auto* refused = std::get_if<answer_refused>(&effect)) {
    log(log_level::error, "no bundle: " + to_string(refused->why));
    if (services_.record_failure) services_.record_failure(refused->why);
    settle(refused->tickets, failure(refused->why));
  } else if (const auto* end = std::get_if<end_run>(&effect)) {
    fail_run(self_, end->why); // Another life of this actor would find the same state.
  }
}

/// Answers those who wait, and tells the schedule how its save ended.
void checkpoint::settle(const std::vector<request_ticket>& tickets,
                        const result<CheckpointPublishedT>& answer) {
  for (const request_ticket& one : tickets) {
    const auto place = tickets_.find(one.value);
    if (place == tickets_.end()) continue;
    if (place->second.awaited)
      place->second.answer = answer;
    else
      tickets_.erase(place);
  }
  answered_.raise();
  // A save that began before the schedule asked does not hold what the schedule wants saved.
  if (!scheduled_ || std::ranges::find(tickets, *scheduled_) == tickets.end()) return;
  scheduled_.reset();
  schedule(answer ? schedule_.published(now()) : schedule_.failed(now()));
  if (schedule_.stop() == stop_reason::none) return;
  if (answer)
    finish_run();
  else // No other life has time left.
    fail_run(self_,
             {errc::exhausted, "the time to save by has come, and no bundle was published: " +
                                   to_string(answer.error()) +
                                   "; remove the cause and run the same command"});
}

task<void> checkpoint::announce(send_announce what) {
  AnnounceT want;
  want.epoch = wire_epoch(what.epoch);
  const auto request = pack(want);
  const auto patience = within(std::chrono::nanoseconds(options_.barrier.quiesce_timeout_ns));
  if (origins_.contains(what.to)) {
    const auto origin = origins_.at(what.to);
    const auto answer = co_await origin.ask(request, patience);
    std::ignore = answer; // A failure comes again, with the question that matters.
  } else {
    const auto owner = owners_.at(what.to);
    const auto answer = co_await owner.ask(request, patience);
    std::ignore = answer;
  }
  perform(barrier_.announced(now(), what.to, what.epoch));
}

task<void> checkpoint::quiesce(send_quiesce what) {
  QuiesceT want;
  want.epoch = wire_epoch(what.epoch);
  want.hold_limit_ns = static_cast<std::uint64_t>(what.hold_limit_ns);
  want.answer_within_ns = static_cast<std::uint64_t>(options_.barrier.quiesce_timeout_ns / 10 * 9);
  auto request = pack(want);
  const auto origin = origins_.at(what.to);
  const std::chrono::nanoseconds patience(options_.barrier.quiesce_timeout_ns * 2);
  auto answer = co_await origin.ask(request, within(patience));
  if (answer)
    perform(barrier_.quiesced(now(), what.to, epoch_of((*answer)->epoch())));
  else if (answer.error().code != errc::timed_out)
    perform(barrier_.failed(now(), what.to, what.epoch, answer.error()));
}

task<void> checkpoint::cut(send_cut what) {
  CutT want;
  want.epoch = wire_epoch(what.epoch);
  auto request = pack(want);
  const auto owner = owners_.at(what.to);
  const std::chrono::nanoseconds patience(options_.barrier.capture_timeout_ns * 2);
  auto answer = co_await owner.ask(request, within(patience));
  if (!answer && answer.error().code == errc::timed_out)
    co_return; // The barrier has its own deadline, and gives up by itself.
  result<captured_report> report = answer ? report_of(**answer) : failure(answer.error());
  if (report)
    perform(barrier_.captured(now(), what.to, epoch_of((*answer)->epoch()), *report));
  else
    perform(barrier_.failed(now(), what.to, what.epoch, report.error()));
}

task<void> checkpoint::resume(send_resume what) {
  ResumeT want;
  want.epoch = wire_epoch(what.epoch);
  auto request = pack(want);
  const auto origin = origins_.at(what.to);
  const std::chrono::nanoseconds patience(options_.barrier.resume_timeout_ns * 2);
  auto answer = co_await origin.ask(request, within(patience));
  if (answer)
    perform(barrier_.resumed(now(), what.to, epoch_of((*answer)->epoch()), (*answer)->held()));
  else if (answer.error().code != errc::timed_out)
    perform(barrier_.failed(now(), what.to, what.epoch, answer.error()));
}

/// Off the barrier: gates are open, generation never stopped, owners go on mutating.
task<void> checkpoint::publish(cut_facts cut) {
  const std::uint64_t tokens_before = services_.counters->tokens_generated.load();
  late_at_ = now() + nanoseconds(options_.write_timeout / 2);
  auto published = co_await write_and_publish(cut);
  late_at_.reset();
  pressed_ = false;
  if (!published) {
    perform(barrier_.publish_failed(now(), cut.epoch, published.error()));
    co_return;
  }
  services_.lives->newest = *published;
  peers_.observer.tell(pack(*published));
  if (services_.record) {
    checkpoint_record record;
    record.published = *published;
    record.tokens_while_writing = services_.counters->tokens_generated.load() - tokens_before;
    services_.record(record);
  }
  perform(barrier_.published(now(), cut.epoch));
  co_await retire();
}

task<result<CheckpointPublishedT>> checkpoint::write_and_publish(cut_facts cut) {
  const std::int64_t began = now();
  while (!fenced_) // Bundles are logged in the order in which they are published.
    co_await fence_raised_.raised();
  const auto store = services_.store;
  const auto events = services_.log;
  const auto metric = metric_;
  services_.lives->events->append(cut_event{cut.epoch, cut.owners, cut.tallies});
  auto make_directory = [store, cut, metric] { return store->begin(cut, metric); };
  auto bundle = co_await offload_in_background(std::move(make_directory));
  if (!bundle) co_return failure(std::move(bundle.error()));
  auto written = co_await write_sections(*bundle);
  if (!written) co_return failure(std::move(written.error()));
  const auto unfinished = *bundle;
  auto finish = [store, events, unfinished]() -> result<published_bundle> {
    if (auto durable = events->sync(); !durable) {
      store->discard(*unfinished);
      return failure(std::move(durable.error()));
    }
    return store->publish(*unfinished);
  };
  auto published = co_await offload_in_background(std::move(finish));
  if (!published) co_return failure(std::move(published.error()));
  log_published({published->name, cut.epoch, published->parent});
  if (published->pointer_failure)
    log(log_level::warning, published->name + " is published, but `latest` does not name it: " +
                                to_string(*published->pointer_failure));
  CheckpointPublishedT done;
  done.bundle = published->name;
  done.step = static_cast<std::uint64_t>(cut.trainer_step);
  done.hold_ns = static_cast<std::uint64_t>(cut.timings.hold_ns);
  done.drain_ns = static_cast<std::uint64_t>(cut.timings.drain_ns);
  done.capture_ns = static_cast<std::uint64_t>(cut.timings.capture_ns);
  done.write_ns = static_cast<std::uint64_t>(now() - began);
  done.bytes = published->bytes;
  co_return done;
}

/// All owners write side by side; the first failure fails the bundle once all have ended.
task<result<void>> checkpoint::write_sections(std::shared_ptr<unfinished_bundle> bundle) {
  scope writing;
  for (const std::string& owner : peers_.owners)
    writing.spawn(&checkpoint::write_section, this, bundle, owner);
  co_await writing.joined();
  if (!bundle->failed) co_return result<void>();
  const auto store = services_.store;
  auto discard = [store, bundle] {
    store->discard(*bundle);
    return true;
  };
  auto discarded = co_await offload_in_background(std::move(discard));
  std::ignore = discarded; // What is left behind, the next restore removes.
  co_return failure(*bundle->failed);
}

task<void> checkpoint::write_section(std::shared_ptr<unfinished_bundle> bundle, std::string owner) {
  WriteSectionT want;
  want.epoch = wire_epoch(bundle->cut.epoch);
  want.directory = bundle->writer.directory();
  want.link_policy_from = bundle->policy_from;
  auto request = pack(want);
  const auto writer = owners_.at(owner);
  auto written = co_await writer.ask(request, within(options_.write_timeout));
  if (!written) {
    if (!bundle->failed) bundle->failed = std::move(written.error());
    pressed_ = true;
    hurry_if_awaited();
    co_return;
  }
  for (flatbuffers::uoffset_t i = 0;
       (*written)->files() != nullptr && i < (*written)->files()->size(); ++i) {
    auto added = bundle->writer.add(section_from(*(*written)->files()->Get(i), bundle->cut.epoch));
    if (!added && !bundle->failed) bundle->failed = std::move(added.error());
  }
}

/// One at a time, however slow: the pool's other threads stay free for the next bundle.
task<void> checkpoint::retire() {
  retire_due_ = true;
  if (std::exchange(retiring_, true)) co_return;
  const auto store = services_.store;
  while (std::exchange(retire_due_, false)) {
    auto work = [store] { return store->retire(); };
    auto retired = co_await offload_in_background(std::move(work));
    if (!retired)
      log(log_level::warning, "older bundles were not removed: " + to_string(retired.error()));
  }
  retiring_ = false;
}

/// Those who did not answer at all. An origin that is merely held up by a lease has named it in its
/// answer before the barrier's deadline.
std::vector<lease_report> checkpoint::lease_reports() const {
  std::vector<lease_report> reports;
  for (const std::string& participant : barrier_.unanswered())
    reports.push_back({participant, ""});
  return reports;
}

} // namespace weir
