#include "examples/weir/unavailable.hpp"
#include "tests/weir/config_support.hpp"

using namespace weir;
using namespace weir::test;

namespace {

/// Overrides of the minimal configuration, and what the refusal must name.
struct rule {
  std::vector<std::string> overrides;
  std::vector<std::string> named;
};

const std::string failure_block = "async_rl.rollout_failure.";

/// Each rule is refused alone, in one line that names every key with its value.
void check_refused(const std::vector<rule>& rules) {
  for (const rule& one : rules) {
    const std::string text = contradiction(one.overrides);
    CAPTURE(text);
    CHECK(text.starts_with("run.yaml: "));
    CHECK(text.find('\n') == std::string::npos);
    for (const std::string& name : one.named) {
      CAPTURE(name);
      CHECK(text.find(name) != std::string::npos);
    }
  }
}

} // namespace

TEST_SUITE_BEGIN("weir/config_rules");

TEST_CASE("contradictions of training and policy are refused, naming both keys") {
  check_refused({
      {{"grpo.num_generations_per_prompt=1", "grpo.normalize_rewards=false"},
       {"grpo.use_leave_one_out_baseline (true)", "grpo.num_generations_per_prompt (1)"}},
      {{"grpo.num_generations_per_prompt=1", "grpo.use_leave_one_out_baseline=false"},
       {"grpo.normalize_rewards (true)", "grpo.num_generations_per_prompt (1)"}},
      {{"grpo.advantage_clip_low=2", "grpo.advantage_clip_high=1"},
       {"grpo.advantage_clip_low (2.0)", "grpo.advantage_clip_high (1.0)"}},
      {{"grpo.val_period=5"}, {"grpo.val_period (5)", "data.validation.path (null)"}},
      {{"data.validation.path=v.jsonl"},
       {"data.validation.path (\"/work/v.jsonl\")", "grpo.val_period"}},
      {{"loss_fn.importance_sampling_max=2", "loss_fn.use_importance_sampling_correction=false"},
       {"loss_fn.importance_sampling_max (2.0)",
        "loss_fn.use_importance_sampling_correction (false)"}},
      {{"policy.architecture.heads=3", "policy.architecture.kv_heads=3"},
       {"policy.architecture.heads (3)", "policy.architecture.hidden (128)"}},
      {{"policy.architecture.heads=128", "policy.architecture.kv_heads=128"},
       {"policy.architecture.hidden (128)", "must be even"}},
      {{"policy.architecture.kv_heads=3"},
       {"policy.architecture.kv_heads (3)", "policy.architecture.heads (4)"}},
      {{"policy.generation.max_new_tokens=128"},
       {"policy.generation.max_new_tokens (128)", "policy.architecture.context (128)"}},
      {{"policy.generation.temperature=0.00005"},
       {"policy.generation.temperature (0.00005)", "0 (greedy)"}},
      {{"policy.warmup.stop_at_reward=0.3"},
       {"policy.warmup.stop_at_reward (0.3)", "policy.warmup.max_steps (0)"}},
  });
}

TEST_CASE("contradictions of data and environment are refused, naming both keys") {
  check_refused({
      {{"data.train.output_key=question"},
       {"data.train.input_key (\"question\")", "data.train.output_key (\"question\")"}},
      {{"data.prompt_template=Q"}, {"data.prompt_template (\"Q\")", "{input}"}},
      {{"data.train.output_key=null"}, {"env.kind (exact_answer)", "data.train.output_key (null)"}},
      {{"data.validation.output_key=null", "data.validation.path=v.jsonl", "grpo.val_at_end=true"},
       {"env.kind (exact_answer)", "data.validation.output_key (null)"}},
      {{"env.kind=command"}, {"env.kind (command)", "env.command ([])"}},
      {{"env.kind=exact_answer", "env.command=[a]"},
       {"env.command ([\"a\"])", "env.kind (exact_answer)"}},
      {{"env.exact_answer.exact=0.2"}, {"number_credit", "env.exact_answer.exact (0.2)"}},
      {{"env.exact_answer.digit_credit=1"}, {"digit_credit", "env.exact_answer.exact (1.0)"}},
  });
}

