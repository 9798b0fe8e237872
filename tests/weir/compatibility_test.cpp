#include "examples/weir/compatibility.hpp"
#include "tests/weir/config_support.hpp"

using namespace weir;
using namespace weir::test;

TEST_SUITE_BEGIN("weir/compatibility");

TEST_CASE("equal configurations differ in nothing") {
  CHECK(compatibility(accepted({}), accepted({})).empty());
  CHECK(require_compatible({}).has_value());
}

TEST_CASE("what would make it another run is refused, naming both values") {
  for (const char* change :
       {"grpo.num_prompts_per_step=16", "grpo.num_generations_per_prompt=8", "grpo.seed=1",
        "policy.architecture.hidden=64", "policy.tokenizer=tok.json", "data.train.input_key=q",
        "data.train.output_key=a", "data.shuffle=false", "data.prompt_template=\"{input}?\"",
        "async_rl.weight_update=pinned"}) {
    CAPTURE(change);
    const auto changes = compatibility(accepted({}), accepted({change}));
    const auto required = require_compatible(changes);
    REQUIRE_FALSE(required.has_value());
    CHECK(required.error().code == errc::conflict);
    const std::string path = std::string(change).substr(0, std::string(change).find('='));
    CHECK(mentions(required.error().text, {path, " -> ", "start a fresh run"}));
    CHECK(required.error().text.find('\n') == std::string::npos);
  }
}

TEST_CASE("what only steers the run may change, and is listed") {
  for (const char* change :
       {"grpo.max_num_steps=60", "grpo.max_num_epochs=null", "policy.optimizer.lr=0.1",
        "async_rl.sampler.max_lookahead_versions=0", "async_rl.sampler.name=windowed",
        "checkpointing.save_period=1", "checkpointing.checkpoint_dir=/elsewhere",
        "data.train.path=moved.jsonl", "policy.generation.temperature=0.5", "logger.level=debug",
        "policy.model=/models/x"}) {
    CAPTURE(change);
    const auto changes = compatibility(accepted({}), accepted({change}));
    REQUIRE_FALSE(changes.empty());
    CHECK(require_compatible(changes).has_value());
    CHECK(changes[0].allowed);
    CHECK(mentions(to_string(changes[0]), {" -> "}));
  }
}

TEST_CASE("all refused changes are named at once") {
  const auto changes = compatibility(
      accepted({}), accepted({"grpo.seed=1", "data.shuffle=no", "grpo.max_num_steps=2"}));
  CHECK(changes.size() == 3);
  const auto required = require_compatible(changes);
  REQUIRE_FALSE(required.has_value());
  CHECK(
      mentions(required.error().text, {"grpo.seed: 42 -> 1", "\n", "data.shuffle: true -> false"}));
  CHECK_FALSE(mentions(required.error().text, {"max_num_steps"}));
}

TEST_SUITE_END();
