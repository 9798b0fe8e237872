#include "examples/weir/life.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/dataloader/dataloader.hpp"
#include "actors/environment/environment.hpp"
#include "actors/generator/generator.hpp"
#include "actors/replay/replay.hpp"
#include "actors/rollout/rollout.hpp"
#include "actors/sampler/sampler.hpp"
#include "actors/trainer/trainer.hpp"
#include "dataplane/append_log.hpp"
#include "examples/weir/observer.hpp"
#include "kernels/device_stream.hpp"
#include "kernels/parallel.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace weir {

namespace {

constexpr std::chrono::nanoseconds poll_period = std::chrono::milliseconds(100);

/// The states of all owners, fresh or restored.
struct owner_states {
  dataloader_state loader;
  sampler_state sampler;
  replay_contents replay;
  trainer_image trainer;
  bool warmed_up = false;
  std::vector<group_event> restamped = {}; ///< In the sampler's ledger.
};

replay_options replay_options_of(const run_config& config) {
  replay_options options;
  options.groups_buffered_max = config.async_rl.max_buffered_rollouts;
  options.ready_prefix_only = is_reproducible(config);
  return options;
}

dataloader_options loader_options_of(const run_config& config) {
  dataloader_options options;
  options.shuffle = config.data.shuffle;
  options.shuffle_seed = config.grpo.seed;
  options.max_num_epochs = config.grpo.max_num_epochs;
  return options;
}

dataplane::store_options store_options_of(const run_config& config) {
  dataplane::store_options options;
  options.segment_bytes = config.data_plane.segment_bytes;
  options.capacity_bytes = config.data_plane.capacity_bytes;
  options.high_water_bytes = config.data_plane.capacity_bytes / 8 * 7;
  return options;
}

result<owner_states> build_states(const life_parts& parts) {
  const job& work = parts.work;
  const run_config& config = work.config;
  owner_states built{
      dataloader_state(*work.records, loader_options_of(config)),
      sampler_state(work.policy, config.grpo.num_prompts_per_step, failure_limits_of(config)),
      replay_contents{replay_state(work.policy, replay_options_of(config)),
                      std::make_shared<dataplane::store>(store_options_of(config))},
      trainer_image{0, weight_version(0), work.first_policy}, false};
  if (!parts.begun.states) return built;
  const restored_states& states = *parts.begun.states;
  if (auto loaded = built.loader.load(states.cursor); !loaded)
    return failure(std::move(loaded.error()));
  if (auto loaded = built.sampler.load(states.sampler); !loaded)
    return failure(std::move(loaded.error()));
  if (auto loaded = built.replay.index.load(states.replay); !loaded)
    return failure(std::move(loaded.error()));
  built.replay.rows->restore(states.rows);
  built.replay.restamped = states.changes.replay_events;
  built.restamped = states.changes.ledger_events;
  auto policy = restored_policy(work, states);
  if (!policy) return failure(std::move(policy.error()));
  const std::uint64_t step = states.bundle.content.step;
  built.trainer = {step, weight_version(step), std::move(*policy)};
  built.warmed_up = true;
  return built;
}

result<generator_engine> make_engine(const job& work, std::shared_ptr<run_counters> counters) {
  const generation_config& config = work.config.policy.generation;
  kernels::decoder_options options;
  options.max_sequences = static_cast<std::uint32_t>(config.max_batch_size);
  options.threads = kernels::hardware_threads();
  options.recompute_on_update = work.config.async_rl.recompute_kv_cache_after_weight_updates;
  options.where = work.device.chosen;
  auto decoder = kernels::decoder::create(work.model, options);
  if (!decoder) return failure(std::move(decoder.error()));
  auto device = kernels::device_stream::create(work.device.chosen, {.niceness = 10});
  if (!device) return failure(std::move(device.error()));
  return generator_engine{std::move(*decoder), std::move(*device), std::move(counters)};
}

std::int64_t nanoseconds(double count) {
  return seconds(count).count();
}

checkpoint_options checkpoint_options_of(const run_config& config, bool restored) {
  const checkpointing_config& from = config.checkpointing;
  checkpoint_options options;
  options.barrier.quiesce_timeout_ns = nanoseconds(from.quiesce_timeout_s);
  options.barrier.capture_timeout_ns = nanoseconds(from.capture_timeout_s);
  options.barrier.hold_limit_ns =
      nanoseconds(from.quiesce_timeout_s + from.capture_timeout_s + 2.0);
  options.schedule.enabled = from.enabled;
  options.schedule.save_period = 0; // Periods are asked for inside the trainer's consume lease.
  if (from.save_interval_s) options.schedule.save_interval_ns = nanoseconds(*from.save_interval_s);
  if (from.checkpoint_must_save_by) {
    if (const auto limit = seconds_of(*from.checkpoint_must_save_by))
      options.schedule.must_save_by_ns = nanoseconds(static_cast<double>(*limit));
  }
  options.restored = restored;
  return options;
}

bundle_store_options store_options_of(const run_config& config, const begun_life& begun) {
  bundle_store_options options;
  options.checkpoint_directory = config.checkpointing.checkpoint_dir;
  options.run_id = begun.run_id;
  options.life = begun.life;
  options.metric_name = config.checkpointing.metric_name.value_or("train:reward");
  options.retention.keep_top_k = config.checkpointing.keep_top_k;
  if (config.checkpointing.metric_name)
    options.retention.order = config.checkpointing.higher_is_better
                                  ? dataplane::retention_order::higher_metric
                                  : dataplane::retention_order::lower_metric;
  return options;
}

trainer_options trainer_options_of(const run_config& config) {
  trainer_options options;
  options.max_num_steps = config.grpo.max_num_steps;
  options.save = config.checkpointing.enabled;
  options.save_period = config.checkpointing.save_period;
  options.warmup.max_steps = config.policy.warmup.max_steps;
  options.warmup.stop_at_reward = config.policy.warmup.stop_at_reward;
  options.warmup.check_every = config.policy.warmup.check_every;
  options.env_timeout = seconds(config.async_rl.rollout_failure.env_timeout_s);
  return options;
}

/// The graph and the one handle that the program itself asks.
struct composed {
  std::unique_ptr<graph> actors;
  handle<checkpoint_protocol> checkpoint;
};

/// Composition: who is given whose handle. Checkpoint finds origins and owners by name.
result<composed> compose(const life_parts& parts, owner_states states,
                         std::shared_ptr<event_log> log) {
  const job& work = parts.work;
  const run_config& config = work.config;
  const auto counters = std::make_shared<run_counters>();
  const bool restored = parts.begun.states.has_value();
  composed made;
  made.actors = std::make_unique<graph>(parts.env, graph_options{.life = parts.begun.life});
  graph& actors = *made.actors;

  const auto watcher = actors.add<observer>("observer", parts.output, counters);
  const auto loader = actors.add<dataloader>("dataloader", std::move(states.loader), *log);
  const auto ledger =
      actors.add<sampler>("sampler", std::move(states.sampler), *log, states.restamped);
  const auto buffer = actors.add<replay>("replay", std::move(states.replay), states.trainer.version,
                                         *log, counters);
  std::vector<handle<environment_protocol>> environments;
  for (std::uint64_t i = 0; i < config.env.workers; ++i) {
    auto how = scorer_of(config);
    if (!how) return failure(std::move(how.error()));
    environments.push_back(
        actors.add<environment>("environment-" + std::to_string(i), std::move(*how)));
  }
  std::vector<handle<generator_protocol>> generators;
  std::shared_ptr<kernels::device_stream> device;
  for (std::uint64_t i = 0; i < config.policy.generation.generators; ++i) {
    auto engine = make_engine(work, counters);
    if (!engine) return failure(std::move(engine.error()));
    generators.push_back(actors.add<generator>(
        "generator-" + std::to_string(i),
        generator_options{config.grpo.seed, work.sampling, work.stop_tokens}, std::move(*engine)));
  }
  const checkpoint_services services{
      std::make_shared<bundle_store>(
          parts.env.storage(), parts.directory, store_options_of(config, parts.begun),
          parts.begun.known, restored ? std::optional(parts.begun.states->bundle) : std::nullopt),
      log, counters,
      [output = parts.output, life = parts.begun.life](const checkpoint_record& record) {
        output->record(record, life);
      }};
  made.checkpoint =
      actors.add<checkpoint>("checkpoint", checkpoint_options_of(config, restored),
                             checkpoint_peers{{"rollout", "trainer", "replay"},
                                              {"dataloader", "sampler", "replay", "trainer"},
                                              watcher},
                             services);
  auto stream = kernels::device_stream::create(kernels::device(), {.niceness = 10});
  if (!stream) return failure(std::move(stream.error()));
  device = std::move(*stream);
  actors.add<trainer>(
      "trainer", trainer_options_of(config),
      trainer_peers{ledger, buffer, made.checkpoint, generators, environments, watcher},
      trainer_engine{work.learner, device}, trainer_state(states.trainer), states.warmed_up, *log);
  actors.add<rollout>("rollout", rollout_options_of(config),
                      rollout_peers{loader, ledger, buffer, generators, environments},
                      text_codec_of(work), *log, counters);
  return made;
}

/// First lines of a life in the audit log.
void announce(event_log& log, const begun_life& begun, std::optional<event_stream>& program) {
  program.emplace(log, "program");
  program->append(incarnation_started_event{begun.run_id});
  if (begun.states)
    program->append(restored_event{dataplane::to_string(begun.states->bundle.name),
                                   begun.states->bundle.content.epoch});
}

finish_reason reason_of(const result<life_end>& ended, const std::string& words) {
  if (!ended) return finish_reason::failed;
  if (*ended == life_end::interrupted) return finish_reason::stopped;
  return words == "the data ended" ? finish_reason::end_of_data : finish_reason::steps_reached;
}

/// Saves on a signal; a run that cannot be saved now is still interrupted, and starts again from
/// its newest bundle.
void save_now(composed& running, run_output& output) {
  RequestCheckpointT want;
  want.reason = "interrupted";
  auto saved = running.actors->ask_blocking(running.checkpoint, pack(want),
                                            within(std::chrono::seconds(60)));
  if (saved && (*saved)->bundle() != nullptr)
    output.say("saved " + text_of((*saved)->bundle()));
  else if (saved)
    output.say("nothing changed since the newest bundle");
  else
    output.log(log_level::warning, "program", "not saved: " + to_string(saved.error()));
}

/// `async_rl.stall_watchdog`: names whoever has kept somebody waiting for too long.
class stall_watchdog {
public:
  stall_watchdog(const stall_watchdog_config& config, const clock& time)
      : config_(config), clock_(time), next_ns_(time.now() + seconds(config.interval_s).count()) {}

