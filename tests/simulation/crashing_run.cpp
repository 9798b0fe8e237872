#include "tests/simulation/crashing_run.hpp"

#include "actors/runtime/simulation.hpp"
#include "tests/simulation/final_checks.hpp"
#include "tests/simulation/scripted_tokens.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/simulation/tiny_learner.hpp"
#include "tests/support/crash_disk.hpp"

#include <algorithm>
#include <limits>
#include <list>
#include <utility>

namespace weir::sim {

namespace {

using test::crash_disk;

/// Nobody waits for ever: a life has this many steps, and this much virtual time.
constexpr std::uint64_t life_steps_max = 1'000'000;
constexpr std::chrono::hours life_time_max(6);
/// After the end of a job: for retired bundles to be removed, for notes to arrive.
constexpr std::uint64_t settling_steps_max = 20'000;

enum class life_end : std::uint8_t { done, crashed };

/// What one history of lives on one disk came to.
class history {
public:
  explicit history(const run_plan& plan) : plan_(plan) {}

  /// Lives until the job is done; the crashes strike one after the other, each another life.
  result<void> run(const std::vector<crash_point>& crashes);

  [[nodiscard]] const final_state& ended() const { return final_; }
  [[nodiscard]] run_length length() const { return {newest_steps_, newest_disk_calls_}; }
  void report_to(run_report& report) const;

private:
  result<life_end> live(const std::optional<crash_point>& crash);
  result<life_end> live_in(simulation& around, const std::optional<crash_point>& crash);
  result<void> begin(simulation& around, const main_job& job);
  result<void> check_restored(const begun_life& begun);
  result<life_end> drive(simulation& around, const std::optional<crash_point>& crash);
  result<void> finish(simulation& around);
  void crash(const crash_point& how);
  [[nodiscard]] const sampler_choice& sampler_now() const;
  void settle(simulation& around) const;

  const run_plan& plan_;
  crash_disk disk_;
  std::shared_ptr<observed> seen_ = std::make_shared<observed>();
  std::shared_ptr<dataplane::run_directory> directory_;
  std::optional<composed_life> life_;

  incarnation newest_life_;
  /// The newest bundle whose publish returned.
  std::optional<dataplane::bundle_name> confirmed_;
  final_state final_;
  std::uint64_t crashes_ = 0;
  std::uint64_t lives_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t newest_steps_ = 0; ///< Until the job was done.
  std::uint64_t newest_disk_calls_ = 0;
  std::string trace_;
  std::string log_;
};

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
  return look_at_the_end(disk_, plan_, sampler_now(), final_);
}

void history::crash(const crash_point& how) {
  if (how.kind == crash_kind::power)
    disk_.lose_power(how.power_seed);
  else
    disk_.lose_process();
  for (const char letter : disk_.fingerprint())
    hash_ = chained(hash_, static_cast<unsigned char>(letter));
  ++crashes_;
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
  return ended;
}

result<life_end> history::live_in(simulation& around, const std::optional<crash_point>& crash) {
  run_plan plan = plan_;
  if (!crash) { // Somebody must be able to save in the end.
    plan.barrier_timeout = run_plan().barrier_timeout;
    plan.hold_limit = run_plan().hold_limit;
  }
  const main_job job = tiny_job(plan, sampler_now(), around.env(), seen_);
  if (auto begun = begin(around, job); !begun) return failure(std::move(begun.error()));
  if (auto started = life_->actors->start(); !started) return failure(std::move(started.error()));
  auto ended = drive(around, crash);
  if (!ended || *ended == life_end::crashed) return ended;
  if (auto finished = finish(around); !finished) return failure(std::move(finished.error()));
  return life_end::done;
}

/// What the program does before its graph runs.
result<void> history::begin(simulation& around, const main_job& given) {
  auto held = dataplane::run_directory::acquire(disk_, run_directory_path, {{1, "host"}, "now"});
  if (!held) return failure(std::move(held.error()));
  directory_ = std::make_shared<dataplane::run_directory>(std::move(*held));
  if (auto made = dataplane::make_directories(disk_, checkpoint_directory_path); !made) return made;
  main_job job = given;
  job.record_checkpoint = [this](const checkpoint_record& record) {
    confirmed_ = dataplane::parse_bundle_name(record.published.bundle);
  };
  const auto check = [&job](const restored_states& states) { return check_states(job, states); };
  auto begun = begin_life(disk_, *directory_, request_of(plan_, job), "run", check);
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

} // namespace

run_report run_seed(const run_options& options) {
  std::list<rule_suspension> suspended;
  for (const rule one : options.without)
    suspended.emplace_back(one);
  run_report report;
  report.plan = plan_of(options.seed, options.samplers);
  history undisturbed(report.plan);
  const auto alone = undisturbed.run({});
  undisturbed.report_to(report);
  if (!alone) {
    report.violation = "without any crash: " + to_string(alone.error());
    return report;
  }
  report.planned = options.schedule
                       ? *options.schedule
                       : crashes_of(options.seed, undisturbed.length(), options.crashes);
  history disturbed(report.plan);
  auto ended = disturbed.run(report.planned);
  if (ended) ended = compare(report.plan, undisturbed.ended(), disturbed.ended());
  disturbed.report_to(report);
  if (!ended) report.violation = to_string(ended.error());
  return report;
}

run_report shrink(const run_options& options, const run_report& failing) {
  run_report shortest = failing;
  run_options tried = options;
  for (std::size_t left_out = 0; left_out < shortest.planned.size();) {
    auto schedule = shortest.planned;
    schedule.erase(schedule.begin() + static_cast<std::ptrdiff_t>(left_out));
    tried.schedule = schedule;
    run_report report = run_seed(tried);
    if (report.clean())
      ++left_out;
    else
      shortest = std::move(report);
  }
  return shortest;
}

std::string describe(const run_report& report) {
  std::string text =
      "seed " + std::to_string(report.plan.seed) + ": " + to_string(report.plan) + "\ncrashes:\n";
  for (std::size_t i = 0; i < report.planned.size() && i <= report.crashes; ++i)
    text += "  life " + std::to_string(i + 1) + ": " + to_string(report.planned[i]) +
            (i == report.crashes ? " (not reached)" : "") + "\n";
  text += "violated in life " + std::to_string(report.lives) + ": " + report.violation + "\n";
  if (!report.log.empty()) text += "logged in the newest life:\n" + report.log;
  if (!report.trace.empty()) text += "newest messages:\n" + report.trace;
  return text;
}

} // namespace weir::sim
