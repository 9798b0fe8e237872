/// The validators of rollouts, each with the exact text that a user reads.
#include "tests/weir/config_support.hpp"

using namespace weir;
using namespace weir::test;

namespace {

const std::string rl = "async_rl.";
const std::string sampler = "async_rl.sampler.name=";
const std::string failures = "async_rl.rollout_failure.";
const std::string health = "async_rl.generator_health.";
const std::string stall = "async_rl.stall_watchdog.stall_timeout_s";

/// Each is refused, in one line that says this.
struct refused {
  std::vector<std::string> overrides;
  std::string text;
};

void check_texts(const std::vector<refused>& rules) {
  for (const refused& rule : rules)
    CHECK(contradiction(rule.overrides) == "run.yaml: " + rule.text);
}

} // namespace

TEST_SUITE_BEGIN("weir/rollout_rules");

TEST_CASE("buffers hold what samplers need") {
  check_texts({
      {{rl + "min_groups_for_streaming_train=33"},
       "async_rl.min_groups_for_streaming_train (33) exceeds grpo.num_prompts_per_step (32): no "
       "step would ever fill it"},
      {{rl + "max_buffered_rollouts=63"},
       "async_rl.max_buffered_rollouts (63) is too small for async_rl.sampler.name (in_order) with "
       "W = 1: grpo.num_prompts_per_step (32) x (W + 1) = 64 groups must fit"},
      {{sampler + "weight_fifo", "async_rl.sampler.max_staleness_versions=2",
        rl + "max_buffered_rollouts=95"},
       "async_rl.max_buffered_rollouts (95) is too small for async_rl.sampler.name (weight_fifo) "
       "with W = 2: grpo.num_prompts_per_step (32) x (W + 1) = 96 groups must fit"},
      {{sampler + "ready_first", rl + "max_buffered_rollouts=63"},
       "async_rl.max_buffered_rollouts (63) is too small for async_rl.sampler.name (ready_first) "
       "with W = 1: grpo.num_prompts_per_step (32) x (W + 1) = 64 groups must fit"},
      {{sampler + "windowed", rl + "max_buffered_rollouts=31"},
       "async_rl.max_buffered_rollouts (31) is too small: grpo.num_prompts_per_step (32) and "
       "async_rl.min_groups_for_streaming_train (32) must fit"},
  });
}

TEST_CASE("every deadline is below the stall timeout") {
  for (const auto& [key, shown] : std::vector<std::pair<std::string, std::string>>{
           {failures + "generation_timeout_s", "600.0"},
           {failures + "env_timeout_s", "600.0"},
           {failures + "rollout_timeout_s", "600.0"},
           {failures + "max_backoff_s", "600.0"},
           {"checkpointing.quiesce_timeout_s", "600.0"},
           {"checkpointing.capture_timeout_s", "600.0"},
           {"async_rl.stall_watchdog.interval_s", "600.0"}})
    CHECK(contradiction({key + "=600"}) ==
          "run.yaml: " + key + " (" + shown + ") must be below " + stall +
              " (600.0): waiting for it would be taken for a stall");
  CHECK(contradiction({health + "probe_timeout_s=600", health + "probe_interval_s=601"}) ==
        "run.yaml: " + health + "probe_timeout_s (600.0) must be below " + stall +
            " (600.0): waiting for it would be taken for a stall");
}

TEST_CASE("probes end before the next one begins, back-off grows") {
  check_texts({
      {{health + "probe_timeout_s=5"},
       "async_rl.generator_health.probe_timeout_s (5.0) must be below "
       "async_rl.generator_health.probe_interval_s (5.0)"},
      {{health + "min_healthy=2"},
       "async_rl.generator_health.min_healthy (2) exceeds policy.generation.generators (1)"},
      {{failures + "max_backoff_s=0.5"},
       "async_rl.rollout_failure.max_backoff_s (0.5) is below "
       "async_rl.rollout_failure.backoff_base_s (1.0)"},
  });
}

TEST_CASE("drop budgets need a sampler that stamps") {
  check_texts({
      {{failures + "max_skipped_prompts=1", sampler + "windowed"},
       "async_rl.rollout_failure.max_skipped_prompts (1) needs a sampler that stamps groups, such "
       "as in_order; got async_rl.sampler.name (windowed)"},
      {{failures + "max_consecutive_dropped_prompts=1", sampler + "ready_first"},
       "async_rl.rollout_failure.max_consecutive_dropped_prompts (1) needs a sampler that stamps "
       "groups, such as in_order; got async_rl.sampler.name (ready_first)"},
  });
}

TEST_CASE("replacement needs attempts and a reserve") {
  check_texts({
      {{failures + "on_dropped_prompt=replace", failures + "max_replacement_attempts=0"},
       "async_rl.rollout_failure.on_dropped_prompt (replace) needs "
       "async_rl.rollout_failure.max_replacement_attempts (0) to be at least 1"},
      {{failures + "on_dropped_prompt=replace", failures + "replacement_reserve_prompts=0"},
       "async_rl.rollout_failure.on_dropped_prompt (replace) needs "
       "async_rl.rollout_failure.replacement_reserve_prompts (0) to be at least 1"},
  });
}

