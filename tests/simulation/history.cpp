#include "tests/simulation/history.hpp"

#include "tests/simulation/scripted_tokens.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::sim {

namespace {

/// Nobody waits for ever: a life has this many steps, and this much virtual time.
constexpr std::uint64_t life_steps_max = 1'000'000;
constexpr std::chrono::hours life_time_max(6);
/// After the end of a job: for retired bundles to be removed, for notes to arrive.
constexpr std::uint64_t settling_steps_max = 20'000;

} // namespace

const sampler_choice& history::sampler_now() const {
  const auto& later = plan_.later_samplers;
  if (crashes_ == 0 || later.empty()) return plan_.sampler;
  return later[std::min<std::size_t>(crashes_ - 1, later.size() - 1)];
}

result<void> history::run(const std::vector<crash_point>& crashes) {
  while (true) {
    const bool spent = crashes_ >= crashes.size();
    const auto next = spent ? std::nullopt : std::optional(crashes[crashes_]);
    auto ended = live(next);
    if (!ended)
      return failure(ended.error().code,
                     "life " + std::to_string(lives_) + ": " + to_string(ended.error()));
    if (*ended == life_end::done) break;
    crash(*next);
  }
  world unused;
  return look_at_the_end(disk_, request_of(plan_, job_in(plan_, unused)), final_);
}

main_job history::job_in(const run_plan& plan, world& env) const {
  main_job job = tiny_job(plan, sampler_now(), env, seen_);
  if (hooks_.adjust) hooks_.adjust(job);
  return job;
}

void history::crash(const crash_point& how) {
  if (how.kind == crash_kind::power)
    disk_.lose_power(how.power_seed);
  else
    disk_.lose_process();
  for (const char letter : disk_.fingerprint())
    hash_ = chained(hash_, static_cast<unsigned char>(letter));
  ++crashes_;
  if (hooks_.after_crash) hooks_.after_crash(disk_);
}

/// One life, from taking the directory to its end. What it held is gone afterwards.
result<life_end> history::live(const std::optional<crash_point>& crash) {
  ++lives_;
  log_.clear();
  *seen_ = observed();
  const std::uint64_t calls_before = disk_.calls();
  if (crash && crash->at_disk_call) disk_.die_at(calls_before + *crash->at_disk_call);
  simulation_options options;
  options.seed = chained(plan_.seed, lives_);
  options.step_cost = plan_.step_cost;
  options.job_delay_max = plan_.job_delay;
  options.storage = &disk_;
  options.log = [this](log_level level, std::string_view actor, std::string_view text) {
    if (level < log_level::warning) return;
    log_.append("  ").append(actor).append(": ").append(text).append("\n");
  };
  simulation around(std::move(options));
  auto ended = live_in(around, crash);
  if (disk_.dead()) ended = life_end::crashed;
  const bool died = !ended || *ended == life_end::crashed;
  if (ended && died && life_)
    if (auto balanced = check_balanced(*life_); !balanced)
      ended = failure(std::move(balanced.error()));
  if (died && !disk_.dead()) disk_.die();
  if (!died) disk_.die_at(std::numeric_limits<std::uint64_t>::max()); // It came too late.
  if (died && life_) life_->actors->kill();
  if (!ended) trace_ = around.describe_trace();
  life_.reset();
  directory_.reset();
  steps_ += around.steps();
  messages_ += around.messages();
  newest_disk_calls_ = disk_.calls() - calls_before;
  hash_ = chained(chained(hash_, around.trace_hash()), around.steps());
  if (!died) {
    const auto spare = dataplane::join(checkpoint_directory_path, dataplane::spare_tree_name);
    if (disk_.stat(spare)) return failure(errc::internal, spare + " is there after the run");
  }
  return ended;
}

result<life_end> history::live_in(simulation& around, const std::optional<crash_point>& crash) {
  run_plan plan = plan_;
  if (!crash) { // Somebody must be able to save in the end.
    plan.barrier_timeout = run_plan().barrier_timeout;
    plan.hold_limit = run_plan().hold_limit;
  }
  const main_job job = job_in(plan, around.env());
  if (auto begun = begin(around, job); !begun) return failure(std::move(begun.error()));
  if (auto started = life_->actors->start(); !started) return failure(std::move(started.error()));
  auto ended = drive(around, crash);
  if (!ended || *ended == life_end::crashed) return ended;
  if (auto finished = finish(around); !finished) return failure(std::move(finished.error()));
  return life_end::done;
}

