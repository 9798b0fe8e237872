/// Validation runs of the real program: when they happen, that they change no bit of the training,
/// and that bundles can be kept by them.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>

namespace weir::test {

namespace {

/// A synchronous job with a held-out file of five problems.
struct validated_job : small_job {
  explicit validated_job(const std::vector<std::string>& settings) : small_job(settings) {
    const std::string path = (home() / "held_out.jsonl").string();
    write_file(path, problem_lines(5));
    set("data.validation.path=" + path);
    set(synchronous);
  }
};

/// The lines of metrics.jsonl of one event, from `"step"` to where times begin.
std::vector<std::string> validation_lines(const small_job& job) {
  std::istringstream metrics(content_of(job.run_directory() / "metrics.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(metrics, line);) {
    if (line.find("\"event\": \"validation\"") == std::string::npos) continue;
    const auto begin = line.find("\"step\"");
    lines.push_back(line.substr(begin, line.find(", \"took_ns\"") - begin));
  }
  return lines;
}

file_tree policy_of(const small_job& job) {
  return tree_of(job.bundle("step_6") / "policy");
}

} // namespace

TEST_SUITE_BEGIN("drill/validation");

TEST_CASE("held-out prompts are scored when they should be, and training changes no bit") {
  const small_job plain({synchronous});
  REQUIRE(plain.run().exited_with(0));
  const validated_job job({"grpo.val_period=4", "grpo.val_at_start=true", "grpo.val_at_end=true"});
  const program_end end = job.run();
  INFO(end.output);
  REQUIRE(end.exited_with(0));
  const auto lines = validation_lines(job);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("\"step\": 0, \"val_reward\": 0."));
  CHECK(lines[1].starts_with("\"step\": 4, \"val_reward\": 0."));
  CHECK(lines[2].starts_with("\"step\": 6, \"val_reward\": 0."));
  for (const std::string& line : lines)
    CHECK(line.find("\"samples\": 5, \"failed\": 0") != std::string::npos);
  CHECK(end.says("step 4  val reward 0."));
  CHECK(policy_of(job) == policy_of(plain));
  CHECK(job.audit().exited_with(0));
}

TEST_CASE("killed in the middle of a validation run, it is made again with the same result") {
  const validated_job calm({"grpo.val_period=2"});
  REQUIRE(calm.run().exited_with(0));
  const validated_job killed({"grpo.val_period=2"});
  REQUIRE(killed.run_failing("validation.scored=kill@13").by_signal); // The third of the third.
  REQUIRE(killed.run().exited_with(0));
  const auto expected = validation_lines(calm);
  const auto made = validation_lines(killed);
  CHECK(std::set(made.begin(), made.end()) == std::set(expected.begin(), expected.end()));
  CHECK(policy_of(killed) == policy_of(calm));
  CHECK(killed.audit().exited_with(0));
}

TEST_CASE("bundles are kept by the validation run of exactly their step") {
  const validated_job job({"grpo.val_period=2", "checkpointing.metric_name=val:reward"});
  const program_end end = job.run();
  INFO(end.output);
  REQUIRE(end.exited_with(0));
  const auto lines = validation_lines(job);
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string bundle = "step_" + std::to_string(2 * (i + 1));
    const auto place = lines[i].find("\"val_reward\": ") + std::string("\"val_reward\": ").size();
    const std::string reward = lines[i].substr(place, lines[i].find(',', place) - place);
    CAPTURE(bundle);
    CHECK(content_of(job.bundle(bundle) / "training_info.json").find("\"val:reward\": " + reward) !=
          std::string::npos);
  }
}

TEST_CASE("what fails in a validation run fails no run, and is counted") {
  const validated_job job({"grpo.val_period=2"});
  const program_end end = job.run_failing("validation.scored=error@2");
  INFO(end.output);
  REQUIRE(end.exited_with(0));
  const auto lines = validation_lines(job);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("\"samples\": 4, \"failed\": 1") != std::string::npos);
  CHECK(lines[1].find("\"samples\": 5, \"failed\": 0") != std::string::npos);
  CHECK(end.says("held_out.jsonl:2 was not scored"));
}

TEST_CASE("a held-out file that cannot be used is refused before anything is written") {
  small_job job({"grpo.val_period=2", "data.validation.path=/nowhere/held_out.jsonl"});
  const program_end end = job.run();
  CHECK(end.exited_with(1));
  CHECK(end.says("data.validation.path: /nowhere/held_out.jsonl"));
  CHECK_FALSE(std::filesystem::exists(job.run_directory()));
}

TEST_SUITE_END();

} // namespace weir::test
