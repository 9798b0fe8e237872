/// The drill: the job in a child process, killed at random instants and started again, until it is
/// done; then an audit, and, where the run is reproducible, a comparison with an uninterrupted one.
///
///     RUN_DIR.drill/
///     ├── drill-marker        this directory is ours to remove
///     ├── reference/          the uninterrupted run (reproducible runs, and those bounded by data)
///     └── killed/             checkpoints/, events of every life, run.log
#include "examples/weir/commands.hpp"
#include "examples/weir/config_value.hpp"
#include "examples/weir/drill_files.hpp"
#include "examples/weir/drill_plan.hpp"
#include "examples/weir/drill_process.hpp"
#include "examples/weir/drill_watch.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <tuple>

namespace weir {

namespace {

namespace fs = std::filesystem;

constexpr const char* marker_name = "drill-marker";
/// How often a life is looked at.
constexpr double look_period_s = 0.002;
/// What a step takes, until one was seen.
constexpr double first_step_s = 0.1;

exit_code complain(const std::string& text) {
  std::fprintf(stderr, "weir drill: %s\n", text.c_str());
  return exit_code::failed;
}

/// One run directory below the drill's, with the command that runs in it.
struct drill_site {
  fs::path directory;
  std::vector<std::string> command;

  [[nodiscard]] std::string checkpoints() const { return (directory / "checkpoints").string(); }
  [[nodiscard]] std::string log() const { return (directory / "run.log").string(); }
  [[nodiscard]] result<std::string> final_weights() const {
    const auto newest = newest_bundle(checkpoints());
    if (!newest) return failure(errc::not_found, checkpoints() + ": holds no bundle");
    return (fs::path(checkpoints()) / to_string(*newest) / "policy" / "weights").string();
  }
};

drill_site make_site(const drill_arguments& arguments, const run_config& config,
                     const fs::path& directory) {
  drill_site site{.directory = directory, .command = {"run", arguments.config_path}};
  const auto set = [&site](const std::string& assignment) {
    site.command.emplace_back("--set");
    site.command.push_back(assignment);
  };
  for (const std::string& assignment : arguments.overrides)
    set(assignment);
  set("checkpointing.checkpoint_dir=" + in_quotes(site.checkpoints()));
  if (config.logger.log_dir) set("logger.log_dir=" + in_quotes((directory / "log").string()));
  return site;
}

/// Makes an empty directory; refuses to remove one that no drill made.
result<void> prepare(const fs::path& base) {
  std::error_code broken;
  if (fs::exists(base, broken) && !fs::exists(base / marker_name, broken))
    return failure(errc::already_exists,
                   base.string() + ": exists and was not made by a drill; remove it yourself");
  fs::remove_all(base, broken);
  if (!broken) fs::create_directories(base, broken);
  if (broken) return failure(errc::io_failed, base.string() + ": " + broken.message());
  std::ofstream marker(base / marker_name);
  marker << "made by weir drill, which removes this directory when it runs again\n";
  marker.flush();
  if (!marker) return failure(errc::io_failed, base.string() + ": cannot be written");
  return {};
}

result<void> clear(const drill_site& site) {
  std::error_code broken;
  fs::remove_all(site.directory, broken);
  if (!broken) fs::create_directories(site.directory, broken);
  if (broken) return failure(errc::io_failed, site.directory.string() + ": " + broken.message());
  return {};
}

result<process_end> run_to_the_end(const drill_site& site) {
  auto child = child_process::start(site.command, site.log());
  if (!child) return failure(child.error());
  auto end = child->wait();
  if (end && !end->succeeded())
    return failure(errc::unavailable,
                   "the run ended with " + to_string(*end) + "; see " + site.log());
  return end;
}

/// What the killed run came to.
struct killed_run {
  std::uint64_t kills = 0;
  bool done = false;
};

class drilling {
public:
  drilling(const drill_arguments& arguments, const run_config& config)
      : config_(config), reproducible_(is_reproducible(config)),
        plan_{.seed = arguments.seed,
              .kills = arguments.kills,
              .steps = config.grpo.max_num_steps,
              .save_period = config.checkpointing.save_period,
              .has_warmup = config.policy.warmup.max_steps > 0} {
    const fs::path run_directory = fs::path(config.checkpointing.checkpoint_dir).parent_path();
    base_ = run_directory.string() + ".drill";
    reference_ = make_site(arguments, config, base_ / "reference");
    killed_ = make_site(arguments, config, base_ / "killed");
  }

