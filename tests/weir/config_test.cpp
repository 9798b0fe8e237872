#include "tests/support/temp_dir.hpp"
#include "tests/weir/config_support.hpp"

#include <filesystem>
#include <fstream>

using namespace weir;
using namespace weir::test;

TEST_SUITE_BEGIN("weir/config");

TEST_CASE("a minimal file gives the defaults") {
  run_config expected;
  expected.data.train.path = "/base/problems.jsonl";
  expected.checkpointing.checkpoint_dir = "/base/run/checkpoints";
  const auto read = read_config(minimal);
  REQUIRE(read.has_value());
  CHECK(read->config == expected);
  CHECK(read->warnings.empty());
}

TEST_CASE("blocks, flow style, anchors and merge keys are read alike") {
  const auto read = read_config(R"(
grpo: &base
  num_prompts_per_step: 16
  seed: 7
data:
  train: {path: a.jsonl, input_key: problem}
policy:
  optimizer:
    <<: {lr: 0.5, beta1: 0.25}
    lr: 1e-4
  generation: {stop: ["\n", end]}
loss_fn:
env: ~
)");
  REQUIRE(read.has_value());
  CHECK(read->config.grpo.num_prompts_per_step == 16);
  CHECK(read->config.grpo.seed == 7);
  CHECK(read->config.data.train.input_key == "problem");
  CHECK(read->config.policy.optimizer.lr == 1e-4);
  CHECK(read->config.policy.optimizer.beta1 == 0.25);
  CHECK(read->config.policy.generation.stop == std::vector<std::string>{"\n", "end"});
}

TEST_CASE("keys that follow others do so unless they are written") {
  const run_config followed = accepted({"grpo.num_prompts_per_step=8"});
  CHECK(followed.async_rl.min_groups_for_streaming_train == 8);
  CHECK(followed.async_rl.max_inflight_prompts == 8);
  CHECK(followed.async_rl.max_buffered_rollouts == 16);
  const run_config ahead =
      accepted({"grpo.num_prompts_per_step=8", "async_rl.sampler.max_lookahead_versions=3"});
  CHECK(ahead.async_rl.max_buffered_rollouts == 32);
  const run_config written =
      accepted({"grpo.num_prompts_per_step=8", "async_rl.max_buffered_rollouts=99",
                "async_rl.min_groups_for_streaming_train=2"});
  CHECK(written.async_rl.max_buffered_rollouts == 99);
  CHECK(written.async_rl.min_groups_for_streaming_train == 2);
  CHECK(accepted({"env.command=[./score, -v]"}).env.kind == env_kind::command);
}

TEST_CASE("overrides win over the file, the last one of a key over the others") {
  const auto read = read_config(minimal + "grpo: {seed: 1}\n",
                                {"grpo.seed=2", "grpo.seed=3", "policy.generation={top_k: 5}"});
  REQUIRE(read.has_value());
  CHECK(read->config.grpo.seed == 3);
  CHECK(read->config.policy.generation.top_k == 5);
  CHECK(accepted({"grpo.max_num_epochs=null"}).grpo.max_num_epochs == std::nullopt);
  CHECK(accepted({"grpo.max_num_epochs="}).grpo.max_num_epochs == std::nullopt);
  CHECK(accepted({"data.prompt_template=\"{input} =\""}).data.prompt_template == "{input} =");
}

TEST_CASE("relative paths are relative to the file, in overrides to the working directory") {
  const auto read = read_config("data: {train: {path: ../a.jsonl}}\n"
                                "checkpointing: {checkpoint_dir: /abs/checkpoints}\n"
                                "policy: {tokenizer: tok/tokenizer.json}\n"
                                "env: {command: [tools/score, a/b]}\n",
                                {"logger.log_dir=logs"});
  REQUIRE(read.has_value());
  CHECK(read->config.data.train.path == "/a.jsonl");
  CHECK(read->config.checkpointing.checkpoint_dir == "/abs/checkpoints");
  CHECK(read->config.policy.tokenizer == "/base/tok/tokenizer.json");
  CHECK(read->config.logger.log_dir == "/work/logs");
  CHECK(read->config.env.command == std::vector<std::string>{"/base/tools/score", "a/b"});
  CHECK(accepted({"policy.tokenizer=byte"}).policy.tokenizer == "byte");
  CHECK(accepted({"env.command=[python3, ./a.py, -v, ../b]"}).env.command ==
        std::vector<std::string>{"python3", "/work/a.py", "-v", "/b"});
}

TEST_CASE("values are read as their type, in the ways that users write them") {
  CHECK(accepted({"policy.optimizer.lr=1"}).policy.optimizer.lr == 1.0);
  CHECK(accepted({"policy.optimizer.lr=+3.5e-4"}).policy.optimizer.lr == 3.5e-4);
  CHECK(accepted({"data.shuffle=no"}).data.shuffle == false);
  CHECK(accepted({"data.shuffle=True"}).data.shuffle);
  CHECK(accepted({"data_plane.capacity_bytes=128 MiB"}).data_plane.capacity_bytes == 128U << 20U);
  CHECK(accepted({"data_plane.capacity_bytes=\"2GiB\""}).data_plane.capacity_bytes == 2ULL << 30U);
  CHECK(accepted({"data.train.input_key=7"}).data.train.input_key == "7");
  CHECK(accepted({"data.train.input_key=\"null\""}).data.train.input_key == "null");
  CHECK(accepted({"policy.generation.device=cuda"}).policy.generation.device == device_kind::cuda);
  CHECK(accepted({"grpo.seed=18446744073709551615"}).grpo.seed == ~std::uint64_t{0});
}

