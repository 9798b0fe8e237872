/// A sampler of a user's own in the real program: by name and out of a shared object, checked
/// without a run, killed and resumed, and wrong in one way at a time.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>

namespace weir::test {

namespace {

std::string path_in(const char* variable) {
  const char* const path = std::getenv(variable);
  REQUIRE(path != nullptr);
  return path;
}

std::string example_target() {
  return path_in("WEIR_SAMPLER_EXAMPLE") + ":dispatch_order";
}

std::string target_in_module(const std::string& symbol) {
  return path_in("WEIR_SAMPLER_MODULE") + ":" + symbol;
}

struct custom_job : small_job {
  explicit custom_job(const std::string& target, const std::vector<std::string>& settings = {})
      : small_job(settings) {
    set("async_rl.sampler={name: custom, target: '" + target + "'}");
  }
  [[nodiscard]] program_end check() const {
    std::vector<std::string> words = command();
    words.front() = "check";
    return run_program(words);
  }
};

void check_refused(const custom_job& job, const std::vector<std::string>& words) {
  const program_end checked = job.check();
  INFO(checked.output);
  CHECK(checked.exited_with(2));
  for (const std::string& word : words) {
    INFO("missing: " << word);
    CHECK(checked.says(word));
  }
  CHECK_FALSE(std::filesystem::exists(job.run_directory()));
}

void check_audit(const small_job& job) {
  const program_end audited = job.audit();
  INFO(audited.output);
  CHECK(audited.exited_with(0));
  CHECK(audited.says("clean: 0 problems"));
}

/// Restored from step_2, killed at each of the points, and finished by the same command.
void check_killed_and_resumed(const std::string& target, const std::string& says) {
  for (const char* const point :
       {"generator.decoded=kill@9", "rollout.committing=kill@10", "rollout.reserving=kill@3",
        "trainer.consuming=kill@3", "bundle.published=kill@1"}) {
    CAPTURE(std::string(point));
    const custom_job job(target);
    REQUIRE(job.run({"--set", "grpo.max_num_steps=2"}).exited_with(0));
    const program_end killed = job.run_failing(point);
    INFO(killed.output);
    REQUIRE(killed.by_signal);
    REQUIRE(killed.status == SIGKILL);
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.exited_with(0));
    CHECK(resumed.says("incarnation 3"));
    CHECK(resumed.says("restored step_"));
    CHECK(resumed.says("step 6/6"));
    CHECK(resumed.says(says));
    check_audit(job);
  }
}

/// Nothing in a run of these settings takes as long as the watchdog's patience.
const std::vector<std::string> impatient = {
    "async_rl.rollout_failure.generation_timeout_s=1",
    "async_rl.rollout_failure.env_timeout_s=1",
    "async_rl.rollout_failure.rollout_timeout_s=2",
    "async_rl.rollout_failure.backoff_base_s=0.1",
    "async_rl.rollout_failure.max_backoff_s=1",
    "checkpointing.quiesce_timeout_s=2",
    "checkpointing.capture_timeout_s=2",
    "async_rl.stall_watchdog.interval_s=0.5",
    "async_rl.stall_watchdog.stall_timeout_s=3",
};

} // namespace

TEST_SUITE("drill/sampler") {
  TEST_CASE("check loads a sampler of a shared object, and says what it does not support") {
    const program_end fine = custom_job(example_target()).check();
    INFO(fine.output);
    CHECK(fine.exited_with(0));
    CHECK_FALSE(fine.says("notice:"));
    const program_end shadowed = custom_job(target_in_module("shadowed_sampler")).check();
    INFO(shadowed.output);
    CHECK(shadowed.exited_with(0));
    CHECK(shadowed.says("notice: shadow mode: the sampler shadowed"));
    CHECK(custom_job("dispatch_order").check().exited_with(0));
  }

  TEST_CASE("check refuses a sampler that cannot be loaded, with target and reason") {
    check_refused(custom_job("./nowhere.so:mine"),
                  {"job.yaml: async_rl.sampler.target (", "nowhere.so: cannot open shared object"});
    check_refused(custom_job(target_in_module("mine")),
                  {"there is no symbol mine; is it declared extern \"C\"?"});
    check_refused(custom_job(target_in_module("some_function")),
                  {"some_function is no weir::sampler_plugin"});
    check_refused(custom_job(target_in_module("foreign_sampler")),
                  {"it was built for version 99 of the sampler interface"});
    check_refused(custom_job(target_in_module("empty_sampler")), {"its factory makes no sampler"});
    check_refused(custom_job("mine"), {"async_rl.sampler.target (mine): no sampler of this name is "
                                       "registered (known: dispatch_order)"});
  }

  TEST_CASE("check refuses limits that the sampler of a shared object contradicts") {
    const std::string who = "sampler dispatch_order (" + example_target() + "): ";
    check_refused(custom_job(example_target(), {"async_rl.rollout_failure.max_skipped_prompts=3"}),
                  {who + "async_rl.rollout_failure.max_skipped_prompts above 0 needs a sampler "
                         "that stamps"});
    check_refused(custom_job(example_target(), {"async_rl.weight_update=pinned"}),
                  {who + "does not stamp groups, and async_rl.weight_update (pinned)"});
    check_refused(custom_job(example_target(), {"async_rl.max_buffered_rollouts=6"}),
                  {who + "async_rl.max_buffered_rollouts (6) must be at least 8"});
  }

  TEST_CASE("killed and resumed, a run with a sampler of a shared object loses no prompt") {
    check_killed_and_resumed(example_target(), "groups ready");
  }

  TEST_CASE("killed and resumed in shadow mode, a run generates its buffer again") {
    check_killed_and_resumed(target_in_module("shadowed_sampler"), "shadow mode: ");
  }

  TEST_CASE("a sampler that throws ends the real program with its name") {
    const std::string target = target_in_module("throwing_sampler");
    const program_end end = custom_job(target).run();
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says("sampler throwing (" + target + "): select threw"));
  }

  TEST_CASE("a sampler whose gate stays shut ends the real program with its name") {
    const std::string target = target_in_module("shutting_sampler");
    const program_end end = custom_job(target, impatient).run();
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says("sampler shutting (" + target + ") keeps batch 3 waiting at version 3"));
  }

  TEST_CASE("a sampler that does not come back ends the real program with its name") {
    const std::string target = target_in_module("sleeping_sampler");
    const program_end end = custom_job(target, impatient).run();
    INFO(end.output);
    CHECK_FALSE(end.timed_out);
    CHECK_FALSE(end.exited_with(0));
    CHECK(end.says("sampler sleeping (" + target + ") has not answered select"));
  }
}

} // namespace weir::test
