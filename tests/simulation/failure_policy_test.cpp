// The failure policy end to end, in virtual time: production actors, one life each, faults that are
// chosen and not drawn. Every limit of `async_rl.rollout_failure` ends or spares a run here.
#include "tests/simulation/one_life.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace weir;
using namespace weir::sim;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

/// A scorer that finds the prompts of these records at fault.
std::function<result<scorer>()> refusing(std::vector<std::string> answers) {
  return [answers]() -> result<scorer> {
    return scorer{[answers](const scoring_request& request) -> result<scoring_reply> {
                    if (std::ranges::find(answers, request.answer) != answers.end())
                      return failure(errc::invalid_argument, "no number: " + request.answer);
                    return scoring_reply{1.0F, true, {}};
                  },
                  false};
  };
}

void tolerate(main_job& job) {
  job.rollout.failures.max_skipped_prompts = 100;
  job.rollout.failures.max_consecutive_dropped_prompts = 100;
  job.rollout.failures.min_step_batch_fraction = 0.0;
}

void replace(main_job& job) {
  tolerate(job);
  job.rollout.failures.replace_dropped_prompts = true;
  job.rollout.limits.reserve_low = 1;
}

std::uint64_t dropped(const one_life& lived, event_reason reason) {
  return lived.audit.dropped[static_cast<std::size_t>(reason)];
}

std::string first_problem(const one_life& lived) {
  return lived.audit.clean() ? std::string("clean") : to_string(lived.audit.problems.front());
}

void check_done(const one_life& lived) {
  INFO(lived.log);
  CHECK(first_problem(lived) == "clean");
  REQUIRE_MESSAGE(lived.ended.has_value(), to_string(lived.ended.error()));
}

void check_failed(const one_life& lived, errc code, const std::string& words) {
  CHECK(first_problem(lived) == "clean");
  REQUIRE_FALSE(lived.ended.has_value());
  INFO(to_string(lived.ended.error()));
  CHECK(lived.ended.error().code == code);
  CHECK(to_string(lived.ended.error()).find(words) != std::string::npos);
}

} // namespace

TEST_SUITE_BEGIN("simulation/failure_policy");

TEST_CASE("by default the first prompt that is at fault ends the run, and names the budget") {
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    job.rollout.failures = {};
    job.parts.environment = refusing({"5"});
  });
  check_failed(lived, errc::exhausted, "rollout_failure.max_skipped_prompts (0)");
}

TEST_CASE("shrink: a step is trained without the prompt that was dropped") {
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    tolerate(job);
    job.parts.environment = refusing({"5", "9"});
  });
  check_done(lived);
  CHECK(dropped(lived, event_reason::data_failure) == 2);
  CHECK(lived.audit.steps_finished == 4);
  CHECK(lived.audit.consumed.size() == 14);
}

TEST_CASE("shrink: a step below the floor ends the run, and says how many it would keep") {
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    tolerate(job);
    job.rollout.failures.min_step_batch_fraction = 0.9;
    job.parts.environment = refusing({"5"});
  });
  check_failed(lived, errc::exhausted, "would keep 3 of 4 groups, fewer than the 4");
}

TEST_CASE("replace: every step is whole, and what is left of the reserve is trained in the end") {
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    replace(job);
    job.loader.shuffle = false; // 0 to 3 are spares.
    job.rollout.failures.min_step_batch_fraction = 1.0;
    job.rollout.failures.max_replacement_attempts = 4;
    job.parts.environment = refusing({"5", "9"});
  });
  check_done(lived);
  // 14 are fit: three steps of 4, and 2 at the end of the data.
  CHECK(dropped(lived, event_reason::data_failure) == 2);
  CHECK(dropped(lived, event_reason::end_of_data) == 2);
  CHECK(lived.audit.steps_finished == 3);
  CHECK(lived.audit.consumed.size() == 12);
}

TEST_CASE("replace: without a failure the reserve is drained into whole steps") {
  const one_life lived = live_once(quiet_plan(), &replace);
  check_done(lived);
  CHECK(lived.audit.steps_finished == 4);
  CHECK(lived.audit.consumed.size() == 16);
}

TEST_CASE("replace: a place uses up its attempts, then its step is short") {
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    replace(job);
    job.loader.shuffle = false;
    // The place of 5 goes to 0, which fails too.
    job.parts.environment = refusing({"5", "0"});
  });
  check_done(lived);
  CHECK(dropped(lived, event_reason::data_failure) == 2);
  CHECK(lived.audit.consumed.size() + dropped(lived, event_reason::end_of_data) == 14);
}

TEST_CASE("infra drops are limited in a row: a fleet that fails everything ends the run") {
  run_plan plan = quiet_plan();
  plan.failures_one_in = 1;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.failures = {};
    job.rollout.failures.max_consecutive_dropped_prompts = 3;
    job.rollout.failures.min_step_batch_fraction = 0.0;
  });
  check_failed(lived, errc::exhausted, "rollout_failure.max_consecutive_dropped_prompts (3)");
  // Five attempts with 1, 2, 4 and 8 s between them.
  CHECK(lived.took >= seconds(15));
  CHECK(lived.took < seconds(20));
}

