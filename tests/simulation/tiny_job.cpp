#include "tests/simulation/tiny_job.hpp"

#include "actors/sampler/custom_sampler.hpp"
#include "tests/simulation/pool_stream.hpp"
#include "tests/simulation/relays.hpp"
#include "tests/simulation/scripted_generator.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <cstdio>
#include <utility>

namespace weir::sim {

namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

std::shared_ptr<const dataset> make_dataset(const run_plan& plan) {
  std::string lines;
  for (std::uint64_t i = 0; i < plan.dataset; ++i)
    lines += "{\"question\": \"q" + std::to_string(i) + "\", \"answer\": \"" + std::to_string(i) +
             "\"}\n";
  auto records = dataset::parse("problems.jsonl", std::move(lines), {});
  ensure(records.has_value(), "the dataset of a simulation is well formed");
  return std::make_shared<const dataset>(std::move(*records));
}

/// A built-in sampler, or one of a shared object: "libmine.so:my_sampler".
std::shared_ptr<const sampler_policy> make_policy_of(const run_plan& plan,
                                                     const sampler_choice& sampler) {
  if (!is_built_in_sampler(sampler.name)) {
    auto custom = make_custom_sampler(
        sampler.name, {}, {.window = sampler.window, .groups_per_step = plan.groups_per_step});
    if (!custom) std::fprintf(stderr, "%s\n", custom.error().text.c_str());
    ensure(custom.has_value(), "a plan names a sampler that can be loaded");
    return *custom;
  }
  sampler_options options;
  options.name = sampler.name;
  options.max_lookahead_versions = static_cast<std::int64_t>(sampler.window);
  options.max_staleness_versions = static_cast<std::int64_t>(sampler.window);
  auto policy = make_sampler_policy(options);
  ensure(policy.has_value(), "the window of a plan is valid");
  return *policy;
}

rollout_options rollout_options_of(const run_plan& plan, const sampler_policy& policy) {
  rollout_options options;
  options.limits.groups_per_step = plan.groups_per_step;
  options.limits.inflight_max = plan.inflight_max;
  options.limits.stamps = policy.stamps();
  options.siblings = plan.siblings;
  if (plan.losses_one_in > 0) { // Each is noticed by its deadline alone.
    options.generation_timeout = seconds(20);
    options.env_timeout = seconds(10);
    options.gate_timeout = seconds(10);
    options.rollout_timeout = seconds(60);
  }
  options.max_new_tokens = static_cast<std::uint32_t>(plan.tokens_max);
  if (policy.stamps()) options.limits.reserve_low = plan.reserve_low;
  // Crashes and failures are many here and no prompt's fault: none is given up unless asked.
  options.failures.max_infra_attempts_per_prompt =
      plan.infra_attempts > 0 ? plan.infra_attempts : 10'000;
  options.failures.max_skipped_prompts = drops_prompts(plan) ? 10'000 : 0;
  options.failures.max_consecutive_dropped_prompts = drops_prompts(plan) ? 10'000 : 0;
  if (drops_prompts(plan)) options.failures.min_step_batch_fraction = 0.0;
  options.failures.replace_dropped_prompts = plan.reserve_low > 0;
  options.failures.max_replacement_attempts = plan.replacement_attempts;
  options.failures.replacement_reserve_prompts = plan.reserve_low;
  options.failures.max_dispatches_per_attempt = 0;
  options.failures.backoff_base_ns = 1'000'000;
  options.failures.backoff_max_ns = 20'000'000;
  return options;
}

text_codec make_codec() {
  text_codec codec;
  codec.encode = [](std::string_view text) {
    return std::vector<std::int32_t>(text.begin(), text.end());
  };
  codec.decode = [](std::span<const std::int32_t> tokens) {
    std::string text;
    for (const std::int32_t token : tokens)
      text += std::to_string(token) + " ";
    return text;
  };
  return codec;
}

trainer_options trainer_options_of(const run_plan& plan) {
  trainer_options options;
  options.max_num_steps = plan.steps_max;
  options.save_period = plan.save_period;
  if (plan.losses_one_in > 0) options.batch_timeout = seconds(10);
  if (plan.chunk_min > 0) options.groups_per_chunk_min = plan.chunk_min;
  options.warmup.max_steps = plan.warm_up ? 3 : 0;
  options.warmup.check_every = 2;
  if (plan.warm_up) options.warmup.stop_at_reward = 10.0;
  return options;
}

checkpoint_options checkpoint_options_of(const run_plan& plan) {
  checkpoint_options options;
  options.barrier.quiesce_timeout_ns = plan.barrier_timeout.count();
  options.barrier.capture_timeout_ns = plan.barrier_timeout.count();
  options.barrier.resume_timeout_ns = plan.barrier_timeout.count();
  options.barrier.hold_limit_ns = plan.hold_limit.count();
  options.schedule.save_period = 0;
  return options;
}

bundle_store_options bundle_options_of(const run_plan& plan) {
  bundle_store_options options;
  options.checkpoint_directory = checkpoint_directory_path;
  options.metric_name = "train:reward";
  options.retention.keep_top_k = plan.keep_top_k;
  return options;
}

dataplane::store_options row_options_of(const run_plan& plan) {
  dataplane::store_options options;
  options.segment_bytes = 4096;
  options.capacity_bytes = 1U << 20U;
  options.high_water_bytes = plan.store_bytes;
  return options;
}

/// A number that depends on every token, so that mixed-up rewards show in the policy.
result<scoring_reply> score(const scoring_request& request, const run_plan& plan) {
  std::uint64_t record = 0;
  for (const char letter : request.answer)
    record = record * 10 + static_cast<unsigned char>(letter);
  const bool of_warm_up = request.answer == "answer"; // Without it there is nothing to measure.
  if (plan.bad_prompts_one_in > 0 && !of_warm_up &&
      detail::mixed(plan.seed ^ record) % plan.bad_prompts_one_in == 0)
    return failure(errc::invalid_argument, "prompt " + request.answer + " cannot be scored");
  std::uint64_t hash = request.group;
  for (const char letter : request.completion)
    hash = detail::mixed(hash ^ static_cast<unsigned char>(letter));
  return scoring_reply{static_cast<float>(hash % 8) / 8.0F, true, {}};
}

main_job_parts parts_of(const run_plan& plan, const sampler_choice& sampler, world& env,
                        const std::shared_ptr<observed>& seen) {
  scripted_generator_options script;
  script.run_seed = plan.seed;
  script.tokens_max = plan.tokens_max;
  script.versions_kept = plan.pinned ? sampler.window + 1 : 1;
  script.log_normal_lengths = plan.log_normal_lengths;
  script.token_lag = plan.token_lag;
  script.weights_lag = plan.weights_lag;
  script.failures_one_in = plan.failures_one_in;
  script.silences_one_in = plan.silences_one_in;
  script.deaths_one_in = plan.deaths_one_in;
  script.deaf_after = plan.deaf_after;
  main_job_parts parts;
  parts.generator =
      [script](graph& actors, const supervised_group& group, const std::string& name,
               std::shared_ptr<run_counters> counters) -> result<handle<generator_protocol>> {
    return actors.add<scripted_generator>(group, name, script, std::move(counters));
  };
  parts.environment = [plan]() -> result<scorer> {
    return scorer{[plan](const scoring_request& request) { return score(request, plan); }, false};
  };
  parts.observer = [plan, seen](graph& actors, std::shared_ptr<run_counters>) {
    if (plan.checkpoint_death_pause.count() > 0)
      actors.add<reaper>("reaper", plan.checkpoint_death_pause, seen);
    return actors.add<watcher>("watcher", plan.save_pause, seen);
  };
  parts.trainer_device = [&env]() -> result<std::shared_ptr<kernels::device_stream>> {
    return std::make_shared<pool_stream>(env.pool());
  };
  return parts;
}

} // namespace

