/// `weir run`: prepares the job, takes the run directory, and lives as many lives as it takes.
#include "actors/checkpoint/pool_jobs.hpp"
#include "actors/runtime/failpoint.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/uring_disk.hpp"
#include "examples/weir/commands.hpp"
#include "examples/weir/compatibility.hpp"
#include "examples/weir/life.hpp"
#include "examples/weir/samplers.hpp"
#include "examples/weir/step_metrics.hpp"
#include "examples/weir/unavailable.hpp"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <utility>

namespace weir {

namespace {

/// Lives of one process: the death of an origin or an owner reloads the newest bundle this often.
constexpr int lives_max = 4;
constexpr std::uint64_t config_bytes_max = 16ULL * 1024 * 1024;
constexpr std::uint64_t metrics_bytes_max = 1ULL << 30;

std::atomic<int> caught_signal{0};

void remember_signal(int number) {
  caught_signal = number;
}

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = &remember_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

exit_code complain(const std::string& text, exit_code code) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return code;
}

/// A configuration and where its run lies.
struct run_places {
  std::string run_directory;
  std::string checkpoint_directory;
  std::string resolved_config;
};

run_places places_of(const run_config& config) {
  run_places places;
  places.checkpoint_directory = config.checkpointing.checkpoint_dir;
  places.run_directory = dataplane::parent_of(places.checkpoint_directory);
  places.resolved_config = dataplane::join(places.run_directory, "config.resolved.yaml");
  return places;
}

/// What changed since the run was configured last; refuses what a resume cannot change.
result<std::vector<config_change>> changes_since(dataplane::disk& storage, const run_places& places,
                                                 const run_config& config) {
  const auto bytes = dataplane::read_file(storage, places.resolved_config, config_bytes_max);
  if (!bytes && bytes.error().code == errc::not_found) return std::vector<config_change>();
  if (!bytes) return failure(bytes.error());
  config_source source;
  source.name = places.resolved_config;
  source.text.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const auto before = parse_config(source);
  if (!before) return failure(before.error());
  auto changes = compatibility(before->config, config);
  if (auto fine = require_compatible(changes); !fine) return failure(std::move(fine.error()));
  return changes;
}

void print_restore(run_output& output, const begun_life& begun, double took_s) {
  for (const std::string& notice : begun.notices)
    output.say("notice: " + notice);
  if (!begun.states) {
    output.say(fmt::format("new run {}, incarnation {}", begun.run_id, begun.life.value));
    return;
  }
  const restore_plan& plan = begun.states->plan;
  output.say(fmt::format("restored {} of run {}, incarnation {}",
                         dataplane::to_string(begun.states->bundle.name), begun.run_id,
                         begun.life.value));
  output.say(fmt::format("  groups ready {}  admitted {}  reserved {}  reissued {}\n"
                         "  siblings kept {}  tokens kept {}  prompts lost 0  seconds {:.2f}",
                         plan.ready.size(), plan.admitted.size(), plan.reserved.size(),
                         plan.groups_reissued, plan.siblings_kept, plan.tokens_kept, took_s));
  if (begun.states->changes.buffer_left) {
    output.say(fmt::format("  shadow mode: {} groups are generated again",
                           begun.states->changes.groups.size()));
    return;
  }
  if (const auto& dropped = begun.states->dropped.groups; !dropped.empty())
    output.say(
        fmt::format("  {} ready groups are generated again (--drop-replay)", dropped.size()));
  for (const restamped_group& group : begun.states->changes.groups)
    output.say(fmt::format("  group {}: step {} is now step {}{}", group.group.value,
                           group.target_before, group.target_after,
                           group.generated_again ? ", generated again: too old for it" : ""));
}

/// Failures of a life that another one may not meet again: somebody died or hung, or the machine
/// failed once. Everything else (bad data, a spent budget, a full disk, a state that does not
/// balance) would only come back.
bool worth_another_life(const error& reason) {
  return reason.code == errc::unavailable || reason.code == errc::timed_out ||
         reason.code == errc::internal || reason.code == errc::cancelled ||
         reason.code == errc::io_failed;
}

/// Everything that the lives of one process share.
class running {
public:
  running(run_arguments arguments, dataplane::disk& storage, world& env,
          std::shared_ptr<run_output> output)
      : arguments_(std::move(arguments)), storage_(storage), env_(env), output_(std::move(output)),
        started_ns_(env.clock().now()) {}

  exit_code perform(const run_config& config);

private:
  result<void> open(const run_config& config);
  result<begun_life> begin();
  result<life_end> one_life();
  void summarize();

