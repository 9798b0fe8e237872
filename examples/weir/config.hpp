/// The configuration of a run, as plain structs that mirror the YAML file block by block.
///
/// The initial values below are the defaults. Meaning, range and what may change on resume are in
/// the table (config_table.cpp), from which messages and CONFIG.md are made as well.
///
/// Three keys follow others when they are not written: `min_groups_for_streaming_train` and
/// `max_inflight_prompts` follow N, `max_buffered_rollouts` follows N x (W + 1).
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct grpo_config {
  std::uint64_t num_prompts_per_step = 32;
  std::uint64_t num_generations_per_prompt = 16;
  std::uint64_t max_num_steps = 1'000'000;
  std::optional<std::uint64_t> max_num_epochs = 1;
  std::uint64_t max_rollout_turns = 1;
  bool normalize_rewards = true;
  bool use_leave_one_out_baseline = true;
  std::optional<double> advantage_clip_low;
  std::optional<double> advantage_clip_high;
  std::uint64_t val_period = 0;
  bool val_at_start = false;
  bool val_at_end = false;
  std::uint64_t seed = 42;

  friend bool operator==(const grpo_config&, const grpo_config&) = default;
};

struct loss_config {
  double ratio_clip_min = 0.2;
  double ratio_clip_max = 0.2;
  std::optional<double> ratio_clip_c;
  bool use_importance_sampling_correction = true;
  std::optional<double> importance_sampling_max;
  double reference_policy_kl_penalty = 0;
  bool token_level_loss = true;
  std::optional<double> seq_logprob_error_threshold;

  friend bool operator==(const loss_config&, const loss_config&) = default;
};

struct architecture_config {
  std::uint64_t hidden = 128;
  std::uint64_t layers = 4;
  std::uint64_t heads = 4;
  std::uint64_t kv_heads = 4;
  std::uint64_t ffn = 384;
  std::uint64_t context = 128;

  friend bool operator==(const architecture_config&, const architecture_config&) = default;
};

struct optimizer_config {
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;

  friend bool operator==(const optimizer_config&, const optimizer_config&) = default;
};

struct warmup_config {
  std::uint64_t max_steps = 0;
  std::optional<double> stop_at_reward;
  std::uint64_t check_every = 5;
  std::uint64_t batch_size = 64;
  std::optional<double> lr;

  friend bool operator==(const warmup_config&, const warmup_config&) = default;
};

enum class device_kind : std::uint8_t { automatic, cpu, cuda };

struct generation_config {
  std::uint64_t generators = 1;
  std::uint64_t max_batch_size = 64;
  std::uint64_t max_new_tokens = 32;
  double temperature = 1;
  std::optional<std::uint64_t> top_k;
  double top_p = 1;
  double min_p = 0;
  std::vector<std::string> stop;
  device_kind device = device_kind::automatic;

  friend bool operator==(const generation_config&, const generation_config&) = default;
};

struct policy_config {
  std::optional<std::string> model;
  architecture_config architecture;
  std::string tokenizer = "byte";
  optimizer_config optimizer;
  double max_grad_norm = 1;
  warmup_config warmup;
  generation_config generation;

  friend bool operator==(const policy_config&, const policy_config&) = default;
};

struct dataset_config {
  std::optional<std::string> path;
  std::string input_key = "question";
  std::optional<std::string> output_key = "answer";

  friend bool operator==(const dataset_config&, const dataset_config&) = default;
};

struct data_config {
  dataset_config train;
  dataset_config validation;
  bool shuffle = true;
  std::string prompt_template = "{input}";

  friend bool operator==(const data_config&, const data_config&) = default;
};

enum class env_kind : std::uint8_t { exact_answer, command };

struct exact_answer_config {
  double exact = 1;
  double number_credit = 0.05;
  double concise_credit = 0.05;
  double closeness_credit = 0.1;
  double length_credit = 0.05;
  double digit_credit = 0;

  friend bool operator==(const exact_answer_config&, const exact_answer_config&) = default;
};

struct env_config {
  env_kind kind = env_kind::exact_answer;
  std::vector<std::string> command;
  std::uint64_t workers = 1;
  exact_answer_config exact_answer;

  friend bool operator==(const env_config&, const env_config&) = default;
};

enum class sampler_kind : std::uint8_t { in_order, weight_fifo, ready_first, windowed, custom };

struct sampler_config {
  sampler_kind name = sampler_kind::in_order;
  std::uint64_t max_lookahead_versions = 1;
  std::uint64_t max_staleness_versions = 1;
  bool sample_freshest_first = false;
  std::optional<std::string> target;

  friend bool operator==(const sampler_config&, const sampler_config&) = default;
};

enum class weight_update_kind : std::uint8_t { in_flight, pinned };
enum class dropped_prompt_action : std::uint8_t { shrink, replace };

struct rollout_failure_config {
  std::uint64_t max_infra_attempts_per_prompt = 5;
  std::uint64_t max_data_attempts_per_prompt = 2;
  double backoff_base_s = 1;
  double max_backoff_s = 30;
  std::uint64_t max_skipped_prompts = 0;
  std::uint64_t max_consecutive_dropped_prompts = 0;
  double min_step_batch_fraction = 0.9;
  dropped_prompt_action on_dropped_prompt = dropped_prompt_action::shrink;
  std::uint64_t max_replacement_attempts = 1;
  std::uint64_t replacement_reserve_prompts = 1;
  double generation_timeout_s = 300;
  double env_timeout_s = 60;
  double rollout_timeout_s = 500;

  friend bool operator==(const rollout_failure_config&, const rollout_failure_config&) = default;
};