main_job tiny_job(const run_plan& plan, const sampler_choice& sampler, world& env,
                  const std::shared_ptr<observed>& seen) {
  main_job job;
  job.records = make_dataset(plan);
  job.policy = make_policy_of(plan, sampler);
  // Dropping replay takes the next attempt of what was READY, once in three lives; a changed
  // sampler that of what is too old for it.
  const bool made_again = plan.drops_replay || !plan.later_samplers.empty();
  const std::uint32_t attempts = made_again ? 16 : 1;
  job.learning = std::make_shared<tiny_learner>(
      tiny_learner_options{plan.seed, plan.dataset, plan.siblings, attempts});
  job.first_policy = make_policy(tiny_policy());
  job.read_policy = &read_tiny_policy;
  job.read_version = &read_tiny_version;
  job.loader.shuffle_seed = plan.seed;
  job.loader.max_num_epochs = plan.epochs;
  job.rollout = rollout_options_of(plan, *job.policy);
  job.codec = make_codec();
  job.replay.groups_buffered_max = plan.buffered_max;
  job.replay.ready_prefix_only = sampler.window == 0 || plan.pinned;
  job.rows = row_options_of(plan);
  job.trainer = trainer_options_of(plan);
  if (plan.pinned) {
    job.rollout.pins = weight_pins{.window = sampler.window, .oldest = 0};
    job.trainer.earlier_versions = sampler.window;
  }
  job.checkpoint = checkpoint_options_of(plan);
  job.bundles = bundle_options_of(plan);
  job.writing.full_every = 1 + plan.seed % 5;
  job.generators = plan.generators;
  job.generator_restarts.restarts_max = 1'000'000; // Deaths are many here.
  job.generator_restarts.backoff = std::chrono::milliseconds(1);
  job.generator_restarts.backoff_max = std::chrono::milliseconds(20);
  job.checkpoint_restarts = job.generator_restarts;
  job.environments = plan.environments;
  job.relays = relays_of(plan);
  job.parts = parts_of(plan, sampler, env, seen);
  return job;
}

result<std::shared_ptr<dataplane::run_directory>> open_run_directory(dataplane::disk& storage) {
  auto held = dataplane::run_directory::acquire(storage, run_directory_path, {{1, "host"}, "now"});
  if (!held) return failure(std::move(held.error()));
  if (auto made = dataplane::make_directories(storage, checkpoint_directory_path); !made)
    return failure(std::move(made.error()));
  return std::make_shared<dataplane::run_directory>(std::move(*held));
}

restore_request request_of(const run_plan& plan, const main_job& job) {
  restore_request request;
  request.run_directory = run_directory_path;
  request.checkpoint_directory = checkpoint_directory_path;
  request.policy = job.policy;
  request.groups_per_step = plan.groups_per_step;
  request.find_prompt = prompt_lookup_of(job);
  return request;
}

} // namespace weir::sim