  /// An error when the run shall end for a stall. Looks once per interval.
  result<void> look(graph& actors, run_output& output) {
    if (clock_.now() < next_ns_) return {};
    next_ns_ = clock_.now() + seconds(config_.interval_s).count();
    const std::string stalled = actors.stalled(seconds(config_.stall_timeout_s));
    if (stalled.empty()) return {};
    if (config_.stall_action == stall_action_kind::abort)
      return failure(errc::timed_out, "stalled for longer than stall_timeout_s: " + stalled);
    output.log(log_level::warning, "watchdog", stalled);
    return {};
  }

private:
  const stall_watchdog_config& config_;
  const clock& clock_;
  std::int64_t next_ns_;
};

result<life_end> wait_for_end(composed& running, const life_parts& parts,
                              const std::function<bool()>& interrupted) {
  run_output& output = *parts.output;
  stall_watchdog watchdog(parts.work.config.async_rl.stall_watchdog, parts.env.clock());
  while (true) {
    auto ended = running.actors->wait_blocking(poll_period);
    if (ended) return output.job_done() ? life_end::done : life_end::interrupted;
    if (ended.error().code != errc::timed_out || !ended.error().origin.empty())
      return failure(std::move(ended.error()));
    if (auto fine = watchdog.look(*running.actors, output); !fine)
      return failure(std::move(fine.error()));
    if (!interrupted()) continue;
    save_now(running, output);
    return life_end::interrupted;
  }
}

} // namespace

