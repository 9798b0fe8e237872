/// Killed at a named point, and started again with the same command: it goes on, says what it
/// recovered, nothing is lost or doubled, and a synchronous run ends with the very same bits.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <iterator>

namespace weir::test {

namespace {

/// Weights and optimizer of the last step, by name.
file_tree final_policy(const small_job& job) {
  return tree_of(job.bundle("step_6") / "policy");
}

void check_audit(const small_job& job) {
  const program_end audited = job.audit();
  INFO(audited.output);
  CHECK(audited.exited_with(0));
  CHECK(audited.says("clean: 0 problems"));
}

/// Where the process is killed.
struct kill_point {
  const char* where;
  bool restored; ///< In a process that restored step_2, rather than in the first of the run.
};

constexpr kill_point kill_points[] = {
    {"generator.decoded=kill@1", false},    {"generator.decoded=kill@9", true},
    {"rollout.reserving=kill@1", false},    {"rollout.reserving=kill@2", true},
    {"rollout.produced=kill@3", false},     {"rollout.produced=kill@9", true},
    {"rollout.committing=kill@2", false},   {"rollout.committing=kill@10", true},
    {"trainer.learned=kill@2", false},      {"trainer.learned=kill@3", true},
    {"trainer.consuming=kill@2", false},    {"trainer.consuming=kill@1", true},
    {"trainer.consumed=kill@2", false},     {"trainer.consumed=kill@2", true},
    {"bundle.section=kill@3", false},       {"bundle.section=kill@4", true},
    {"bundle.before_rename=kill@1", false}, {"bundle.before_rename=kill@2", true},
    {"bundle.published=kill@1", false},     {"bundle.published=kill@2", true},
};

void check_killed_and_resumed(const small_job& job, const kill_point& point) {
  if (point.restored) REQUIRE(job.run({"--set", "grpo.max_num_steps=2"}).exited_with(0));
  const program_end killed = job.run_failing(point.where);
  INFO(killed.output);
  REQUIRE(killed.by_signal);
  REQUIRE(killed.status == SIGKILL);
  CHECK(killed.says(point.restored ? "restored step_2 of run" : "new run"));
  const program_end resumed = job.run();
  INFO(resumed.output);
  CHECK(resumed.exited_with(0));
  if (point.restored) CHECK(resumed.says("restored step_"));
  CHECK(resumed.says(point.restored ? "incarnation 3" : "incarnation 2"));
  CHECK_FALSE(has_entry(job.checkpoints(), ".tmp-"));
  check_audit(job);
}

} // namespace

TEST_SUITE("drill/kill") {
  TEST_CASE("a synchronous run that was killed ends with the bits of one that was not") {
    const small_job whole({synchronous});
    REQUIRE(whole.run().exited_with(0));
    const file_tree expected = final_policy(whole);
    REQUIRE(expected.size() >= 3);
    for (const kill_point& point : kill_points) {
      CAPTURE(std::string(point.where));
      const small_job job({synchronous});
      check_killed_and_resumed(job, point);
      CHECK(final_policy(job) == expected);
    }
  }

  /// Every `stride`th kill point, with generation `ahead` steps ahead of training.
  void check_pinned(const std::string& ahead, std::size_t stride) {
    CAPTURE(ahead);
    const std::vector<std::string> settings{"async_rl.weight_update=pinned",
                                            "async_rl.sampler.max_lookahead_versions=" + ahead};
    const small_job whole(settings);
    REQUIRE(whole.run().exited_with(0));
    const file_tree expected = final_policy(whole);
    CHECK(expected.contains("weights_5/model.safetensors"));
    CHECK(expected.contains("weights_4/model.safetensors") == (ahead == "2"));
    for (std::size_t i = 0; i < std::size(kill_points); i += stride) {
      CAPTURE(std::string(kill_points[i].where));
      const small_job job(settings);
      check_killed_and_resumed(job, kill_points[i]);
      CHECK(final_policy(job) == expected);
    }
  }

  TEST_CASE("with pinned weights, so does one that generates ahead") {
    check_pinned("1", 1);
    check_pinned("2", 3);
  }

  TEST_CASE("a step that is trained in chunks ends with the bits of one that is trained whole") {
    const small_job whole({synchronous});
    REQUIRE(whole.run().exited_with(0));
    const small_job job({synchronous, "async_rl.min_groups_for_streaming_train=1"});
    REQUIRE(job.run().exited_with(0));
    CHECK(final_policy(job) == final_policy(whole));
    check_audit(job);
  }

  TEST_CASE("chunks of any size train under every sampler") {
    for (const char* const sampler : {"in_order", "weight_fifo", "ready_first", "windowed"}) {
      CAPTURE(std::string(sampler));
      const small_job job({std::string("async_rl.sampler.name=") + sampler,
                           "async_rl.min_groups_for_streaming_train=2"});
      const program_end end = job.run();
      INFO(end.output);
      CHECK(end.exited_with(0));
      check_audit(job);
    }
  }

  TEST_CASE("a run that generates ahead loses nothing and doubles nothing at any of the points") {
    for (const kill_point& point : kill_points) {
      CAPTURE(std::string(point.where));
      const small_job job;
      check_killed_and_resumed(job, point);
    }
  }

  TEST_CASE("a kill in the middle of a restore changes nothing but INCARNATION") {
    for (const char* const point : {"restore.raised=kill", "restore.loaded=kill"}) {
      CAPTURE(std::string(point));
      const small_job job;
      REQUIRE(job.run_failing("trainer.learned=kill@4").by_signal);
      file_tree before = tree_of(job.run_directory());
      REQUIRE(job.run_failing(point).by_signal);
      REQUIRE(job.run_failing(point).by_signal);
      file_tree after = tree_of(job.run_directory());
      CHECK(after.at("INCARNATION") == "file 3\n");
      for (const char* const name : {"INCARNATION", "lock"}) {
        before.erase(name);
        after.erase(name);
      }
      CHECK(after == before);
      const program_end resumed = job.run();
      INFO(resumed.output);
      CHECK(resumed.exited_with(0));
      CHECK(resumed.says("incarnation 4"));
      check_audit(job);
    }
  }

  TEST_CASE("a run that is killed after each of its bundles still ends") {
    const small_job job({synchronous});
    int lives = 0;
    program_end end;
    do
      end = job.run_failing("bundle.published=kill@1");
    while (end.by_signal && ++lives < 10);
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(lives == 3); // step_2, step_4, step_6; then there is nothing left to do.
    check_audit(job);
  }

  TEST_CASE("rows that are staged and not committed are in no bundle") {
    const small_job job;
    // The ninth group waits between its staging and its commit while step_2 is captured.
    const program_end killed = job.run_failing(
        "trainer.learned=delay:300ms@2,rollout.produced=park@9,bundle.published=kill@1");
    INFO(killed.output);
    REQUIRE(killed.by_signal);
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.exited_with(0));
    CHECK(resumed.says("restored step_2 of run"));
    check_audit(job);
  }

  TEST_CASE("a job that is done is not saved again") {
    const small_job job({synchronous});
    REQUIRE(job.run().exited_with(0));
    const program_end again = job.run();
    INFO(again.output);
    CHECK(again.exited_with(0));
    CHECK(again.says("done: all steps are done"));
    CHECK_FALSE(has_entry(job.checkpoints(), "step_6."));
    check_audit(job);
  }

  TEST_CASE("a restore prints what it recovered") {
    const small_job job;
    REQUIRE(job.run_failing("bundle.published=kill@1").by_signal);
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.says("restored step_2 of run"));
    CHECK(resumed.says("groups ready"));
    CHECK(resumed.says("prompts lost 0"));
    CHECK(resumed.says("step 3/6"));
    CHECK_FALSE(resumed.says("step 2/6"));
  }
}

} // namespace weir::test
