/// What other systems' files say: keys that have another name here, and blocks that have none.
#include "examples/weir/config_table.hpp"

namespace weir {

namespace {

constexpr renamed_key renamed[] = {
    {"async_rl.generation_fleet_health.healthy_threshold",
     "async_rl.generator_health.healthy_threshold"},
    {"async_rl.generation_fleet_health.min_healthy_shards",
     "async_rl.generator_health.min_healthy"},
    {"async_rl.generation_fleet_health.probe_interval_s",
     "async_rl.generator_health.probe_interval_s"},
    {"async_rl.generation_fleet_health.probe_timeout_s",
     "async_rl.generator_health.probe_timeout_s"},
    {"async_rl.generation_fleet_health.unhealthy_threshold",
     "async_rl.generator_health.unhealthy_threshold"},
    {"async_rl.in_flight_weight_updates", "async_rl.weight_update"},
    {"async_rl.max_lookahead_versions", "async_rl.sampler.max_lookahead_versions"},
    {"async_rl.max_staleness_versions", "async_rl.sampler.max_staleness_versions"},
    {"async_rl.recovery", "checkpointing.recovery"},
    {"async_rl.rollout_failure.native.env_timeout_s", "async_rl.rollout_failure.env_timeout_s"},
    {"async_rl.rollout_failure.native.generation_timeout_s",
     "async_rl.rollout_failure.generation_timeout_s"},
    {"async_rl.rollout_failure.nemo_gym.rollout_timeout_s",
     "async_rl.rollout_failure.rollout_timeout_s"},
    {"async_rl.sampler.kind", "async_rl.sampler.name"},
    {"checkpointing.checkpoint_every", "checkpointing.save_period"},
    {"checkpointing.save_top_k", "checkpointing.keep_top_k"},
    {"data.dataset_path", "data.train.path"},
    {"data.input_key", "data.train.input_key"},
    {"data.output_key", "data.train.output_key"},
    {"data.train.data_path", "data.train.path"},
    {"data.train_data_path", "data.train.path"},
    {"data.val_data_path", "data.validation.path"},
    {"data.max_input_seq_length", "policy.architecture.context"},
    {"data_plane.storage_capacity", "data_plane.capacity_bytes"},
    {"env.num_workers", "env.workers"},
    {"grpo.async_grpo.max_trajectory_age_steps", "async_rl.sampler.max_lookahead_versions"},
    {"grpo.max_steps", "grpo.max_num_steps"},
    {"grpo.num_steps", "grpo.max_num_steps"},
    {"loss_fn.ratio_eps_max", "loss_fn.ratio_clip_max"},
    {"loss_fn.ratio_eps_min", "loss_fn.ratio_clip_min"},
    {"policy.max_total_sequence_length", "policy.architecture.context"},
    {"policy.model_name", "policy.model"},
    {"policy.optimizer.kwargs.eps", "policy.optimizer.eps"},
    {"policy.optimizer.kwargs.lr", "policy.optimizer.lr"},
    {"policy.optimizer.kwargs.weight_decay", "policy.optimizer.weight_decay"},
    {"policy.tokenizer.name", "policy.tokenizer"},
    {"rollout_checkpointing.interval_s", "checkpointing.save_interval_s"},
    {"rollout_checkpointing.keep_latest_k", "checkpointing.keep_top_k"},
    {"rollout_recovery.default_granularity", "checkpointing.recovery"},
};

constexpr std::string_view own_model = "the model is weir's own; remove it";
constexpr std::string_view own_metrics = "metrics are in metrics.jsonl; remove it";
constexpr std::string_view own_environment =
    "name an environment by env.kind, or a program by env.command";

/// The longest path that fits counts.
constexpr foreign_block foreign[] = {
    {"async_rl.diagnostics", "set logger.level to debug"},
    {"async_rl.generation_fleet_health", "generators are always probed; remove it"},
    {"async_rl.generation_router", "generators share one process; remove it"},
    {"async_rl.rollout_failure.nemo_gym", own_environment},
    {"async_rl.stall_watchdog.gym_subprocess_check",
     "programs of env.command are always watched; remove it"},
    {"cluster", "weir runs on this machine; remove the block"},
    {"data_plane.impl", "data_plane.backend is simple; remove it"},
    {"defaults", "files are not merged here; write the keys into this one"},
    {"env.math", own_environment},
    {"grpo.async_grpo", "set async_rl.sampler"},
    {"logger.mlflow", own_metrics},
    {"logger.mlflow_enabled", own_metrics},
    {"logger.monitor_gpus", own_metrics},
    {"logger.gpu_monitoring", own_metrics},
    {"logger.num_val_samples_to_print", own_metrics},
    {"logger.swanlab", own_metrics},
    {"logger.swanlab_enabled", own_metrics},
    {"logger.tensorboard", own_metrics},
    {"logger.tensorboard_enabled", own_metrics},
    {"logger.wandb", own_metrics},
    {"logger.wandb_enabled", own_metrics},
    {"policy.dtensor_cfg", own_model},
    {"policy.dynamic_batching", own_model},
    {"policy.generation.backend", own_model},
    {"policy.generation.colocated", own_model},
    {"policy.generation.mcore_generation_config", own_model},
    {"policy.generation.vllm_cfg", own_model},
    {"policy.hf_config_overrides", own_model},
    {"policy.logprob_batch_size", own_model},
    {"policy.megatron_cfg", own_model},
    {"policy.optimizer.kwargs.betas", "write policy.optimizer.beta1 and policy.optimizer.beta2"},
    {"policy.precision", own_model},
    {"policy.scheduler", own_model},
    {"policy.sequence_packing", own_model},
    {"policy.train_global_batch_size", own_model},
    {"policy.train_micro_batch_size", own_model},
    {"reward_penalties", own_environment},
    {"rollout_checkpointing", "every bundle holds the rollouts; remove it"},
    {"rollout_recovery", "set checkpointing.recovery"},
    {"token_capture", "every rollout is recovered; remove the block"},
};

} // namespace

std::span<const renamed_key> renamed_keys() {
  return renamed;
}

std::span<const foreign_block> foreign_blocks() {
  return foreign;
}

} // namespace weir
