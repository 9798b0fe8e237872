/// What keys must say together. Each contradiction names both keys, their values, and a way out.
#include "examples/weir/config_table.hpp"
#include "examples/weir/config_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weir {

namespace {

constexpr std::array<std::string_view, 3> metric_names = {"train:reward", "val:reward",
                                                          "val:accuracy"};

/// Collects findings. Keys are shown as "grpo.num_prompts_per_step (16)".
class rules {
public:
  explicit rules(const run_config& config) : config_(config) {}

  [[nodiscard]] config_findings check() &&;

private:
  [[nodiscard]] std::string shown(std::string_view path) const {
    const config_key* key = find_key(path);
    ensure(key != nullptr, "a rule is about keys of the table");
    return std::string(path) + " (" + format(*key, config_) + ")";
  }
  void refuse_if(bool contradiction, std::string text) {
    if (contradiction) found_.contradictions.push_back(std::move(text));
  }
  void warn_if(bool questionable, std::string text) {
    if (questionable) found_.warnings.push_back(std::move(text));
  }

  void check_training();
  void check_policy();
  void check_data();
  void check_environment();
  void check_sampler();
  void check_buffers();
  void check_failures();
  void check_deadlines();
  void check_storage();
  void check_metric();

  const run_config& config_;
  config_findings found_;
};

void rules::check_training() {
  const grpo_config& grpo = config_.grpo;
  const loss_config& loss = config_.loss_fn;
  refuse_if(grpo.use_leave_one_out_baseline && grpo.num_generations_per_prompt < 2,
            shown("grpo.use_leave_one_out_baseline") + " needs others to compare with: " +
                shown("grpo.num_generations_per_prompt") + " must be at least 2");
  refuse_if(grpo.normalize_rewards && grpo.num_generations_per_prompt < 2,
            shown("grpo.normalize_rewards") + " divides by a deviation within the group: " +
                shown("grpo.num_generations_per_prompt") + " must be at least 2");
  refuse_if(grpo.advantage_clip_low && grpo.advantage_clip_high &&
                *grpo.advantage_clip_low > *grpo.advantage_clip_high,
            shown("grpo.advantage_clip_low") + " exceeds " + shown("grpo.advantage_clip_high"));
  const bool validates = grpo.val_period > 0 || grpo.val_at_start || grpo.val_at_end;
  refuse_if(validates && !config_.data.validation.path,
            shown("grpo.val_period") + ", " + shown("grpo.val_at_start") + " and " +
                shown("grpo.val_at_end") + " ask for validation: set data.validation.path (null)");
  refuse_if(!validates && config_.data.validation.path,
            shown("data.validation.path") + " would not be read: set grpo.val_period, " +
                "grpo.val_at_start or grpo.val_at_end");
  refuse_if(!loss.use_importance_sampling_correction && loss.importance_sampling_max.has_value(),
            shown("loss_fn.importance_sampling_max") + " caps a weight that " +
                shown("loss_fn.use_importance_sampling_correction") + " turns off");
}

void rules::check_policy() {
  const architecture_config& shape = config_.policy.architecture;
  const bool heads_divide = shape.hidden % shape.heads == 0;
  refuse_if(!heads_divide, shown("policy.architecture.heads") + " must divide " +
                               shown("policy.architecture.hidden"));
  refuse_if(heads_divide && (shape.hidden / shape.heads) % 2 != 0,
            shown("policy.architecture.hidden") + " over " + shown("policy.architecture.heads") +
                " must be even: rotary embeddings turn pairs");
  refuse_if(shape.heads % shape.kv_heads != 0, shown("policy.architecture.kv_heads") +
                                                   " must divide " +
                                                   shown("policy.architecture.heads"));
  refuse_if(config_.policy.generation.max_new_tokens >= shape.context,
            shown("policy.generation.max_new_tokens") +
                " leaves no room for a prompt: it must be " + "below " +
                shown("policy.architecture.context"));
  constexpr double coldest = 0.0001; // Below, float logits overflow.
  const double temperature = config_.policy.generation.temperature;
  refuse_if(temperature > 0 && temperature < coldest,
            shown("policy.generation.temperature") + " must be 0 (greedy) or at least 0.0001");
  refuse_if(config_.policy.warmup.stop_at_reward.has_value() &&
                config_.policy.warmup.max_steps == 0,
            shown("policy.warmup.stop_at_reward") + " ends a warm-up that " +
                shown("policy.warmup.max_steps") + " turns off");
}

void rules::check_data() {
  const auto check = [this](const dataset_config& data, const std::string& block) {
    refuse_if(data.output_key == data.input_key,
              shown(block + ".input_key") + " and " + shown(block + ".output_key") +
                  " are the same: the prompt would hold the answer");
  };
  refuse_if(!config_.data.train.path, "data.train.path is not set; name a JSON Lines file");
  check(config_.data.train, "data.train");
  check(config_.data.validation, "data.validation");
  refuse_if(config_.data.prompt_template.find("{input}") == std::string::npos,
            shown("data.prompt_template") +
                " does not contain {input}: all prompts would be equal");
}

void rules::check_environment() {
  const env_config& env = config_.env;
  refuse_if(env.kind == env_kind::command && env.command.empty(),
            shown("env.kind") + " needs a program: set " + shown("env.command"));
  refuse_if(env.kind != env_kind::command && !env.command.empty(),
            shown("env.command") + " would not be run: set " + shown("env.kind") + " to command");
  const data_config& data = config_.data;
  refuse_if(env.kind == env_kind::exact_answer && !data.train.output_key,
            shown("env.kind") + " compares with an answer: set " + shown("data.train.output_key"));
  refuse_if(
      env.kind == env_kind::exact_answer && data.validation.path && !data.validation.output_key,
      shown("env.kind") + " compares with an answer: set " + shown("data.validation.output_key"));
  const exact_answer_config& pay = env.exact_answer;
  const double partial = pay.number_credit + pay.concise_credit + pay.closeness_credit +
                         pay.length_credit + pay.digit_credit;
  refuse_if(partial >= pay.exact, "env.exact_answer: number_credit, concise_credit, "
                                  "closeness_credit, length_credit and digit_credit sum to " +
                                      std::to_string(partial) + ", which must be less than " +
                                      shown("env.exact_answer.exact"));
}

void rules::check_sampler() {
  const sampler_config& sampler = config_.async_rl.sampler;
  const sampler_config defaults;
  const std::string name = shown("async_rl.sampler.name");
  const bool in_order = sampler.name == sampler_kind::in_order;
  const bool custom = sampler.name == sampler_kind::custom;
  refuse_if(!in_order && sampler.max_lookahead_versions != defaults.max_lookahead_versions,
            shown("async_rl.sampler.max_lookahead_versions") + " is a key of in_order; " + name +
                " takes async_rl.sampler.max_staleness_versions");
  refuse_if(in_order && sampler.max_staleness_versions != defaults.max_staleness_versions,
            shown("async_rl.sampler.max_staleness_versions") + " is no key of in_order; " + name +
                " takes async_rl.sampler.max_lookahead_versions");
  refuse_if(sampler.sample_freshest_first && sampler.name != sampler_kind::windowed,
            shown("async_rl.sampler.sample_freshest_first") + " is a key of windowed, not of " +
                name);
  refuse_if(custom && !sampler.target, name + " needs async_rl.sampler.target");
  refuse_if(!custom && sampler.target,
            shown("async_rl.sampler.target") + " would not be loaded: set " + name + " to custom");

  const bool pinned = config_.async_rl.weight_update == weight_update_kind::pinned;
  refuse_if(pinned && !stamps_groups(sampler.name),
            shown("async_rl.weight_update") +
                " needs a sampler that stamps groups, such as "
                "in_order; got " +
                name);
  refuse_if(pinned && config_.async_rl.rollout_failure.on_dropped_prompt ==
                          dropped_prompt_action::replace,
            shown("async_rl.weight_update") + " contradicts " +
                shown("async_rl.rollout_failure.on_dropped_prompt") +
                ": a replacement would cross pins; use shrink");
  const bool corrected = config_.loss_fn.use_importance_sampling_correction;
  refuse_if(sampler.name == sampler_kind::ready_first && !corrected,
            name + " mixes versions: it needs " +
                shown("loss_fn.use_importance_sampling_correction") + " to be true");
  warn_if(window_versions(sampler) > 0 && sampler.name != sampler_kind::ready_first && !corrected,
          "W is " + std::to_string(window_versions(sampler)) + " (" + name + ") and " +
              shown("loss_fn.use_importance_sampling_correction") +
              ": off-policy tokens are trained as if they were on-policy");
}

void rules::check_buffers() {
  const async_rl_config& async = config_.async_rl;
  const std::uint64_t groups = config_.grpo.num_prompts_per_step;
  refuse_if(async.min_groups_for_streaming_train > groups,
            shown("async_rl.min_groups_for_streaming_train") + " exceeds " +
                shown("grpo.num_prompts_per_step") + ": no step would ever fill it");
  const std::string buffered = shown("async_rl.max_buffered_rollouts");
  const std::uint64_t window = window_versions(async.sampler);
  const bool gated =
      async.sampler.name != sampler_kind::windowed && async.sampler.name != sampler_kind::custom;
  refuse_if(gated && async.max_buffered_rollouts < groups * (window + 1),
            buffered + " is too small for " + shown("async_rl.sampler.name") +
                " with W = " + std::to_string(window) + ": " + shown("grpo.num_prompts_per_step") +
                " x (W + 1) = " + std::to_string(groups * (window + 1)) + " groups must fit");
  refuse_if(!gated && async.max_buffered_rollouts <
                          std::max(groups, async.min_groups_for_streaming_train),
            buffered + " is too small: " + shown("grpo.num_prompts_per_step") + " and " +
                shown("async_rl.min_groups_for_streaming_train") + " must fit");
}

void rules::check_failures() {
  const rollout_failure_config& failure = config_.async_rl.rollout_failure;
  const std::string block = "async_rl.rollout_failure.";
  refuse_if(failure.max_backoff_s < failure.backoff_base_s,
            shown(block + "max_backoff_s") + " is below " + shown(block + "backoff_base_s"));
  const bool stamps = stamps_groups(config_.async_rl.sampler.name);
  for (const char* budget : {"max_skipped_prompts", "max_consecutive_dropped_prompts"}) {
    const bool positive = std::string_view(budget) == "max_skipped_prompts"
                              ? failure.max_skipped_prompts > 0
                              : failure.max_consecutive_dropped_prompts > 0;
    refuse_if(positive && !stamps,
              shown(block + budget) +
                  " needs a sampler that stamps groups, such as in_order; got " +
                  shown("async_rl.sampler.name"));
  }
  const bool replaces = failure.on_dropped_prompt == dropped_prompt_action::replace;
  refuse_if(replaces && failure.max_replacement_attempts == 0,
            shown(block + "on_dropped_prompt") + " needs " +
                shown(block + "max_replacement_attempts") + " to be at least 1");
  refuse_if(replaces && failure.replacement_reserve_prompts == 0,
            shown(block + "on_dropped_prompt") + " needs " +
                shown(block + "replacement_reserve_prompts") + " to be at least 1");
}

void rules::check_deadlines() {
  const stall_watchdog_config& watchdog = config_.async_rl.stall_watchdog;
  const rollout_failure_config& failure = config_.async_rl.rollout_failure;
  const std::string stall = "async_rl.stall_watchdog.stall_timeout_s";
  const std::array<std::pair<const char*, double>, 8> deadlines = {{
      {"async_rl.rollout_failure.generation_timeout_s", failure.generation_timeout_s},
      {"async_rl.rollout_failure.env_timeout_s", failure.env_timeout_s},
      {"async_rl.rollout_failure.rollout_timeout_s", failure.rollout_timeout_s},
      {"async_rl.rollout_failure.max_backoff_s", failure.max_backoff_s},
      {"async_rl.stall_watchdog.interval_s", watchdog.interval_s},
      {"async_rl.generator_health.probe_timeout_s",
       config_.async_rl.generator_health.probe_timeout_s},
      {"checkpointing.quiesce_timeout_s", config_.checkpointing.quiesce_timeout_s},
      {"checkpointing.capture_timeout_s", config_.checkpointing.capture_timeout_s},
  }};
  for (const auto& [path, seconds] : deadlines)
    refuse_if(seconds >= watchdog.stall_timeout_s,
              shown(path) + " must be below " + shown(stall) +
                  ": waiting for it would be taken for a stall");
  const generator_health_config& health = config_.async_rl.generator_health;
  refuse_if(health.probe_timeout_s >= health.probe_interval_s,
            shown("async_rl.generator_health.probe_timeout_s") + " must be below " +
                shown("async_rl.generator_health.probe_interval_s"));
  refuse_if(health.min_healthy > config_.policy.generation.generators,
            shown("async_rl.generator_health.min_healthy") + " exceeds " +
                shown("policy.generation.generators"));
}

void rules::check_storage() {
  const checkpointing_config& save = config_.checkpointing;
  const data_plane_config& plane = config_.data_plane;
  refuse_if(!plane.enabled && save.enabled && save.save_data_plane,
            shown("data_plane.enabled") + " contradicts " + shown("checkpointing.save_data_plane") +
                ": there would be no rollouts to save");
  refuse_if(!plane.enabled && !(save.enabled && save.save_data_plane),
            shown("data_plane.enabled") + ": rollouts live in the data plane; set it to true");
  refuse_if(save.enabled && !save.save_data_plane,
            shown("checkpointing.save_data_plane") + " contradicts " +
                shown("async_rl.sampler.name") +
                ": a resumed run would lose the prompts in flight; set it to true");
  refuse_if(plane.capacity_bytes < plane.segment_bytes,
            shown("data_plane.capacity_bytes") + " is below " + shown("data_plane.segment_bytes"));
  refuse_if(plane.spill_bytes > 0 && !plane.spill_dir,
            shown("data_plane.spill_bytes") + " needs " + shown("data_plane.spill_dir"));
  refuse_if(plane.spill_dir && plane.spill_bytes == 0, shown("data_plane.spill_dir") +
                                                           " has no room: raise " +
                                                           shown("data_plane.spill_bytes"));
  refuse_if(plane.spill_dir && plane.capacity_bytes < 2 * plane.segment_bytes,
            shown("data_plane.spill_dir") + " would stay empty, since only full segments spill: " +
                shown("data_plane.capacity_bytes") + " is below two of " +
                shown("data_plane.segment_bytes"));
  check_metric();
  if (save.checkpoint_must_save_by)
    if (const auto seconds = seconds_of(*save.checkpoint_must_save_by); !seconds)
      refuse_if(true, "checkpointing.checkpoint_must_save_by: " + seconds.error().text);
  refuse_if(!save.enabled && save.checkpoint_must_save_by,
            shown("checkpointing.checkpoint_must_save_by") + " needs " +
                shown("checkpointing.enabled") + " to be true: nothing could be saved by then");
  refuse_if(!save.enabled && save.save_interval_s, shown("checkpointing.save_interval_s") +
                                                       " needs " + shown("checkpointing.enabled") +
                                                       " to be true");
  warn_if(!save.enabled, shown("checkpointing.enabled") + ": nothing of this run survives a crash");
  warn_if(save.enabled && !save.save_optimizer,
          shown("checkpointing.save_optimizer") +
              ": a resumed run starts with empty moments and ends with other weights");
}

/// Bundles are kept by something that is measured.
void rules::check_metric() {
  const grpo_config& grpo = config_.grpo;
  const checkpointing_config& save = config_.checkpointing;
  if (!save.metric_name) return;
  const std::string name = shown("checkpointing.metric_name");
  const bool validation = save.metric_name->starts_with("val:");
  const bool known = std::ranges::find(metric_names, *save.metric_name) != metric_names.end();
  refuse_if(!known, name + " is not measured; expected train:reward, val:reward or val:accuracy");
  if (!known || !validation) return;
  refuse_if(grpo.val_period == 0 && !grpo.val_at_end,
            name + " needs validation runs: set " + shown("grpo.val_period"));
  refuse_if(*save.metric_name == "val:accuracy" && config_.env.kind == env_kind::command,
            name + " needs " + shown("env.kind") + " to say what is right; use val:reward");
  warn_if(grpo.val_period > 0 && save.save_period % grpo.val_period != 0,
          shown("checkpointing.save_period") + " is no multiple of " + shown("grpo.val_period") +
              ": bundles of steps without a validation run have no " + *save.metric_name +
              " and are the first to go");
}

config_findings rules::check() && {
  check_training();
  check_policy();
  check_data();
  check_environment();
  check_sampler();
  check_buffers();
  check_failures();
  check_deadlines();
  check_storage();
  return std::move(found_);
}

} // namespace