/// What the program does before its graph runs.
result<void> history::begin(simulation& around, const main_job& given) {
  auto opened = open_run_directory(disk_);
  if (!opened) return failure(std::move(opened.error()));
  directory_ = std::move(*opened);
  main_job job = given;
  job.record_checkpoint = [this, &given](const checkpoint_record& record) {
    confirmed_ = dataplane::parse_bundle_name(record.published.bundle);
    if (given.record_checkpoint) given.record_checkpoint(record);
  };
  restore_request request = request_of(plan_, job);
  request.drop_replay = plan_.drops_replay && crashes_ % 3 == 2;
  const auto check = [&job](const restored_states& states) { return check_states(job, states); };
  auto begun = begin_life(disk_, *directory_, request, "run", check);
  if (!begun) return failure(std::move(begun.error()));
  if (auto fine = check_restored(*begun); !fine) return fine;
  auto removed = dataplane::remove_leftovers(disk_, checkpoint_directory_path);
  if (!removed) return failure(std::move(removed.error()));
  auto life = compose_life(job, around.env(), *begun, directory_);
  if (!life) return failure(std::move(life.error()));
  life_.emplace(std::move(*life));
  return {};
}

result<void> history::check_restored(const begun_life& begun) {
  const auto wrong = [](std::string text) { return failure(errc::internal, std::move(text)); };
  if (begun.life <= newest_life_)
    return wrong("incarnation " + std::to_string(begun.life.value) + " was handed out before");
  newest_life_ = begun.life;
  const auto restored = begun.states ? std::optional(begun.states->bundle.name)
                                     : std::optional<dataplane::bundle_name>();
  if (confirmed_ && (!restored || *restored < *confirmed_))
    return wrong(dataplane::to_string(*confirmed_) + " was published, and " +
                 (restored ? dataplane::to_string(*restored) : std::string("nothing")) +
                 " is restored");
  if (!begun.states) return {};
  auto policy = read_tiny_policy(*begun.states);
  if (!policy) return failure(std::move(policy.error()));
  return check_same_cut(*begun.states, tiny(*policy));
}

result<life_end> history::drive(simulation& around, const std::optional<crash_point>& crash) {
  const graph& actors = *life_->actors;
  const std::uint64_t last_step =
      crash && crash->at_step ? *crash->at_step : std::numeric_limits<std::uint64_t>::max();
  while (!actors.outcome()) {
    if (around.steps() >= last_step || disk_.dead()) return life_end::crashed;
    const bool stepped = around.step();
    if (stepped && around.steps() < life_steps_max && around.elapsed() < life_time_max) continue;
    std::string waiting = "the life does not end:\n";
    for (const char* name : {"rollout", "trainer", "replay", "checkpoint"})
      waiting += life_->actors->dump_tasks(name);
    return failure(errc::timed_out, std::move(waiting));
  }
  newest_steps_ = around.steps();
  if (disk_.dead()) return life_end::crashed;
  auto ended = *actors.outcome();
  if (ended) return life_end::done;
  // The user of a job whose last bundle was not published runs it again.
  const bool unsaved = ended.error().text.find("was not published") != std::string::npos;
  if (unsaved && crash && plan_.barrier_timeout < run_plan().barrier_timeout)
    return life_end::crashed;
  return failure(std::move(ended.error()));
}

/// What is still under way at the end of a job may end: retirement, notes, released rows.
void history::settle(simulation& around) const {
  const std::uint64_t last = around.steps() + settling_steps_max;
  const auto until = around.elapsed() + std::chrono::seconds(30);
  while (around.steps() < last && around.elapsed() < until && around.step()) {
  }
}

result<void> history::finish(simulation& around) {
  if (!seen_->finished) return failure(errc::internal, "the run finished, and nobody was told why");
  final_.end = *seen_->finished == "the data ended" ? finish_reason::end_of_data
                                                    : finish_reason::steps_reached;
  settle(around);
  if (auto ended = life_->actors->outcome(); !*ended) return failure(std::move(ended->error()));
  if (auto fine = check_balanced(*life_); !fine) return fine;
  if (auto fine = check_nothing_left(*life_, plan_, final_.end); !fine) return fine;
  if (auto stopped = life_->actors->stop(); !stopped) return stopped;
  return end_life(*life_, final_.end);
}

void history::report_to(run_report& report) const {
  report.crashes = crashes_;
  report.lives = lives_;
  report.steps += steps_;
  report.messages += messages_;
  report.trace_hash = chained(report.trace_hash, hash_);
  report.trace = trace_;
  report.log = log_;
}

} // namespace weir::sim
