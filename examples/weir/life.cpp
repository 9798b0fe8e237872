#include "examples/weir/life.hpp"

#include "actors/generator/generator.hpp"
#include "actors/sampler/checked_policy.hpp"
#include "examples/weir/observer.hpp"
#include "kernels/device_stream.hpp"
#include "kernels/parallel.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace weir {

namespace {

constexpr std::chrono::nanoseconds poll_period = std::chrono::milliseconds(100);

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

dataplane::store_options row_options_of(const job& work,
                                        const std::shared_ptr<run_output>& output) {
  const run_config& config = work.config;
  dataplane::store_options options;
  options.segment_bytes = config.data_plane.segment_bytes;
  options.capacity_bytes = config.data_plane.capacity_bytes;
  options.high_water_bytes = config.data_plane.capacity_bytes / 8 * 7;
  options.spill = work.spill;
  options.spill_failed = [output](const error& why) {
    output->log(log_level::warning, "data plane",
                "rollouts stay in memory, since they cannot be spilled: " + to_string(why));
  };
  return options;
}

result<std::shared_ptr<kernels::device_stream>> shared_stream(const kernels::device& where) {
  auto stream = kernels::device_stream::create(where, {.niceness = 10});
  if (!stream) return failure(std::move(stream.error()));
  return std::shared_ptr<kernels::device_stream>(std::move(*stream));
}

/// Versions before the newest that are kept: W with pinned weights.
std::uint64_t earlier_versions(const run_config& config) {
  const bool pinned = config.async_rl.weight_update == weight_update_kind::pinned;
  return pinned ? window_versions(config.async_rl.sampler) : 0;
}

result<std::shared_ptr<kernels::decoder>> make_decoder(const job& work) {
  const generation_config& config = work.config.policy.generation;
  kernels::decoder_options options;
  options.max_sequences = static_cast<std::uint32_t>(config.max_batch_size);
  options.threads = kernels::hardware_threads();
  options.recompute_on_update = work.config.async_rl.recompute_kv_cache_after_weight_updates;
  options.earlier_versions = static_cast<std::uint32_t>(earlier_versions(work.config));
  options.where = work.device.chosen;
  auto decoder = kernels::decoder::create(work.model, options);
  if (!decoder) return failure(std::move(decoder.error()));
  return std::shared_ptr<kernels::decoder>(std::move(*decoder));
}

result<generator_engine> make_engine(const job& work, std::shared_ptr<run_counters> counters) {
  auto device = shared_stream(work.device.chosen);
  if (!device) return failure(std::move(device.error()));
  return generator_engine{[&work] { return make_decoder(work); }, std::move(*device),
                          std::move(counters)};
}

std::int64_t nanoseconds(double count) {
  return seconds(count).count();
}

checkpoint_options checkpoint_options_of(const run_config& config) {
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
  return options;
}

write_rules write_rules_of(const run_config& config) {
  write_rules rules;
  rules.full_every = config.checkpointing.full_every;
  rules.bytes_per_second = config.checkpointing.write_bytes_per_s.value_or(0);
  return rules;
}

bundle_store_options bundle_options_of(const run_config& config) {
  bundle_store_options options;
  options.checkpoint_directory = config.checkpointing.checkpoint_dir;
  options.metric_name = config.checkpointing.metric_name.value_or("train:reward");
  options.retention.keep_top_k = config.checkpointing.keep_top_k;
  if (config.checkpointing.metric_name)
    options.retention.order = config.checkpointing.higher_is_better
                                  ? dataplane::retention_order::higher_metric
                                  : dataplane::retention_order::lower_metric;
  return options;
}

watchdog_options watchdog_options_of(const run_config& config) {
  const stall_watchdog_config& from = config.async_rl.stall_watchdog;
  watchdog_options options;
  options.interval = seconds(from.interval_s);
  options.stall_timeout = seconds(from.stall_timeout_s);
  options.action =
      from.stall_action == stall_action_kind::abort ? stall_action::abort : stall_action::warn;
  return options;
}

validation_schedule validation_schedule_of(const run_config& config) {
  validation_schedule when;
  when.period = config.grpo.val_period;
  when.at_start = config.grpo.val_at_start;
  when.at_end = config.grpo.val_at_end;
  const std::string metric = config.checkpointing.metric_name.value_or("");
  if (metric == "val:reward") when.metric = kept_by::val_reward;
  if (metric == "val:accuracy") when.metric = kept_by::val_accuracy;
  return when;
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
  options.groups_per_chunk_min = config.async_rl.min_groups_for_streaming_train;
  options.earlier_versions = earlier_versions(config);
  options.watchdog = watchdog_options_of(config);
  options.attendance =
      std::min(options.attendance, seconds(config.async_rl.stall_watchdog.stall_timeout_s) / 4);
  options.validation = validation_schedule_of(config);
  return options;
}

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

result<policy_ptr> restored_version(const job& work, const restored_states& states,
                                    weight_version version) {
  const std::string path = version_directory(version) + "model.safetensors";
  const auto file = states.policy.find(path);
  if (file == states.policy.end()) return failure(errc::corrupt, path + ": is not in the bundle");
  return read_version(version, file->second, work.model);
}

/// Where the actors of this job come from: the real model on its device, and the program's output.
main_job_parts parts_of(const job& work, const std::shared_ptr<run_output>& output) {
  main_job_parts parts;
  parts.generator =
      [&work](graph& actors, const supervised_group& group, const std::string& name,
              std::shared_ptr<run_counters> counters) -> result<handle<generator_protocol>> {
    auto engine = make_engine(work, std::move(counters));
    if (!engine) return failure(std::move(engine.error()));
    return actors.add<generator>(
        group, name, generator_options{work.config.grpo.seed, work.sampling, work.stop_tokens},
        std::move(*engine));
  };
  parts.environment = [&work] { return scoring_of(work.config); };
  const permit_limits limits{work.config.async_rl.max_inflight_prompts,
                             work.config.async_rl.max_buffered_rollouts};
  parts.observer = [output, limits](graph& actors, std::shared_ptr<run_counters> counters) {
    return actors.add<observer>("observer", output, std::move(counters), limits);
  };
  parts.trainer_device = [] { return shared_stream(kernels::device()); };
  return parts;
}

finish_reason reason_of(const result<life_end>& ended, const std::string& words) {
  if (!ended) return finish_reason::failed;
  if (*ended == life_end::interrupted) return finish_reason::stopped;
  return words == "the data ended" ? finish_reason::end_of_data : finish_reason::steps_reached;
}

/// Saves on a signal; a run that cannot be saved now is still interrupted, and starts again from
/// its newest bundle.
void save_now(composed_life& running, run_output& output) {
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

result<life_end> wait_for_end(composed_life& running, const life_parts& parts,
                              const std::function<bool()>& interrupted) {
  run_output& output = *parts.output;
  while (true) {
    auto ended = running.actors->wait_blocking(poll_period);
    if (ended) return output.job_done() ? life_end::done : life_end::interrupted;
    if (ended.error().code != errc::timed_out || !ended.error().origin.empty())
      return failure(std::move(ended.error()));
    if (!interrupted()) continue;
    save_now(running, output);
    return life_end::interrupted;
  }
}

} // namespace

main_job main_job_of(const job& work, const std::shared_ptr<run_output>& output) {
  const run_config& config = work.config;
  main_job made;
  made.records = work.records;
  made.policy = work.policy;
  made.learning = work.learner;
  made.first_policy = work.first_policy;
  made.read_policy = [&work](const restored_states& states) {
    return restored_policy(work, states);
  };
  made.read_version = [&work](const restored_states& states, weight_version version) {
    return restored_version(work, states, version);
  };
  made.loader = loader_options_of(config);
  made.rollout = rollout_options_of(config);
  made.rollout.limits.stamps = work.policy->stamps(); // A custom sampler's, too.
  if (!work.policy->stamps()) made.rollout.limits.reserve_low = 0;
  made.codec = text_codec_of(work);
  made.held_out = work.held_out;
  made.validation = validation_options_of(config);
  made.replay = replay_options_of(config);
  made.rows = row_options_of(work, output);
  made.trainer = trainer_options_of(config);
  made.checkpoint = checkpoint_options_of(config);
  made.bundles = bundle_options_of(config);
  made.writing = write_rules_of(config);
  made.generators = config.policy.generation.generators;
  made.environments = config.env.workers;
  made.parts = parts_of(work, output);
  return made;
}

result<life_end> live(life_parts parts, const std::function<bool()>& interrupted) {
  main_job work = main_job_of(parts.work, parts.output);
  work.checkpoint.schedule.started_ns = parts.started_ns;
  work.record_checkpoint = [output = parts.output, life = parts.begun.life](
                               const checkpoint_record& record) { output->record(record, life); };
  work.record_failed_checkpoint = [output = parts.output, life = parts.begun.life](
                                      const error& why) { output->record_failure(why, life); };
  auto running = compose_life(work, parts.env, parts.begun, parts.directory);
  if (!running) return failure(std::move(running.error()));
  running->actors->watch(watchdog_options_of(parts.work.config));
  if (auto started = running->actors->start(); !started) return failure(std::move(started.error()));
  auto ended = wait_for_end(*running, parts, interrupted);
  auto stopped = running->actors->stop();
  // An actor that a policy keeps does not end: say which, before the process dies of it.
  if (const auto asked = unanswered(*work.policy); asked && !stopped)
    parts.output->log(log_level::error, "program", *asked);
  if (!stopped && ended) ended = failure(std::move(stopped.error()));
  auto logged = end_life(*running, reason_of(ended, parts.output->done_reason()));
  if (!logged && ended) return failure(std::move(logged.error()));
  return ended;
}

} // namespace weir