TEST_CASE("pinned weights need stamps, and cross no pins") {
  check_texts({
      {{rl + "weight_update=pinned", sampler + "weight_fifo"},
       "async_rl.weight_update (pinned) needs a sampler that stamps groups, such as in_order; got "
       "async_rl.sampler.name (weight_fifo)"},
      {{rl + "weight_update=pinned", failures + "on_dropped_prompt=replace"},
       "async_rl.weight_update (pinned) contradicts async_rl.rollout_failure.on_dropped_prompt "
       "(replace): a replacement would cross pins; use shrink"},
  });
}

TEST_CASE("mixed versions need the correction; look-ahead without it is worth a warning") {
  check_texts({
      {{sampler + "ready_first", "loss_fn.use_importance_sampling_correction=false"},
       "async_rl.sampler.name (ready_first) mixes versions: it needs "
       "loss_fn.use_importance_sampling_correction (false) to be true"},
  });
  const auto read = read_config(minimal, {"loss_fn.use_importance_sampling_correction=false"});
  REQUIRE(read.has_value());
  CHECK(read->warnings ==
        std::vector<std::string>{
            "W is 1 (async_rl.sampler.name (in_order)) and "
            "loss_fn.use_importance_sampling_correction (false): off-policy tokens are trained as "
            "if they were on-policy"});
  const auto synchronous = read_config(minimal, {"loss_fn.use_importance_sampling_correction=false",
                                                 "async_rl.sampler.max_lookahead_versions=0"});
  REQUIRE(synchronous.has_value());
  CHECK(synchronous->warnings.empty());
}

TEST_CASE("words of the data plane are read, and contradictions refused") {
  check_texts({
      {{"data_plane.enabled=false"},
       "data_plane.enabled (false) contradicts checkpointing.save_data_plane (true): there would "
       "be no rollouts to save"},
      {{"checkpointing.save_data_plane=false"},
       "checkpointing.save_data_plane (false) contradicts async_rl.sampler.name (in_order): a "
       "resumed run would lose the prompts in flight; set it to true"},
  });
  CHECK(contradiction({"data_plane.backend=mooncake"}) ==
        "--set data_plane.backend=mooncake: data_plane.backend: mooncake is not one of simple");
}

TEST_CASE("keys of another single controller: renamed ones, blocks without a counterpart once") {
  const std::string text = minimal +
                           "defaults: base.yaml\n"
                           "async_rl:\n"
                           "  min_groups_for_streaming_train: ${grpo.num_prompts_per_step}\n"
                           "  rollout_failure:\n"
                           "    native: {generation_timeout_s: 60}\n"
                           "    nemo_gym: {max_row_attempts: 3}\n"
                           "  generation_fleet_health: {min_healthy_shards: 1, enabled: true}\n"
                           "  stall_watchdog: {stall_action: warn, gym_subprocess_check: true}\n"
                           "cluster: {gpus_per_node: 2, num_nodes: 1}\n"
                           "logger: {wandb: {name: dev, project: p}}\n"
                           "grpo: {async_grpo: null, max_num_epoch: 1}\n";
  CHECK(
      refusal(text) ==
      "run.yaml:2: defaults: has no counterpart here: files are not merged here; write the keys "
      "into this one\n"
      "run.yaml:4: async_rl.min_groups_for_streaming_train: ${grpo.num_prompts_per_step} refers to "
      "another key, which is not done here; write its value, or leave the key out\n"
      "run.yaml:6: async_rl.rollout_failure.native.generation_timeout_s: is called "
      "async_rl.rollout_failure.generation_timeout_s here\n"
      "run.yaml:7: async_rl.rollout_failure.nemo_gym: has no counterpart here: name an environment "
      "by env.kind, or a program by env.command\n"
      "run.yaml:8: async_rl.generation_fleet_health.min_healthy_shards: is called "
      "async_rl.generator_health.min_healthy here\n"
      "run.yaml:8: async_rl.generation_fleet_health: has no counterpart here: generators are "
      "always probed; remove it\n"
      "run.yaml:9: async_rl.stall_watchdog.gym_subprocess_check: has no counterpart here: programs "
      "of env.command are always watched; remove it\n"
      "run.yaml:10: cluster: has no counterpart here: weir runs on this machine; remove the block\n"
      "run.yaml:11: logger.wandb: has no counterpart here: metrics are in metrics.jsonl; remove "
      "it\n"
      "run.yaml:12: grpo.async_grpo: has no counterpart here: set async_rl.sampler\n"
      "run.yaml:12: grpo.max_num_epoch: unknown key; did you mean grpo.max_num_epochs?");
}

TEST_CASE("check says where each value comes from") {
  const auto read = read_config(minimal + "grpo:\n  seed: 7\n", {"grpo.val_at_end=false"});
  REQUIRE(read.has_value());
  const std::string text = to_yaml(*read);
  CHECK(
      mentions(text, {"  seed: 7 # run.yaml:3\n", "val_at_end: false # --set grpo.val_at_end=false",
                      "num_prompts_per_step: 32 # default\n",
                      "max_inflight_prompts: 32 # follows grpo.num_prompts_per_step\n"}));
  CHECK(read_config(text).has_value());
}

TEST_SUITE_END();