TEST_CASE("back-off grows to its maximum and no further") {
  run_plan plan = quiet_plan();
  plan.failures_one_in = 1;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.failures = {};
    job.rollout.failures.backoff_max_ns = 2'000'000'000;
  });
  check_failed(lived, errc::exhausted, "max_consecutive_dropped_prompts (0)");
  CHECK(lived.took >= seconds(1 + 2 + 2 + 2));
  CHECK(lived.took < seconds(10));
}

TEST_CASE("a generator that is silent is given up after generation_timeout") {
  run_plan plan = quiet_plan();
  plan.silences_one_in = 1;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.failures = {};
    job.rollout.failures.max_infra_attempts_per_prompt = 1;
    job.rollout.generation_timeout = seconds(40);
  });
  check_failed(lived, errc::exhausted, "max_consecutive_dropped_prompts (0)");
  CHECK(lived.log.find("generator-0") != std::string::npos);
  CHECK(lived.took >= seconds(40));
  CHECK(lived.took < seconds(50));
}

TEST_CASE("an environment that does not answer is given up after env_timeout") {
  run_plan plan = quiet_plan();
  plan.job_delay = minutes(10); // Of the pool that scores; training waits for it as well.
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.failures = {};
    job.rollout.failures.max_infra_attempts_per_prompt = 1;
    job.rollout.env_timeout = milliseconds(10);
    job.parts.environment = []() -> result<scorer> {
      return scorer{[](const scoring_request&) { return scoring_reply{1.0F, true, {}}; }, true};
    };
  });
  check_failed(lived, errc::exhausted, "max_consecutive_dropped_prompts (0)");
  CHECK(lived.log.find("environment-0") != std::string::npos);
}

TEST_CASE("a rollout that trickles is given up after rollout_timeout") {
  run_plan plan = quiet_plan();
  plan.tokens_max = 4;
  plan.token_lag = seconds(100);
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.failures = {};
    job.rollout.failures.max_infra_attempts_per_prompt = 1;
    job.rollout.rollout_timeout = seconds(30);
  });
  check_failed(lived, errc::exhausted, "max_consecutive_dropped_prompts (0)");
  CHECK(lived.took < seconds(130));
}

TEST_CASE("generators that all fall silent end the run with their names, in bounded time") {
  run_plan plan = quiet_plan();
  plan.generators = 2;
  plan.deaf_after = 2;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.health.patience_ns = 50'000'000'000;
    job.rollout.failures.max_infra_attempts_per_prompt = 1'000;
  });
  REQUIRE_FALSE(lived.ended.has_value());
  CHECK(to_string(lived.ended.error()).find("generator-0") != std::string::npos);
  CHECK(lived.took < minutes(3));
}

TEST_CASE("the watchdog ends a run that hangs: who, on which request, for how long") {
  run_plan plan = quiet_plan();
  plan.silences_one_in = 1;
  const watchdog_options watch{seconds(10), seconds(100), stall_action::abort};
  const one_life lived =
      live_once(plan, [](main_job& job) { job.rollout.generation_timeout = minutes(50); }, watch);
  check_failed(lived, errc::timed_out, "stalled");
  const std::string text = to_string(lived.ended.error());
  CHECK(text.find("rollout waits for generator-0 to answer GenerateGroup") != std::string::npos);
  CHECK(lived.took >= seconds(100));
  CHECK(lived.took < seconds(130));
}

TEST_CASE("the watchdog that only warns lets the deadline decide") {
  run_plan plan = quiet_plan();
  plan.silences_one_in = 1;
  const watchdog_options watch{seconds(10), seconds(100), stall_action::warn};
  const one_life lived = live_once(
      plan,
      [](main_job& job) {
        job.rollout.failures = {};
        job.rollout.failures.max_infra_attempts_per_prompt = 1;
        job.rollout.generation_timeout = seconds(200);
      },
      watch);
  check_failed(lived, errc::exhausted, "max_consecutive_dropped_prompts (0)");
  CHECK(lived.log.find("stalled") != std::string::npos);
}

TEST_CASE("generators that die are restarted in place, and the run goes on") {
  run_plan plan = quiet_plan();
  plan.dataset = 64;
  plan.generators = 2;
  plan.deaths_one_in = 8;
  const one_life lived = live_once(plan);
  check_done(lived);
  CHECK(lived.log.find("the scripted generator died") != std::string::npos);
  CHECK(lived.audit.consumed.size() == 64);
}

TEST_CASE("generators that die again and again end the run with their history") {
  run_plan plan = quiet_plan();
  plan.deaths_one_in = 1;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.generator_restarts = {};
    job.rollout.failures.max_infra_attempts_per_prompt = 1'000;
  });
  REQUIRE_FALSE(lived.ended.has_value());
  CHECK(to_string(lived.ended.error()).find("generators") != std::string::npos);
  CHECK(to_string(lived.ended.error()).find("the scripted generator died") != std::string::npos);
  CHECK(lived.took < minutes(1));
}

TEST_SUITE_END();