TEST_CASE("contradictions of sampler and weights are refused, naming both keys") {
  check_refused({
      {{"async_rl.sampler.name=windowed", "async_rl.sampler.max_lookahead_versions=2"},
       {"async_rl.sampler.max_lookahead_versions (2)", "async_rl.sampler.name (windowed)"}},
      {{"async_rl.sampler.max_staleness_versions=2"},
       {"async_rl.sampler.max_staleness_versions (2)", "async_rl.sampler.name (in_order)"}},
      {{"async_rl.sampler.sample_freshest_first=true"},
       {"async_rl.sampler.sample_freshest_first (true)", "async_rl.sampler.name (in_order)"}},
      {{"async_rl.sampler.name=custom"}, {"async_rl.sampler.name (custom)", "sampler.target"}},
      {{"async_rl.sampler.target=x"},
       {"async_rl.sampler.target (\"x\")", "async_rl.sampler.name (in_order)"}},
      {{"async_rl.weight_update=pinned", "async_rl.sampler.name=windowed"},
       {"async_rl.weight_update (pinned)", "async_rl.sampler.name (windowed)"}},
      {{"async_rl.weight_update=pinned", failure_block + "on_dropped_prompt=replace"},
       {"async_rl.weight_update (pinned)", failure_block + "on_dropped_prompt (replace)"}},
      {{"async_rl.sampler.name=ready_first", "loss_fn.use_importance_sampling_correction=false"},
       {"async_rl.sampler.name (ready_first)",
        "loss_fn.use_importance_sampling_correction (false)"}},
  });
}

TEST_CASE("contradictions of buffers and failures are refused, naming both keys") {
  check_refused({
      {{"async_rl.min_groups_for_streaming_train=33"},
       {"async_rl.min_groups_for_streaming_train (33)", "grpo.num_prompts_per_step (32)"}},
      {{"async_rl.max_buffered_rollouts=63"},
       {"async_rl.max_buffered_rollouts (63)", "grpo.num_prompts_per_step (32)", "= 64"}},
      {{"async_rl.sampler.name=windowed", "async_rl.max_buffered_rollouts=31"},
       {"async_rl.max_buffered_rollouts (31)", "grpo.num_prompts_per_step (32)"}},
      {{failure_block + "max_backoff_s=0.5"},
       {failure_block + "max_backoff_s (0.5)", failure_block + "backoff_base_s (1.0)"}},
      {{failure_block + "max_skipped_prompts=1", "async_rl.sampler.name=ready_first"},
       {failure_block + "max_skipped_prompts (1)", "async_rl.sampler.name (ready_first)"}},
      {{failure_block + "max_consecutive_dropped_prompts=1", "async_rl.sampler.name=weight_fifo"},
       {failure_block + "max_consecutive_dropped_prompts (1)",
        "async_rl.sampler.name (weight_fifo)"}},
      {{failure_block + "on_dropped_prompt=replace", failure_block + "max_replacement_attempts=0"},
       {failure_block + "on_dropped_prompt (replace)",
        failure_block + "max_replacement_attempts (0)"}},
      {{failure_block + "on_dropped_prompt=replace",
        failure_block + "replacement_reserve_prompts=0"},
       {failure_block + "on_dropped_prompt (replace)",
        failure_block + "replacement_reserve_prompts (0)"}},
  });
}

TEST_CASE("contradictions of deadlines, data plane and checkpoints are refused, naming both keys") {
  check_refused({
      {{failure_block + "rollout_timeout_s=600"},
       {failure_block + "rollout_timeout_s (600.0)",
        "async_rl.stall_watchdog.stall_timeout_s (600.0)"}},
      {{failure_block + "generation_timeout_s=700"},
       {failure_block + "generation_timeout_s (700.0)"}},
      {{failure_block + "env_timeout_s=700"}, {failure_block + "env_timeout_s (700.0)"}},
      {{"checkpointing.quiesce_timeout_s=600"},
       {"checkpointing.quiesce_timeout_s (600.0)", "stall_timeout_s (600.0)"}},
      {{"async_rl.generator_health.probe_timeout_s=5"},
       {"probe_timeout_s (5.0)", "probe_interval_s (5.0)"}},
      {{"async_rl.generator_health.min_healthy=2"},
       {"min_healthy (2)", "policy.generation.generators (1)"}},
      {{"data_plane.enabled=false"},
       {"data_plane.enabled (false)", "checkpointing.save_data_plane (true)"}},
      {{"data_plane.enabled=false", "checkpointing.enabled=false"}, {"data_plane.enabled (false)"}},
      {{"checkpointing.save_data_plane=false"},
       {"checkpointing.save_data_plane (false)", "async_rl.sampler.name (in_order)"}},
      {{"data_plane.capacity_bytes=32 MiB"},
       {"data_plane.capacity_bytes (33554432)", "data_plane.segment_bytes (67108864)"}},
      {{"data_plane.spill_bytes=1"}, {"data_plane.spill_bytes (1)", "data_plane.spill_dir (null)"}},
      {{"data_plane.spill_dir=/spill", "data_plane.spill_bytes=1",
        "data_plane.capacity_bytes=65536", "data_plane.segment_bytes=65536"},
       {"data_plane.spill_dir (", "would stay empty", "data_plane.capacity_bytes (65536)",
        "data_plane.segment_bytes (65536)"}},
      {{"data_plane.spill_dir=/spill"},
       {"data_plane.spill_dir (", "has no room", "data_plane.spill_bytes (0)"}},
      {{"checkpointing.metric_name=val:loss"},
       {"checkpointing.metric_name (\"val:loss\")", "train:reward, val:reward or val:accuracy"}},
      {{"checkpointing.metric_name=val:reward"},
       {"checkpointing.metric_name (\"val:reward\")", "grpo.val_period (0)"}},
      {{"checkpointing.metric_name=val:accuracy", "grpo.val_period=10", "env.command=[a]",
        "data.validation.path=v.jsonl"},
       {"checkpointing.metric_name (\"val:accuracy\")", "env.kind (command)"}},
      {{"checkpointing.checkpoint_must_save_by=soon"},
       {"checkpointing.checkpoint_must_save_by", "DD:HH:MM:SS"}},
      {{"checkpointing.enabled=false", "checkpointing.save_data_plane=false",
        "checkpointing.checkpoint_must_save_by=00:03:45:00"},
       {"checkpointing.checkpoint_must_save_by (\"00:03:45:00\") needs "
        "checkpointing.enabled (false) to be true"}},
      {{"checkpointing.enabled=false", "checkpointing.save_data_plane=false",
        "checkpointing.save_interval_s=60"},
       {"checkpointing.save_interval_s (60", "checkpointing.enabled (false)"}},
  });
}

