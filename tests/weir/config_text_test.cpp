#include "examples/weir/config_text.hpp"
#include "examples/weir/config_value.hpp"
#include "tests/weir/config_support.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

using namespace weir;
using namespace weir::test;

namespace {

std::string source_file(const std::string& path) {
  const char* root = std::getenv("WEIR_SOURCE_ROOT");
  REQUIRE_MESSAGE(root != nullptr, "run this test by meson test, which says where the sources are");
  std::ifstream file(std::string(root) + "/" + path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

/// A value of the key's type that is not its default and passes its range.
std::string another_value(const config_key& key, const run_config& config) {
  const std::string now = format(key, config);
  for (const char* text :
       {"16", "1", "3", "0.5", "true", "false", "\"a\\x01\\\"\\\\ \\n: #\"", "[\"x\"]"}) {
    run_config changed = config;
    raw_value value{.form = raw_value::shape::scalar, .text = text};
    if (text[0] == '"') value = {raw_value::shape::scalar, "a\x01\"\\ \n: #", true, {}};
    if (text[0] == '[')
      value = {raw_value::shape::list, "", false, {{raw_value::shape::scalar, "x", true, {}}}};
    if (assign(key, value, changed) && format(key, changed) != now) return format(key, changed);
  }
  const auto* choice = std::get_if<choice_field>(&key.field);
  if (choice != nullptr) return std::string(choice->names.back());
  return "536870912";
}

} // namespace

TEST_SUITE_BEGIN("weir/config_text");

TEST_CASE("the resolved configuration parses back to the same value") {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {},
           {"grpo.max_num_epochs=null", "policy.generation.stop=[\"\\n\", \"a: b #\"]"},
           {"async_rl.sampler.name=windowed", "async_rl.max_buffered_rollouts=77"},
           {"policy.optimizer.lr=3e-9", "policy.optimizer.eps=1e-30",
            "loss_fn.ratio_clip_max=1e20"},
           {"env.command=[./a, \"b c\"]", "data.prompt_template=\"{input}\\n\\t\\\"x\\\\\""},
       }) {
    const run_config config = accepted(overrides);
    const auto again = read_config(to_yaml(config));
    REQUIRE(again.has_value());
    CHECK(again->config == config);
    CHECK(to_yaml(again->config) == to_yaml(config));
  }
}

TEST_CASE("every key is written and read back, each with another value") {
  const run_config config = accepted({});
  for (const config_key& key : config_keys()) {
    CAPTURE(key.path);
    const auto* choice = std::get_if<choice_field>(&key.field);
    if (choice != nullptr && choice->names.size() == 1) continue;
    const std::string value = another_value(key, config);
    CHECK(value != format(key, config));
    const std::string line = std::string(key.path) + "=" + value;
    // Rules may refuse the value; its text must be read all the same.
    const std::string text = contradiction({line});
    CHECK(text.find("--set") == std::string::npos);
  }
}

TEST_CASE("the canonical text is plain to every YAML reader") {
  const std::string text = to_yaml(accepted({"policy.optimizer.lr=1e-12"}));
  CHECK(mentions(text, {"grpo:\n  num_prompts_per_step: 32\n"}));
  CHECK(mentions(text, {"    optimizer:\n"}) == false);
  CHECK(mentions(text, {"  optimizer:\n    lr: 1.0e-12\n"}));
  CHECK(mentions(text, {"  sampler:\n    name: in_order\n"}));
  CHECK(mentions(text, {"  prompt_template: \"{input}\"\n"}));
}

TEST_CASE("no key stands twice in the table, and renamed keys lead to known ones") {
  std::set<std::string_view> paths;
  for (const config_key& key : config_keys()) {
    CAPTURE(key.path);
    CHECK(paths.insert(key.path).second);
    CHECK(key.meaning.ends_with("."));
    CHECK(find_key(key.path) == &key);
  }
  for (const renamed_key& key : renamed_keys()) {
    CAPTURE(key.old_path);
    CHECK(paths.contains(key.path));
    CHECK_FALSE(paths.contains(key.old_path));
  }
}

TEST_CASE("every default lies in its own range") {
  const run_config defaults;
  for (const config_key& key : config_keys()) {
    CAPTURE(key.path);
    const auto read = contradiction({std::string(key.path) + "=" + format(key, defaults)});
    CHECK(read.find("--set") == std::string::npos);
  }
}

TEST_CASE("the example is right, with nothing that this build lacks") {
  const std::string text = source_file("examples/arithmetic/grpo.yaml");
  const auto read = read_config(text);
  const std::string why = read ? std::string() : read.error().text;
  REQUIRE_MESSAGE(read.has_value(), why);
  CHECK(read->warnings.empty());
  CHECK(read->config.data.train.path == "/base/problems.jsonl");
  for (const char* drilled : {"grpo.max_num_steps=60", "async_rl.sampler.max_lookahead_versions=0"})
    CHECK(read_config(text, {drilled}).has_value());
}

// yaml-cpp is not ours: whatever it does with damaged text must end in an answer.
TEST_CASE("damaged text is read or refused, never a crash") {
  const std::string text = source_file("examples/arithmetic/grpo.yaml");
  std::size_t refused = 0;
  for (std::size_t at = 0; at < text.size(); at += 3) {
    if (!read_config(text.substr(0, at))) ++refused;
    for (const char damage : {'{', '[', '&', '*', '"', ':', '\t', '\0', '\xff'}) {
      std::string damaged = text;
      damaged[at] = damage;
      if (!read_config(damaged)) ++refused;
    }
  }
  CHECK(refused > 0);
  for (const char* deep : {"[", "{a: ", "- ", "? ", "!", "&a "})
    for (const std::size_t times : {100U, 20'000U}) {
      std::string nested;
      for (std::size_t level = 0; level < times; ++level)
        nested += deep;
      CHECK_FALSE(read_config(nested).has_value());
    }
}

TEST_CASE("CONFIG.md is what the table says; weir check --keys writes it") {
  CHECK(source_file("examples/weir/CONFIG.md") == config_reference());
}

TEST_SUITE_END();
