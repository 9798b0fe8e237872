/// What a run reports: the barrier's times, generation that never stops, and the end of the data.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <sstream>

namespace weir::test {

namespace {

/// The whole number behind "key": in a line of JSON.
std::uint64_t number_of(const std::string& line, const std::string& key) {
  const std::string name = "\"" + key + "\": ";
  const auto place = line.find(name);
  INFO(key << " of " << line);
  REQUIRE(place != std::string::npos);
  return std::stoull(line.substr(place + name.size()));
}

/// The lines of metrics about one kind of event.
std::vector<std::string> metric_lines(const small_job& job, const std::string& event) {
  std::istringstream metrics(content_of(job.run_directory() / "metrics.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(metrics, line);)
    if (line.starts_with("{\"event\": \"" + event + "\"")) lines.push_back(line);
  return lines;
}

} // namespace

TEST_SUITE("drill/report") {
  TEST_CASE("generation emits tokens during every bundle write, and the barrier's times are told") {
    const small_job job({"grpo.max_num_steps=5", "policy.generation.max_new_tokens=24",
                         "async_rl.sampler.max_lookahead_versions=3"});
    // Decoding is the slow part, so that it is never done: when the last step is, half a second of
    // work ahead is left. Each section takes a while to write.
    const program_end end =
        job.run_failing("generator.decoded=delay:5ms,bundle.section=delay:40ms");
    INFO(end.output);
    REQUIRE(end.exited_with(0));
    const auto lines = metric_lines(job, "checkpoint");
    REQUIRE(lines.size() >= 2);
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(number_of(line, "hold_ns") > 0);
      CHECK(number_of(line, "hold_ns") >= number_of(line, "capture_ns"));
      CHECK(number_of(line, "hold_ns") >= number_of(line, "drain_ns"));
      CHECK(number_of(line, "write_ns") >= 40'000'000);
      // A cut never waits for a write: the gates were open again long before.
      CHECK(number_of(line, "hold_ns") < number_of(line, "write_ns"));
      CHECK(number_of(line, "tokens_while_writing") > 0);
    }
  }

  TEST_CASE("each step tells what was evicted and aborted since the one before, both as stale") {
    // Far more is generated than a step of four takes, and the window holds for one version.
    const small_job job({"async_rl.sampler={name: windowed, max_staleness_versions: 0, "
                         "max_lookahead_versions: 1}",
                         "async_rl.max_buffered_rollouts=32", "async_rl.max_inflight_prompts=16",
                         "grpo.max_num_steps=20"});
    const program_end end = job.run();
    INFO(end.output);
    REQUIRE(end.exited_with(0));
    const auto lines = metric_lines(job, "step");
    CHECK(lines.size() == 20);
    std::uint64_t evicted = 0;
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(number_of(line, "stale") == number_of(line, "evicted") + number_of(line, "aborted"));
      evicted += number_of(line, "evicted");
    }
    CHECK(evicted > 0);
  }

  TEST_CASE("data that does not divide by the step ends the run, and the remainder is accounted") {
    small_job job({"grpo.max_num_epochs=1", "grpo.max_num_steps=100"});
    job.write_data(problem_lines(10)); // Two steps of four, and two prompts that make none.
    const program_end end = job.run();
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(end.says("done: the data ended"));
    CHECK(end.says("step 2/100"));
    CHECK_FALSE(end.says("step 3/100"));
    const program_end audited = job.audit();
    INFO(audited.output);
    CHECK(audited.exited_with(0));
    CHECK(audited.says("handed out   10\n"));
    CHECK(audited.says("consumed     8\n"));
    CHECK(audited.says("dropped      2\n"));
    CHECK(audited.says("end_of_data"));
  }

  TEST_CASE("killed before the end of the data, a run still hands out every prompt once") {
    small_job job({"grpo.max_num_epochs=2", "grpo.max_num_steps=100"});
    job.write_data(problem_lines(11)); // 22 prompts: five steps, and two prompts that make none.
    REQUIRE(job.run_failing("bundle.published=kill@1").by_signal);
    const program_end end = job.run();
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(end.says("step 5/100"));
    const program_end audited = job.audit();
    INFO(audited.output);
    CHECK(audited.exited_with(0));
    CHECK(audited.says("handed out   22\n"));
    CHECK(audited.says("consumed     20\n"));
  }
}

} // namespace weir::test