TEST_CASE("a wrong value is refused with place, key, value and what is expected") {
  struct wrong {
    const char* setting;
    const char* reason;
  };
  const wrong values[] = {
      {"grpo.seed=abc", "abc is not a whole number (>= 0)"},
      {"grpo.seed=-1", "-1 is not a whole number"},
      {"grpo.seed=1.5", "1.5 is not a whole number"},
      {"grpo.seed=1e3", "1e3 is not a whole number"},
      {"grpo.seed=18446744073709551616", "is not a whole number"},
      {"grpo.seed=\"7\"", "the string \"7\" is not a whole number (>= 0); remove the quotes"},
      {"grpo.seed=null", "null is not a whole number"},
      {"grpo.seed=[1]", "a list is not a whole number"},
      {"grpo.seed={a: 1}", "a mapping is not a whole number"},
      {"grpo.num_prompts_per_step=0", "0 is not a whole number (1 to 1048576)"},
      {"grpo.max_num_epochs=0", "0 is not a whole number (>= 1), or null"},
      {"policy.optimizer.lr=\"1e-4\"", "\"1e-4\" is not a number (0 to 1); remove the quotes"},
      {"policy.optimizer.lr=.inf", ".inf is not a number"},
      {"policy.optimizer.lr=.nan", ".nan is not a number"},
      {"policy.optimizer.lr=inf", "inf is not a number"},
      {"policy.optimizer.lr=nan", "nan is not a number"},
      {"policy.optimizer.lr=1e999", "1e999 is not a number"},
      {"policy.optimizer.lr=0x1", "0x1 is not a number"},
      {"policy.optimizer.lr=2", "2 is not a number (0 to 1)"},
      {"policy.max_grad_norm=0", "0 is not a number (> 0)"},
      {"policy.generation.top_p=0", "0 is not a number (> 0, <= 1)"},
      {"data.shuffle=2", "2 is not true or false"},
      {"data.shuffle=\"true\"", "the string \"true\" is not true or false"},
      {"data.train.input_key=", "null is not text"},
      {"data.train.input_key=\"\"", "the string \"\" is not text"},
      {"policy.generation.stop=x", "x is not a list of texts"},
      {"policy.generation.stop=[[x]]", "a list is not a list of texts; item 1 is a list"},
      {"env.command=[a, \"\"]", "a list is not a list of texts; item 2 is the string \"\""},
      {"policy.optimizer.beta1=1", "1 is not a number (>= 0, < 1)"},
      {"policy.generation.temperature=1e300", "1e300 is not a number (0 to 10000)"},
      {"async_rl.rollout_failure.env_timeout_s=0", "0 is not a number (0.001 to 100000000)"},
      {"async_rl.rollout_failure.env_timeout_s=-1", "-1 is not a number (0.001 to 100000000)"},
      {"async_rl.stall_watchdog.interval_s=1e-300", "1e-300 is not a number (0.001 to"},
      {"async_rl.stall_watchdog.stall_timeout_s=1e10", "1e10 is not a number (0.001 to"},
      {"async_rl.rollout_failure.max_backoff_s=1e10", "1e10 is not a number (0 to 100000000)"},
      {"checkpointing.save_interval_s=1e300",
       "1e300 is not a number (0.001 to 100000000), or null"},
      {"async_rl.sampler.name=inorder", "inorder is not one of in_order, weight_fifo, ready_first"},
      {"data_plane.capacity_bytes=1 MB", "1 MB is not a number of bytes such as"},
      {"data_plane.capacity_bytes=99999999999 TiB", "is not a number of bytes"},
  };
  for (const auto& [setting, reason] : values) {
    const std::string text = contradiction({setting});
    const std::string key = std::string(setting).substr(0, std::string(setting).find('='));
    CAPTURE(text);
    CHECK(text.starts_with("--set " + std::string(setting) + ": " + key + ": "));
    CHECK(mentions(text, {reason}));
  }
}

TEST_CASE("findings of a file carry their line, all of them at once") {
  const std::string text = refusal("grpo:\n"
                                   "  seed: x\n"
                                   "  num_promts_per_step: 3\n"
                                   "data: {train: {path: a.jsonl}}\n");
  CHECK(mentions(text, {"run.yaml:2: grpo.seed: x is not",
                        "run.yaml:3: grpo.num_promts_per_step: unknown key; did you mean "
                        "grpo.num_prompts_per_step?"}));
}