  run_arguments arguments_;
  dataplane::disk& storage_;
  world& env_;
  std::shared_ptr<run_output> output_;
  const std::int64_t started_ns_;
  std::optional<job> work_;
  run_places places_;
  std::shared_ptr<dataplane::run_directory> directory_;
  bool alive_ = false; ///< The newest life got beyond its restore.
};

/// Finds everything wrong with the input before anything on disk changes, then takes the lock.
result<void> running::open(const run_config& config) {
  auto work = prepare_job(storage_, config);
  if (!work) return failure(std::move(work.error()));
  work_.emplace(std::move(*work));
  places_ = places_of(config);
  if (auto fine = dataplane::require_writable(storage_, places_.checkpoint_directory); !fine)
    return failure(fine.error().code, "checkpointing.checkpoint_dir: " + fine.error().text +
                                          "; make room or give the rights, or name another place");
  if (!arguments_.fresh) {
    auto changes = changes_since(storage_, places_, config);
    if (!changes) return failure(std::move(changes.error()));
    for (const config_change& change : *changes)
      output_->say("changed: " + to_string(change));
  }
  auto held = dataplane::run_directory::acquire(
      storage_, places_.run_directory, {dataplane::this_process(), env_.clock().wall_text()});
  if (!held) return failure(std::move(held.error()));
  directory_ = std::make_shared<dataplane::run_directory>(std::move(*held));
  if (auto made = dataplane::make_directories(storage_, places_.checkpoint_directory); !made)
    return made;
  auto metrics = dataplane::append_log::open(
      storage_, dataplane::join(places_.run_directory, "metrics.jsonl"));
  if (!metrics) return failure(std::move(metrics.error()));
  output_->write_metrics_to(std::move(*metrics));
  output_->say(work_->device.explanation);
  if (const std::string notice = shadow_mode_notice(*work_->policy); !notice.empty())
    output_->say(notice);
  return {};
}

result<begun_life> running::begin() {
  const std::int64_t began = env_.clock().now();
  restore_request request;
  request.run_directory = places_.run_directory;
  request.checkpoint_directory = places_.checkpoint_directory;
  request.from = std::exchange(arguments_.from, std::nullopt);
  request.fresh = std::exchange(arguments_.fresh, false);
  request.drop_replay = std::exchange(arguments_.drop_replay, false);
  request.policy = work_->policy;
  request.groups_per_step = work_->config.grpo.num_prompts_per_step;
  const std::string new_run = "run-" + env_.clock().wall_text();
  const main_job checked = main_job_of(*work_, output_);
  request.find_prompt = prompt_lookup_of(checked);
  request.run_jobs = jobs_on(env_.pool());
  auto begun = begin_life(
      storage_, *directory_, request, new_run,
      [&checked](const restored_states& states) { return check_states(checked, states); });
  if (!begun) return begun;
  if (auto fine = hit_failpoint("restore.loaded"); !fine) return failure(std::move(fine.error()));
  const std::string resolved = to_yaml(work_->config);
  auto written = dataplane::replace_file(storage_, places_.resolved_config,
                                         std::as_bytes(std::span(resolved)));
  if (!written) return failure(std::move(written.error()));
  if (auto removed = dataplane::remove_leftovers(storage_, places_.checkpoint_directory); !removed)
    output_->log(log_level::warning, "program", to_string(removed.error()));
  print_restore(*output_, *begun, static_cast<double>(env_.clock().now() - began) / 1e9);
  return begun;
}

result<life_end> running::one_life() {
  alive_ = false;
  auto begun = begin();
  alive_ = begun.has_value();
  if (!begun) return failure(std::move(begun.error()));
  return live({*work_, env_, *begun, directory_, output_, started_ns_},
              [] { return caught_signal != 0; });
}

/// Says what a finished job came to. Metrics are for people: without them the job is done as well.
void running::summarize() {
  const auto bytes = dataplane::read_file(
      storage_, dataplane::join(places_.run_directory, "metrics.jsonl"), metrics_bytes_max);
  if (!bytes) {
    output_->log(log_level::warning, "program", "no summary: " + to_string(bytes.error()));
    return;
  }
  step_history history;
  history.read({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  const auto summary = history.summary();
  if (!summary) return; // Too few steps to say anything.
  output_->say(to_text(*summary));
  output_->metric(to_json(*summary));
  output_->finish();
}

exit_code running::perform(const run_config& config) {
  if (auto opened = open(config); !opened)
    return complain(to_string(opened.error()), exit_code::failed);
  for (int life = 1;; ++life) {
    const auto ended = one_life();
    output_->finish();
    if (work_->spill && work_->spill->spilled() > 0)
      output_->say(fmt::format("{} full segments of rollouts went to {}", work_->spill->spilled(),
                               *config.data_plane.spill_dir));
    if (ended && *ended == life_end::done) {
      output_->say("done: " + output_->done_reason());
      summarize();
      return exit_code::done;
    }
    if (ended) {
      output_->say("interrupted: run the same command again to go on");
      return exit_code::unfinished;
    }
    // A restore that was refused would be refused again.
    const bool again = alive_ && life < lives_max && worth_another_life(ended.error());
    if (!again || caught_signal != 0) return complain(to_string(ended.error()), exit_code::failed);
    output_->log(log_level::error, "program",
                 to_string(ended.error()) + "; going on from the newest bundle");
  }
}

} // namespace

exit_code run(const run_arguments& arguments) {
  auto read = load_config(arguments.config_path, arguments.overrides);
  if (!read) return complain(read.error().text, exit_code::bad_usage);
  for (const std::string& line : unavailable(read->config))
    return complain(line, exit_code::bad_usage);
  if (auto armed = arm_failpoints(arguments.failpoints); !armed)
    return complain("--failpoints: " + armed.error().text, exit_code::bad_usage);
  for (const std::string& warning : read->warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  catch_signals();
  const auto output =
      std::make_shared<run_output>(read->config.grpo.max_num_steps, read->config.logger.level);
  const auto chosen =
      dataplane::choose_disk(static_cast<dataplane::disk_kind>(read->config.checkpointing.disk));
  if (!chosen)
    return complain("checkpointing.disk (io_uring): " + to_string(chosen.error()) +
                        "; use auto or posix",
                    exit_code::failed);
  if (!chosen->notice.empty()) output->log(log_level::warning, "program", chosen->notice);
  const auto& storage = chosen->storage;
  world_options options;
  options.seed = read->config.grpo.seed;
  options.storage = storage.get();
  options.log = [output](log_level level, std::string_view actor, std::string_view text) {
    output->log(level, actor, text);
  };
  world env(std::move(options));
  return running(arguments, *storage, env, output).perform(read->config);
}

} // namespace weir
