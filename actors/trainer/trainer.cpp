#include "actors/trainer/trainer.hpp"

#include "actors/rollout/rollout_group.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/completion.hpp"
#include "actors/runtime/failpoint.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

namespace weir {

namespace {

/// `policy/` of a bundle: the captured policy, and the weights of the versions before it.
result<std::vector<dataplane::finished_section>>
write_policies(const learner& policies, const trainer_image& image, const section_target& target) {
  if (!target.link_policy_from.empty()) return {}; // All of it is linked.
  auto written = policies.write(image.policy, target);
  for (const earlier_version& one : image.earlier) {
    if (!written) break;
    auto files = policies.write_version(one.policy, one.version, target);
    if (!files) return files;
    std::ranges::move(*files, std::back_inserter(*written));
  }
  return written;
}

/// Of a save that somebody waits for, where the checkpoint actor dies under it.
constexpr int save_attempts_max = 10;
constexpr std::chrono::milliseconds save_pause(500);

/// Of one sample of the warm-up; a judge that died is back after such a pause.
constexpr std::size_t judgements_max = 5;
constexpr std::chrono::seconds judgement_pause(1);

} // namespace

trainer::trainer(context ctx, trainer_options options, trainer_peers peers, trainer_engine engine,
                 trainer_state state, bool restored, event_sink& events)
    : participant(std::move(ctx), barrier_role::both, events), options_(options),
      peers_(std::move(peers)), engine_(std::move(engine)), state_(std::move(state)),
      restored_(restored), warmed_up_(restored || options.warmup.max_steps == 0),
      supply_(options.watchdog),
      publisher_(clock(), peers_.generators,
                 {.transfer_timeout = options_.weights_timeout, .attendance = options_.attendance},
                 [this](const std::string& text) { log(log_level::warning, text); }) {}

task<void> trainer::run() {
  auto done = co_await train();
  if (!done) fail(std::move(done.error()));
}

task<result<void>> trainer::train() {
  if (!warmed_up_) {
    auto warmed = co_await warm_up();
    if (!warmed) co_return failure(std::move(warmed.error()));
  }
  auto live = co_await publish();
  if (!live) co_return failure(std::move(live.error()));
  std::string reason = "all steps are done";
  // A job that was done already has its bundle: work done ahead is not worth another one.
  const bool nothing_to_do = restored_ && state_.step() >= options_.max_num_steps;
  if (!nothing_to_do) co_await validate_if_due();
  while (state_.step() < options_.max_num_steps) {
    auto trained = co_await train_step();
    if (!trained) co_return failure(std::move(trained.error()));
    if (!*trained) {
      reason = "the data ended";
      break;
    }
  }
  if (!nothing_to_do && options_.validation.at_end) co_await validate();
  if (options_.save && !nothing_to_do) {
    auto saved = co_await save(reason);
    if (!saved)
      co_return failure(saved.error().code,
                        "the job is done (" + reason +
                            "), and its last bundle was not published: " + saved.error().text +
                            "; remove the cause and run the same command");
  }
  RunFinishedT finished;
  finished.steps = state_.step();
  finished.reason = reason;
  auto request = pack(finished);
  auto noted = co_await peers_.observer.ask(request, within(options_.request_timeout));
  std::ignore = noted; // Nobody may be watching; the job is done all the same.
  finish_run();
  co_return result<void>();
}

/// Supervised steps until the policy is worth sampling from. It changes no durable state before its
/// end: a kill in between starts it again, and it makes the same steps.
task<result<void>> trainer::warm_up() {
  policy_ptr policy = state_.capture().policy;
  WarmupAdvancedT progress;
  for (std::uint64_t step = 0; step < options_.warmup.max_steps; ++step) {
    const auto engine = engine_.policy;
    auto work = [engine, policy, step] { return engine->warm_up(policy, step); };
    auto stepped = co_await on_device(std::move(work));
    if (!stepped) co_return failure(std::move(stepped.error()));
    policy = stepped->next;
    auto warming = co_await failpoint("trainer.warming_up");
    if (!warming) co_return failure(std::move(warming.error()));
    progress.step = step + 1;
    progress.loss = static_cast<float>(stepped->report.loss);
    progress.measured =
        (step + 1) % options_.warmup.check_every == 0 && options_.warmup.stop_at_reward.has_value();
    if (progress.measured) {
      auto reward = co_await measure(policy);
      if (!reward) co_return failure(std::move(reward.error()));
      progress.reward = static_cast<float>(*reward);
      progress.finished = *reward >= *options_.warmup.stop_at_reward;
    }
    progress.finished |= step + 1 == options_.warmup.max_steps;
    peers_.observer.tell(pack(progress));
    if (progress.finished) break;
  }
  auto adopted = state_.adopt(engine_.policy->start_of_job(policy));
  if (!adopted) co_return failure(std::move(adopted.error()));
  warmed_up_ = true;
  mutated();
  if (!options_.save) co_return result<void>();
  auto saved = co_await save("the warm-up ended");
  if (!saved)
    log(log_level::error,
        "the warm-up is in no bundle, a restart repeats it: " + to_string(saved.error()));
  co_return result<void>();
}

/// Mean reward of the policy's own completions, by the environment of the job. One that is at fault
/// itself is left out: in the job it would be a failure of its prompt.
task<result<double>> trainer::measure(policy_ptr policy) {
  const auto engine = engine_.policy;
  auto work = [engine, policy] { return engine->sample(policy); };
  auto samples = co_await on_device(std::move(work));
  if (!samples) co_return failure(std::move(samples.error()));
  double sum = 0.0;
  std::size_t scored_samples = 0;
  std::optional<error> last;
  for (std::size_t i = 0; i < samples->size(); ++i) {
    auto scored = co_await judge((*samples)[i], i);
    if (scored) {
      sum += *scored;
      ++scored_samples;
    } else {
      log(log_level::warning,
          "a sample of the warm-up has no reward: " + to_string(scored.error()));
      last = std::move(scored.error());
    }
  }
  if (scored_samples == 0 && last) co_return failure(std::move(*last));
  co_return scored_samples == 0 ? 0.0 : sum / static_cast<double>(scored_samples);
}

/// A judge that dies, or is slow, says nothing of the sample: it, or the next one, is asked again.
/// Leaving the sample out would favour those that do not kill their judges.
task<result<double>> trainer::judge(warmup_sample sample, std::size_t place) {
  ScoreCompletionT want;
  want.prompt = sample.prompt;
  want.answer = sample.answer;
  want.completion = sample.completion;
  const auto request = pack(want);
  for (std::size_t attempt = 1;; ++attempt) {
    const std::size_t chosen = (place + attempt - 1) % peers_.environments.size();
    auto scored = co_await peers_.environments[chosen].ask(request, within(options_.env_timeout));
    if (scored) co_return static_cast<double>((*scored)->reward());
    const bool at_fault = failure_kind_of(scored.error()) == FailureKind::data;
    if (at_fault || attempt == judgements_max) co_return failure(std::move(scored.error()));
    co_await clock().after(judgement_pause);
  }
}

/// One step of the job; false when the data ended.
task<result<bool>> trainer::train_step() {
  facts_ = {};
  facts_.version = state_.version();
  auto whole = co_await train_chunks();
  if (!whole) co_return failure(std::move(whole.error()));
  if (!*whole) co_return false;
  const std::uint64_t step = state_.step();
  const std::int64_t began = clock().now();
  const auto engine = engine_.policy;
  auto finish = [engine] { return engine->finish_step(); };
  auto stepped = co_await on_device(std::move(finish));
  if (!stepped) co_return failure(std::move(stepped.error()));
  facts_.trained_ns += clock().now() - began;
  auto learned = co_await failpoint("trainer.learned");
  if (!learned) co_return failure(std::move(learned.error()));
  if (auto set_aside = state_.prepare(step, stepped->next); !set_aside)
    co_return failure(std::move(set_aside.error()));
  const bool last = step + 1 == options_.max_num_steps;
  const bool save =
      options_.save && !last && options_.save_period > 0 && (step + 1) % options_.save_period == 0;
  auto cut = co_await await_cut();
  if (!cut) co_return failure(std::move(cut.error()));
  step_reward_ = facts_.mean_reward();
  const bool save_later = save && kept_by_validation() && validation_due(step + 1);
  auto consumed = co_await shielded(consume(step, save && !save_later));
  if (!consumed) co_return failure(std::move(consumed.error()));
  auto unpublished = co_await failpoint("trainer.consumed");
  if (!unpublished) co_return failure(std::move(unpublished.error()));
  auto live = co_await publish();
  if (!live) co_return failure(std::move(live.error()));
  tell_step(stepped->report);
  co_await validate_if_due();
  if (save_later) request_save(step + 1);
  co_return true;
}

/// Gradients of the open step, chunk by chunk as groups become ready, until it has all groups that
/// it will get; false when the data ended. Nothing is consumed before the whole step is.
task<result<bool>> trainer::train_chunks() {
  const auto engine = engine_.policy;
  const policy_ptr before = state_.capture().policy;
  auto begin = [engine, before] { return engine->begin_step(before); };
  auto begun = co_await on_device(std::move(begin));
  if (!begun) co_return failure(std::move(begun.error()));
  while (true) {
    const std::int64_t asked = clock().now();
    auto next = co_await next_chunk();
    if (!next) co_return failure(std::move(next.error()));
    if (!*next) co_return false;
    if ((*next)->empty()) co_return true;
    const auto chunk = std::make_shared<const batch>(std::move(**next));
    const std::int64_t got = clock().now();
    auto add = [engine, chunk] { return engine->add_groups(*chunk); };
    auto added = co_await on_device(std::move(add));
    if (!added) co_return failure(std::move(added.error()));
    facts_.add(*chunk);
    facts_.waited_ns += got - asked;
    facts_.trained_ns += clock().now() - got;
  }
}

/// The next groups of the step, claimed: none once it has as many as its target, nothing when the
/// data ended. The target is read again after every wait: a group that was dropped meanwhile
/// shrinks the step.
task<result<std::optional<trainer::batch>>> trainer::next_chunk() {
  std::optional<error> hopeless; // Of so many groups that the step lacks.
  std::uint64_t lacked = 0;
  while (true) {
    ReadTargetT target;
    target.step = state_.step();
    auto target_request = pack(target);
    auto needed = co_await peers_.sampler.ask(target_request, within(options_.request_timeout));
    if (!needed) co_return failure(std::move(needed.error()));
    if ((*needed)->groups() <= facts_.groups) co_return std::optional<batch>(std::in_place);
    const std::uint64_t lacking = (*needed)->groups() - facts_.groups;
    if (hopeless && lacking >= lacked) co_return failure(std::move(*hopeless));
    co_await failpoint("trainer.target_read");
    const std::uint64_t least = std::min(lacking, options_.groups_per_chunk_min);
    if (auto fed = watch_supply(text_of((*needed)->shut_gate()), lacking); !fed)
      co_return failure(std::move(fed.error()));
    AwaitBatchT wait;
    wait.step = state_.step();
    wait.version = state_.version().value;
    wait.groups = lacking;
    wait.groups_min = least;
    auto wait_request = pack(wait);
    auto ready = co_await peers_.replay.ask(wait_request, within(batch_patience()));
    if (!ready && ready.error().code == errc::timed_out) continue; // Look at the target again.
    if (!ready && ready.error().code == errc::exhausted) {
      // Of a target that may be old: its last group was dropped while we asked.
      hopeless = std::move(ready.error());
      lacked = lacking;
      continue;
    }
    if (!ready) co_return failure(std::move(ready.error()));
    if ((*ready)->end_of_data()) co_return std::optional<batch>();
    if ((*ready)->available() < least) continue; // A group was given up: as above.
    auto claimed = co_await shielded(claim(least, lacking));
    if (!claimed) co_return failure(std::move(claimed.error()));
    if (claimed->empty()) continue;
    supply_.fed();
    co_return std::optional<batch>(std::move(*claimed));
  }
}

/// A step that nothing can fill ends the run, or is warned of: as the watchdog shall.
result<void> trainer::watch_supply(const std::string& shut_gate, std::uint64_t lacking) {
  auto fed = supply_.waits(state_.step(), lacking, shut_gate, clock().now());
  if (fed || options_.watchdog.action == stall_action::abort) return fed;
  log(log_level::warning, to_string(fed.error()));
  return {};
}

std::chrono::nanoseconds trainer::batch_patience() const {
  return std::min(options_.batch_timeout, options_.watchdog.interval);
}

task<result<trainer::batch>> trainer::claim(std::uint64_t groups_min, std::uint64_t groups) {
  auto lease = co_await mutations().enter();
  ClaimBatchT want;
  want.step = state_.step();
  want.version = state_.version().value;
  want.groups = groups;
  want.groups_min = groups_min;
  auto request = pack(want);
  auto claimed = co_await peers_.replay.ask(lease, request, within(options_.request_timeout));
  if (!claimed) co_return failure(std::move(claimed.error()));
  batch taken;
  if ((*claimed)->groups() != nullptr) {
    for (const auto* group : *(*claimed)->groups()) {
      ClaimedGroupT one;
      group->UnPackTo(&one);
      taken.push_back(std::move(one));
    }
  }
  co_return taken;
}

/// The consume lease [S]: captured state, groups and shortfall move together, or a cut in between
/// would train a batch twice or lose it.
task<result<void>> trainer::consume(std::uint64_t step, bool save) {
  const bool inside = enforced(rule::captured_in_consume_lease);
  if (auto switched = inside ? result<void>() : switch_captured(step); !switched)
    co_return switched;
  auto lease = co_await mutations().enter();
  if (auto switched = inside ? switch_captured(step) : result<void>(); !switched)
    co_return switched;
  co_await failpoint("trainer.consuming");
  ConsumeBatchT batch_of;
  batch_of.step = step;
  auto consume_request = pack(batch_of);
  auto consumed =
      co_await peers_.replay.ask(lease, consume_request, within(options_.request_timeout));
  if (!consumed) co_return failure(std::move(consumed.error()));
  facts_.evicted = (*consumed)->evicted();
  SettleStepT settle;
  settle.step = step;
  auto settle_request = pack(settle);
  auto settled =
      co_await peers_.sampler.ask(lease, settle_request, within(options_.request_timeout));
  if (!settled) co_return failure(std::move(settled.error()));
  facts_.dropped = (*settled)->dropped();
  if (save) request_save(step + 1);
  co_return result<void>();
}

/// Asks for the bundle of the state after `step` steps. No later step is consumed before its cut.
void trainer::request_save(std::uint64_t step) {
  PeriodicCheckpointT due;
  due.step = step;
  const auto metric = metric_of(step);
  due.metric = metric.value_or(0.0);
  due.has_metric = metric.has_value();
  peers_.checkpoint.tell(pack(due));
  uncut_save_ = step;
}

/// The captured state is the one after `step` from here on.
result<void> trainer::switch_captured(std::uint64_t step) {
  auto version = state_.consume(step, events());
  if (!version) return failure(std::move(version.error()));
  mutated();
  return {};
}

/// Gives the captured weights, and the earlier ones that pinned groups may name, to the generators.
/// The version is live once all that serve have it.
task<result<void>> trainer::publish() {
  const weight_version version = state_.version();
  const bool once_live = enforced(rule::version_live_on_every_generator);
  if (!once_live) announce(version);
  auto live = co_await publisher_.publish(published_versions());
  if (!live) co_return failure(std::move(live.error()));
  if (auto noted = state_.published(version); !noted) co_return failure(std::move(noted.error()));
  if (once_live) announce(version);
  co_return result<void>();
}

std::vector<published_version> trainer::published_versions() const {
  const trainer_image& image = state_.capture();
  std::vector<published_version> versions;
  const auto add = [&](weight_version version, const policy_ptr& policy) {
    UpdateWeightsT update;
    update.version = version.value;
    versions.push_back({version, pack(update, {engine_.policy->publish(policy)})});
  };
  for (const earlier_version& one : image.earlier)
    add(one.version, one.policy);
  add(image.version, image.policy);
  return versions;
}

/// From here on the gate and replay's eviction count with `version`.
void trainer::announce(weight_version version) {
  VersionLiveT live;
  live.version = version.value;
  peers_.sampler.tell(pack(live));
  VersionMovedT moved;
  moved.version = version.value;
  peers_.replay.tell(pack(moved));
}

task<result<void>> trainer::save(std::string reason) {
  RequestCheckpointT want;
  want.reason = reason;
  want.step = static_cast<std::int64_t>(state_.step());
  const auto metric = metric_of(state_.step());
  want.metric = metric.value_or(0.0);
  want.has_metric = metric.has_value();
  auto request = pack(want);
  for (int attempt = 1;; ++attempt) {
    auto published = co_await peers_.checkpoint.ask(request, within(options_.save_timeout));
    if (published) co_return result<void>();
    // It died before it answered, and is restarted in place.
    const bool again = published.error().code == errc::unavailable && attempt < save_attempts_max;
    if (!again) co_return failure(std::move(published.error()));
    co_await clock().after(save_pause);
  }
}

/// Before a step is consumed: the save of an earlier step must be cut, or its bundle would hold a
/// later step. A checkpoint that takes too long is asked for again, and in the end nobody waits for
/// it; the run goes on.
task<result<void>> trainer::await_cut() {
  if (!uncut_save_) co_return result<void>();
  const auto wanted = static_cast<std::int64_t>(*uncut_save_);
  const std::int64_t last = clock().now() + options_.save_timeout.count();
  auto cut = co_await with_deadline(cut_reached(wanted), within(options_.save_again));
  while (!cut && clock().now() < last) {
    request_save(*uncut_save_);
    cut = co_await with_deadline(cut_reached(wanted), within(options_.save_again));
  }
  if (!cut)
    log(log_level::warning, "the save of step " + std::to_string(wanted) + " was not cut in time");
  uncut_save_.reset();
  co_return result<void>();
}

task<void> trainer::cut_reached(std::int64_t step) {
  while (captured_step() < step)
    co_await cut_happened().raised();
}

/// Runs `work` on the device's stream and comes back on the actor's turn.
template <class Work>
task<std::invoke_result_t<Work>> trainer::on_device(Work work) {
  using outcome = std::invoke_result_t<Work>;
  auto done = make_completion<outcome>();
  auto setter = done.setter();
  auto job = [work = std::move(work), setter] { setter.set(work()); };
  auto submitted = engine_.device->submit(std::move(job), [] {});
  if (!submitted) co_return failure(std::move(submitted.error()));
  auto finished = co_await done.wait();
  if (!finished) co_return failure(std::move(finished.error()));
  co_return std::move(*finished);
}

result<void> trainer::capturable() const {
  if (warmed_up_) return {};
  return failure(errc::conflict, "the supervised warm-up is not finished; it starts over instead");
}

captured_section trainer::capture() {
  captured_section section;
  section.sequence = events().newest();
  trainer_image image = state_.capture();
  if (!enforced(rule::earlier_versions_in_bundles)) image.earlier.clear();
  section.trainer_step = static_cast<std::int64_t>(image.step);
  const auto engine = engine_.policy;
  section.write = [image = std::move(image), engine](const section_target& target) {
    return write_policies(*engine, image, target);
  };
  return section;
}

void trainer::tell_step(const learning_report& report) {
  StepFinishedT told;
  told.step = state_.step();
  told.version = state_.version().value;
  told.groups = facts_.groups;
  told.reward = static_cast<float>(facts_.mean_reward());
  told.loss = static_cast<float>(report.loss);
  told.grad_norm = static_cast<float>(report.grad_norm);
  told.tokens = report.tokens;
  told.masked_tokens = report.masked_tokens;
  told.lag_mean = facts_.mean_lag();
  told.staleness = facts_.staleness;
  told.chunks = facts_.chunks;
  told.kl = static_cast<float>(report.kl);
  told.clip_fraction = static_cast<float>(report.clip_fraction);
  told.train_ns = static_cast<std::uint64_t>(facts_.trained_ns);
  told.waited_ns = static_cast<std::uint64_t>(facts_.waited_ns);
  told.evicted = facts_.evicted;
  told.dropped = facts_.dropped;
  peers_.observer.tell(pack(told));
}

} // namespace weir