result<policy_ptr> restored_policy(const job& work, const restored_states& states) {
  for (const char* path : {policy_config_path, policy_weights_path}) {
    if (!states.policy.contains(path))
      return failure(errc::corrupt, std::string(path) + ": is not in the bundle");
  }
  const auto file = [&states](const char* path) {
    const auto place = states.policy.find(path);
    return place != states.policy.end() ? place->second : std::vector<std::byte>();
  };
  policy_files files;
  files.config = file(policy_config_path);
  files.weights = file(policy_weights_path);
  files.optimizer = file(policy_optimizer_path);
  files.reference = file(policy_reference_path);
  return read_policy(files, work.model);
}

result<life_end> live(life_parts parts, const std::function<bool()>& interrupted) {
  auto states = build_states(parts);
  if (!states) return failure(std::move(states.error()));
  auto file = dataplane::append_log::open(parts.env.storage(),
                                          parts.directory->events_path(parts.begun.life));
  if (!file) return failure(std::move(file.error()));
  const auto log = std::make_shared<event_log>(parts.begun.life, std::move(*file));
  std::optional<event_stream> program;
  announce(*log, parts.begun, program);
  auto running = compose(parts, std::move(*states), log);
  if (!running) return failure(std::move(running.error()));
  if (auto started = running->actors->start(); !started) return failure(std::move(started.error()));
  auto ended = wait_for_end(*running, parts, interrupted);
  if (auto stopped = running->actors->stop(); !stopped && ended)
    ended = failure(std::move(stopped.error()));
  program->append(run_finished_event{reason_of(ended, parts.output->done_reason())});
  if (auto synced = log->sync(); !synced && ended) return failure(std::move(synced.error()));
  return ended;
}

} // namespace weir