TEST_CASE("an unknown key is answered with the nearest known one, a renamed one with its name") {
  CHECK(mentions(contradiction({"grp.seed=1"}), {"did you mean grpo.seed?"}));
  CHECK(mentions(contradiction({"lr=1"}), {"did you mean policy.optimizer.lr?"}));
  CHECK(mentions(contradiction({"async_rl.save_period=1"}),
                 {"did you mean checkpointing.save_period?"}));
  CHECK(mentions(contradiction({"zzzzzzzzzz=1"}), {"unknown key", "weir check --keys"}));
  CHECK(mentions(contradiction({"policy.model_name=x"}), {"is called policy.model here"}));
  CHECK(mentions(contradiction({"policy.optimizer.kwargs={lr: 1}"}),
                 {"policy.optimizer.kwargs.lr: is called policy.optimizer.lr here"}));
  CHECK(mentions(contradiction({"grpo=5"}), {"grpo: is a block"}));
  CHECK(mentions(contradiction({"grpo"}), {"expected KEY=VALUE"}));
  CHECK(mentions(contradiction({"=1"}), {"expected KEY=VALUE"}));
  CHECK(mentions(contradiction({"grpo.seed=[1"}), {"the value is not YAML"}));
  CHECK(mentions(contradiction({"grpo.seed=1\n---\n2"}), {"several YAML documents"}));
}

TEST_CASE("text that is no configuration is refused with its place and reason") {
  CHECK(mentions(refusal("grpo:\n\tseed: 1\n"), {"run.yaml:2: not YAML", "use spaces"}));
  CHECK(mentions(refusal("grpo: [1"), {"run.yaml:1: not YAML"}));
  CHECK(mentions(refusal("grpo: *nowhere"), {"run.yaml:1: not YAML", "anchor"}));
  CHECK(mentions(refusal("- a\n- b\n"), {"run.yaml: not a mapping"}));
  CHECK(mentions(refusal("text"), {"run.yaml: not a mapping"}));
  CHECK(mentions(refusal("a: 1\n---\nb: 2\n"), {"several YAML documents"}));
  CHECK(mentions(refusal("? [a]\n: 1\n"), {"run.yaml:1: a key of \"\" is no text"}));
  CHECK(mentions(refusal(""), {"data.train.path is not set"}));
  CHECK(mentions(refusal("\xEF\xBB\xBF# only a comment"), {"data.train.path is not set"}));
  CHECK(mentions(refusal(std::string((1U << 20U) + 1, '#')), {"are no configuration"}));
}

TEST_CASE("a key that stands twice is refused at its second place") {
  CHECK(mentions(refusal("grpo: {seed: 1}\ndata: {}\ngrpo: {seed: 2}\n"),
                 {"run.yaml:3: grpo stands twice"}));
  CHECK(mentions(refusal("grpo: {seed: 1}\ngrpo.seed: 2\n"),
                 {"run.yaml:2: grpo.seed is set twice; keep one of them"}));
  CHECK(mentions(refusal("grpo:\n  seed: 1\n  seed: 1\n"), {"run.yaml:3: grpo.seed stands twice"}));
}

TEST_CASE("aliases that contain themselves or multiply come to an end") {
  CHECK(mentions(refusal("a: &a {b: *a}\n"), {"does an alias contain itself?"}));
  CHECK(mentions(refusal("policy: {generation: {stop: &s [*s]}}\n"), {"a list is not a list"}));
  std::string laughs = "a0: &a0 {x: {}}\n";
  for (int level = 1; level < 12; ++level) {
    const std::string below = "*a" + std::to_string(level - 1);
    laughs += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " {p: " + below +
              ", q: " + below + ", r: " + below + ", s: " + below + "}\n";
  }
  CHECK(mentions(refusal(laughs), {"more than 10000 settings"}));
}

TEST_CASE("a file is read with its directory, and its absence is said") {
  const temp_dir directory;
  const std::string path = directory.file("run.yaml");
  std::ofstream(path) << minimal;
  const auto read = load_config(path, {});
  REQUIRE(read.has_value());
  CHECK(read->config.data.train.path == directory.file("problems.jsonl"));
  const auto missing = load_config(directory.file("none.yaml"), {});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == errc::not_found);
  CHECK(mentions(missing.error().text, {"none.yaml: there is no such file"}));
  CHECK(mentions(load_config(directory.path().string(), {}).error().text, {"is a directory"}));
  std::ofstream(path).close(); // Empty.
  CHECK(mentions(load_config(path, {}).error().text, {"data.train.path is not set"}));
}

TEST_CASE("days, hours, minutes and seconds are read strictly") {
  CHECK(seconds_of("00:03:45:00") == 13'500);
  CHECK(seconds_of("1:2:3:4") == 86'400 + 7'200 + 180 + 4);
  CHECK(seconds_of("00:00:00:00") == 0);
  for (const char* text : {"", ":", "03:45:00", "00:24:00:00", "00:00:60:00", "00:00:00:60",
                           "00:00:00:00:00", "a:0:0:0", "-1:0:0:0", "0:0:0:0 ", "0:0:0:"}) {
    CAPTURE(text);
    CHECK_FALSE(seconds_of(text).has_value());
  }
}

TEST_SUITE_END();