enum class stall_action_kind : std::uint8_t { abort, warn };

struct stall_watchdog_config {
  double interval_s = 30;
  double stall_timeout_s = 600;
  stall_action_kind stall_action = stall_action_kind::abort;

  friend bool operator==(const stall_watchdog_config&, const stall_watchdog_config&) = default;
};

struct generator_health_config {
  double probe_interval_s = 5;
  double probe_timeout_s = 2;
  std::uint64_t unhealthy_threshold = 3;
  std::uint64_t healthy_threshold = 2;
  std::uint64_t min_healthy = 1;

  friend bool operator==(const generator_health_config&, const generator_health_config&) = default;
};

struct async_rl_config {
  sampler_config sampler;
  std::uint64_t max_inflight_prompts = 32;
  std::uint64_t max_buffered_rollouts = 64;
  std::uint64_t min_groups_for_streaming_train = 32;
  weight_update_kind weight_update = weight_update_kind::in_flight;
  bool recompute_kv_cache_after_weight_updates = false;
  rollout_failure_config rollout_failure;
  stall_watchdog_config stall_watchdog;
  generator_health_config generator_health;

  friend bool operator==(const async_rl_config&, const async_rl_config&) = default;
};

enum class data_plane_backend : std::uint8_t { simple };

struct data_plane_config {
  bool enabled = true;
  data_plane_backend backend = data_plane_backend::simple;
  std::uint64_t capacity_bytes = 1ULL << 30;
  std::uint64_t segment_bytes = 64ULL << 20;
  std::optional<std::string> spill_dir;
  std::uint64_t spill_bytes = 0;

  friend bool operator==(const data_plane_config&, const data_plane_config&) = default;
};

enum class recovery_level : std::uint8_t { group };

/// The values are those of `dataplane::disk_kind`.
enum class checkpoint_disk : std::uint8_t { automatic, posix, io_uring };

struct checkpointing_config {
  bool enabled = true;
  std::string checkpoint_dir = "run/checkpoints";
  std::optional<std::string> metric_name;
  bool higher_is_better = true;
  std::uint64_t keep_top_k = 3;
  std::uint64_t save_period = 10;
  std::optional<double> save_interval_s;
  std::optional<std::string> checkpoint_must_save_by;
  bool save_optimizer = true;
  bool save_data_plane = true;
  std::uint64_t full_every = 8;
  std::optional<std::uint64_t> write_bytes_per_s = std::uint64_t{256} << 20;
  double quiesce_timeout_s = 5;
  double capture_timeout_s = 5;
  recovery_level recovery = recovery_level::group;
  checkpoint_disk disk = checkpoint_disk::posix;

  friend bool operator==(const checkpointing_config&, const checkpointing_config&) = default;
};

enum class logger_level : std::uint8_t { trace, debug, info, warning, error };

struct logger_config {
  std::optional<std::string> log_dir;
  logger_level level = logger_level::info;
  std::optional<std::uint64_t> metrics_port;
  bool trace = false;

  friend bool operator==(const logger_config&, const logger_config&) = default;
};

/// All of it.
struct run_config {
  grpo_config grpo;
  loss_config loss_fn;
  policy_config policy;
  data_config data;
  env_config env;
  async_rl_config async_rl;
  data_plane_config data_plane;
  checkpointing_config checkpointing;
  logger_config logger;

  friend bool operator==(const run_config&, const run_config&) = default;
};

/// How many weight versions generation may run ahead of training: W of the configured sampler.
[[nodiscard]] std::uint64_t window_versions(const sampler_config& sampler);
/// True if the sampler stamps groups with the step that they are for.
[[nodiscard]] bool stamps_groups(sampler_kind name);
/// True if two runs of this configuration end with the same bits: W = 0, or pinned weights.
[[nodiscard]] bool is_reproducible(const run_config& config);
/// Seconds of a "DD:HH:MM:SS" text.
[[nodiscard]] result<std::uint64_t> seconds_of(std::string_view days_hours_minutes_seconds);

/// Where a configuration comes from. Relative paths in the text are relative to `directory`, those
/// in overrides to `working_directory`.
struct config_source {
  std::string name;
  std::string text;
  std::string directory = ".";
  /// "a.b=c", as given to --set; the last one of a key wins.
  std::vector<std::string> overrides = {};
  std::string working_directory = ".";
};

/// A configuration that passed every check, and what deserves a look.
struct checked_config {
  run_config config;
  std::vector<std::string> warnings;
  /// Where each value comes from, by its key: "grpo.yaml:12", "--set grpo.seed=3", or "follows "
  /// and another key. Keys that are not here have their defaults.
  std::map<std::string, std::string, std::less<>> origins = {};
};

/// Reads, resolves and validates. The error has one line per finding; each names the place (file
/// and line, or --set), the key, the value, and what is expected.
[[nodiscard]] result<checked_config> parse_config(const config_source& source);

/// The same for a file. Errors: not_found, io_failed, and those of `parse_config`.
[[nodiscard]] result<checked_config> load_config(const std::string& path,
                                                 std::vector<std::string> overrides);

/// Every contradiction between keys, naming both; and warnings.
struct config_findings {
  std::vector<std::string> contradictions;
  std::vector<std::string> warnings;
};
[[nodiscard]] config_findings validate(const run_config& config);

/// The resolved configuration, every key in the table's order: parses back to the same value.
[[nodiscard]] std::string to_yaml(const run_config& config);
/// The same, with a comment after each value that says where it comes from.
[[nodiscard]] std::string to_yaml(const checked_config& read);

} // namespace weir
