/// The program trains to its end while things fail: infra failures of one rollout in twenty and a
/// generator that dies now and then, under each sampler; prompts that can never be scored, in
/// both ways of dealing with them. Nothing is lost or doubled.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

namespace weir::test {

namespace {

/// 60 steps on two generators; failures are tried again soon.
struct long_job : small_job {
  explicit long_job(const std::vector<std::string>& settings) : small_job(settings) {
    set("grpo.max_num_steps=60");
    set("policy.generation.generators=2");
    set("checkpointing.save_period=20");
    set("async_rl.rollout_failure.backoff_base_s=0.01");
    set("async_rl.rollout_failure.max_backoff_s=0.1");
    // windowed generates without a pause: both generators may be dead for several attempts.
    set("async_rl.rollout_failure.max_infra_attempts_per_prompt=50");
  }
};

void check_end(const small_job& job, const program_end& end) {
  INFO(end.output);
  CHECK(end.exited_with(0));
  CHECK(end.says("step 60/60"));
  const program_end audited = job.audit();
  INFO(audited.output);
  CHECK(audited.exited_with(0));
  CHECK(audited.says("clean: 0 problems"));
}

/// A judge that scores everything but one problem of the forty.
std::string picky_judge(const small_job& job) {
  const std::string path = (job.home() / "judge").string();
  write_file(path, "#!/bin/sh\nwhile read -r line; do id=${line#*:}; id=${id%%,*}\n"
                   "case $line in *'1 + 7 = ?'*) reward=null;; *) reward=0.$((id % 10));; esac\n"
                   "echo \"{\\\"id\\\": $id, \\\"reward\\\": $reward}\"; done\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

void check_unscorable(const std::string& action, const std::string& counted) {
  long_job job({"async_rl.rollout_failure.max_skipped_prompts=100",
                "async_rl.rollout_failure.min_step_batch_fraction=0.5",
                "async_rl.rollout_failure.on_dropped_prompt=" + action});
  job.set("env={kind: command, command: [" + picky_judge(job) + "]}");
  check_end(job, job.run());
  const std::string metrics = content_of(job.run_directory() / "metrics.jsonl");
  CHECK(metrics.find("\"data_failure\": 1") != std::string::npos);
  CHECK(metrics.find(counted) != std::string::npos);
}

} // namespace

TEST_SUITE_BEGIN("drill/faults");

TEST_CASE("under each sampler a run gets to its end while rollouts fail and generators die") {
  for (const char* name : {"in_order", "weight_fifo", "ready_first", "windowed"}) {
    CAPTURE(name);
    const long_job job({"async_rl.sampler.name=" + std::string(name)});
    const program_end end =
        job.run_failing("rollout.produced=error%20,generator.decoded=error%150");
    check_end(job, end);
    CHECK(end.says("failpoint rollout.produced was armed to fail"));
    CHECK(end.says("failpoint generator.decoded was armed to fail"));
  }
}

TEST_CASE("a prompt that can never be scored shrinks its step, and is counted") {
  check_unscorable("shrink", "\"groups\": 3");
}

TEST_CASE("a prompt that can never be scored is replaced, and its step stays whole") {
  check_unscorable("replace", "\"replaced\": 1");
}

TEST_SUITE_END();

} // namespace weir::test