TEST_CASE("what is on the right side of each rule is accepted") {
  std::ignore = accepted({"async_rl.max_buffered_rollouts=64"});
  std::ignore =
      accepted({"async_rl.sampler.max_lookahead_versions=0", "async_rl.max_buffered_rollouts=32"});
  std::ignore = accepted({"async_rl.sampler.name=windowed", "async_rl.max_buffered_rollouts=32"});
  std::ignore = accepted({"async_rl.weight_update=pinned"});
  std::ignore = accepted({"async_rl.rollout_failure.on_dropped_prompt=replace",
                          "async_rl.rollout_failure.max_skipped_prompts=3"});
  std::ignore = accepted({"async_rl.sampler.name=ready_first"});
  std::ignore = accepted({"grpo.val_period=5", "data.validation.path=v.jsonl"});
  std::ignore = accepted({"data_plane.enabled=true", "data_plane.backend=simple"});
  std::ignore = accepted({"checkpointing.enabled=false", "checkpointing.save_data_plane=false"});
  std::ignore = accepted({"checkpointing.metric_name=train:reward",
                          "checkpointing.checkpoint_must_save_by=00:03:45:00",
                          "checkpointing.save_interval_s=60"});
  std::ignore = accepted({"checkpointing.write_bytes_per_s=64 MiB"});
  std::ignore = accepted({"checkpointing.write_bytes_per_s=null"});
}

TEST_CASE("what is legal and questionable is a warning") {
  const auto warnings = [](std::vector<std::string> overrides) {
    const auto read = read_config(minimal, std::move(overrides));
    REQUIRE(read.has_value());
    REQUIRE(read->warnings.size() == 1);
    return read->warnings[0];
  };
  CHECK(mentions(warnings({"loss_fn.use_importance_sampling_correction=false"}),
                 {"W is 1", "async_rl.sampler.name (in_order)", "off-policy"}));
  CHECK(mentions(warnings({"checkpointing.enabled=false"}), {"nothing of this run survives"}));
  CHECK(mentions(warnings({"checkpointing.save_optimizer=false"}), {"other weights"}));
  CHECK(mentions(warnings({"checkpointing.metric_name=val:reward", "grpo.val_period=4",
                           "data.validation.path=v.jsonl"}),
                 {"checkpointing.save_period (10)", "grpo.val_period (4)", "no val:reward"}));
}

TEST_CASE("what this build cannot act on is named with its value and a way out") {
  CHECK(unavailable(accepted({})).empty());
  const auto gaps = unavailable(accepted({"grpo.max_rollout_turns=2", "logger.trace=true"}));
  CHECK(gaps ==
        std::vector<std::string>{"grpo.max_rollout_turns (2) is not available in this build; use 1",
                                 "logger.trace (true) is not available in this build; use false"});
}

TEST_CASE("a run is reproducible when it is synchronous or its weights are pinned") {
  CHECK_FALSE(is_reproducible(accepted({})));
  CHECK(is_reproducible(accepted({"async_rl.sampler.max_lookahead_versions=0"})));
  CHECK(is_reproducible(accepted({"async_rl.weight_update=pinned"})));
  CHECK(is_reproducible(
      accepted({"async_rl.sampler.name=windowed", "async_rl.sampler.max_staleness_versions=0"})));
}

TEST_SUITE_END();