  [[nodiscard]] exit_code perform();

private:
  [[nodiscard]] result<void> run_reference();
  [[nodiscard]] result<killed_run> run_killed();
  [[nodiscard]] result<bool> live_once(const kill_order& order, std::uint64_t number);
  [[nodiscard]] result<process_end> live_until(const kill_order& order, child_process& child,
                                               life_watch& watch);
  [[nodiscard]] exit_code judge(const killed_run& run);
  [[nodiscard]] bool judge_audit();
  [[nodiscard]] bool judge_weights();

  const run_config& config_;
  bool reproducible_;
  drill_plan plan_;
  fs::path base_;
  drill_site reference_;
  drill_site killed_;
  double step_s_ = first_step_s; ///< What a step took in the newest life that told.
};

result<void> drilling::run_reference() {
  std::printf("reference run, uninterrupted ...\n");
  std::fflush(stdout);
  if (auto cleared = clear(reference_); !cleared) return cleared;
  const auto end = run_to_the_end(reference_);
  if (!end) return failure(end.error());
  std::printf("reference run: done in %.1f s\n", end->lived_s);
  // Where the data ended first, the job has fewer steps than it may have.
  const auto last = newest_bundle(reference_.checkpoints());
  if (!last || last->step == 0)
    return failure(errc::invalid_argument,
                   "the uninterrupted run finished no step: nothing to kill");
  plan_.steps = last->step;
  return {};
}

/// Lives until the order says so. A child that ends before ends by itself.
result<process_end> drilling::live_until(const kill_order& order, child_process& child,
                                         life_watch& watch) {
  std::optional<double> due_s;
  while (true) {
    const double now_s = child.lived_s();
    const life_sight sight = watch.look(now_s, step_s_);
    step_s_ = sight.step_s;
    if (!due_s) {
      if (const auto delay = kill_due(order, sight)) {
        const bool from_start =
            order.kind == kill_kind::at_start || order.kind == kill_kind::in_warmup;
        due_s = from_start ? *delay : now_s + *delay;
      }
    }
    if (due_s && now_s >= *due_s) return child.kill();
    const double pause_s = due_s ? std::min(*due_s - now_s, look_period_s) : look_period_s;
    auto end = child.wait_for(pause_s);
    if (!end) return failure(std::move(end.error()));
    if (*end) return **end;
  }
}

/// One life that ends by a kill. False if the job was done first.
result<bool> drilling::live_once(const kill_order& order, std::uint64_t number) {
  life_watch watch(killed_.directory.string());
  auto child = child_process::start(killed_.command, killed_.log());
  if (!child) return failure(child.error());
  const auto end = live_until(order, *child, watch);
  if (!end) return failure(end.error());
  if (end->succeeded()) return false;
  if (!end->by_signal || end->status != SIGKILL)
    return failure(errc::unavailable, "after " + std::to_string(number - 1) +
                                          " kills the run ended by itself with " + to_string(*end) +
                                          "; see " + killed_.log());
  std::ignore = watch.look(end->lived_s, step_s_);
  const auto newest = watch.bundle();
  std::printf("kill %3llu of %llu   after %6.2f s   step %4llu   newest bundle %-8s   %s\n",
              static_cast<unsigned long long>(number), static_cast<unsigned long long>(plan_.kills),
              end->lived_s, static_cast<unsigned long long>(watch.step()),
              newest ? to_string(*newest).c_str() : "none", to_string(watch.stage()).data());
  std::fflush(stdout);
  return true;
}

result<killed_run> drilling::run_killed() {
  for (plan_.attempt = 0; plan_.attempt < drill_attempts_max; ++plan_.attempt) {
    if (auto cleared = clear(killed_); !cleared) return failure(cleared.error());
    std::uint64_t kills = 0;
    bool alive = true;
    for (const kill_order& order : plan_kills(plan_)) {
      const auto killed = live_once(order, kills + 1);
      if (!killed) return failure(killed.error());
      alive = *killed;
      if (!alive) break;
      ++kills;
    }
    if (alive) {
      std::printf("last life, to the end ...\n");
      std::fflush(stdout);
      const auto end = run_to_the_end(killed_);
      if (!end) return failure(end.error());
      return killed_run{.kills = kills, .done = true};
    }
    std::printf("the job was done after %llu kills; again, with earlier kills\n",
                static_cast<unsigned long long>(kills));
  }
  return failure(errc::exhausted, "the job is too short for " + std::to_string(plan_.kills) +
                                      " kills: raise grpo.max_num_steps, or ask for fewer --kills");
}

bool drilling::judge_audit() {
  const auto report = audit_run(killed_.directory.string());
  if (!report) {
    std::printf("audit            %s\n", to_string(report.error()).c_str());
    return false;
  }
  const auto row = [](const char* name, std::uint64_t value) {
    std::printf("%-16s %llu\n", name, static_cast<unsigned long long>(value));
  };
  std::uint64_t accounted = 0;
  for (const std::uint64_t groups : report->in_state)
    accounted += groups;
  const std::set<group_id> once(report->consumed.begin(), report->consumed.end());
  const std::uint64_t lost = report->handed_out - std::min(accounted, report->handed_out);
  const std::uint64_t doubled = report->consumed.size() - once.size();
  row("lives", report->incarnations.size());
  row("steps", report->steps_finished);
  row("handed out", report->handed_out);
  row("consumed", report->consumed.size());
  row("dropped", report->in_state[static_cast<std::size_t>(group_state::dropped)]);
  row("lost", lost);
  row("doubled", doubled);
  for (const audit_problem& problem : report->problems)
    std::printf("problem          %s\n", to_string(problem).c_str());
  const bool clean = report->clean() && lost == 0 && doubled == 0;
  std::printf("audit            %s\n", clean ? "clean" : "NOT CLEAN");
  return clean;
}

bool drilling::judge_weights() {
  if (!reproducible_) {
    std::printf("final weights    not compared: this run is not reproducible (look-ahead %llu,"
                " weights not pinned)\n",
                static_cast<unsigned long long>(window_versions(config_.async_rl.sampler)));
    return true;
  }
  const auto left = reference_.final_weights();
  const auto right = killed_.final_weights();
  if (!left || !right) {
    std::printf("final weights    %s\n", to_string(left ? right.error() : left.error()).c_str());
    return false;
  }
  const auto compared = compare_weights(*left, *right);
  if (!compared) {
    std::printf("final weights    %s\n", to_string(compared.error()).c_str());
    return false;
  }
  if (!compared->difference.empty()) {
    std::printf("final weights    DIFFERENT: %s\n", compared->difference.c_str());
    return false;
  }
  std::printf("final weights    identical, %llu bytes in %llu files\n",
              static_cast<unsigned long long>(compared->bytes),
              static_cast<unsigned long long>(compared->files));
  return true;
}

exit_code drilling::judge(const killed_run& run) {
  std::printf("\n%-16s %llu of %llu\n", "kills", static_cast<unsigned long long>(run.kills),
              static_cast<unsigned long long>(plan_.kills));
  const bool clean = judge_audit();
  const bool equal = judge_weights();
  const bool passed = clean && equal && run.done && run.kills == plan_.kills;
  std::printf("%-16s %s\n", "drill", passed ? "passed" : "FAILED");
  return passed ? exit_code::done : exit_code::failed;
}

exit_code drilling::perform() {
  if (!config_.checkpointing.enabled)
    return complain("checkpointing.enabled (false): there would be nothing to restart from");
  if (auto prepared = prepare(base_); !prepared) return complain(prepared.error().text);
  std::printf("drill of %llu kills, seed %llu, in %s\n",
              static_cast<unsigned long long>(plan_.kills),
              static_cast<unsigned long long>(plan_.seed), base_.c_str());
  // Where the data may end the job, only an uninterrupted run tells how many steps it has.
  if (reproducible_ || config_.grpo.max_num_epochs)
    if (auto referenced = run_reference(); !referenced) return complain(referenced.error().text);
  const auto run = run_killed();
  if (!run) return complain(run.error().text);
  return judge(*run);
}

} // namespace

exit_code drill(const drill_arguments& arguments) {
  const auto read = load_config(arguments.config_path, arguments.overrides);
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().text.c_str());
    return exit_code::bad_usage;
  }
  return drilling(arguments, read->config).perform();
}

} // namespace weir