std::uint64_t window_versions(const sampler_config& sampler) {
  return sampler.name == sampler_kind::in_order ? sampler.max_lookahead_versions
                                                : sampler.max_staleness_versions;
}

bool stamps_groups(sampler_kind name) {
  // A custom sampler may stamp; whether it does is known once it is loaded.
  return name == sampler_kind::in_order || name == sampler_kind::custom;
}

bool is_reproducible(const run_config& config) {
  const async_rl_config& async = config.async_rl;
  return window_versions(async.sampler) == 0 || async.weight_update == weight_update_kind::pinned;
}

result<std::uint64_t> seconds_of(std::string_view text) {
  const std::string refusal = in_quotes(text) + " is no DD:HH:MM:SS, such as 00:03:45:00";
  constexpr std::array<std::uint64_t, 4> limit = {10'000, 24, 60, 60};
  constexpr std::array<std::uint64_t, 4> unit = {86'400, 3'600, 60, 1};
  std::uint64_t seconds = 0;
  for (std::size_t part = 0; part < limit.size(); ++part) {
    std::uint64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || number >= limit[part])
      return failure(errc::invalid_argument, refusal);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    seconds += number * unit[part];
    const bool last = part + 1 == limit.size();
    if (text.empty() != last || (!last && text.front() != ':'))
      return failure(errc::invalid_argument, refusal);
    if (!last) text.remove_prefix(1);
  }
  return seconds;
}

config_findings validate(const run_config& config) {
  return rules(config).check();
}

} // namespace weir
