// Waits that are asked again and again: what is left of those that nobody waits for any more, and
// what an answer is worth whose question has grown old.
#include "actors/runtime/failpoint.hpp"
#include "tests/simulation/one_life.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::sim;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

/// Coroutines that are left at the end of a run whose generation takes so long.
std::size_t coroutines_left(std::chrono::nanoseconds token_lag) {
  run_plan plan = quiet_plan();
  plan.token_lag = token_lag;
  const one_life lived = live_once(plan, [](main_job& job) {
    job.rollout.generation_timeout = hours(5);
    job.rollout.rollout_timeout = hours(6);
  });
  INFO(lived.log);
  REQUIRE(lived.ended.has_value());
  if (token_lag.count() > 0) CHECK(lived.took > hours(1));
  return lived.left.live_coroutines;
}

} // namespace

TEST_SUITE_BEGIN("simulation");

TEST_CASE("a wait that is asked again every minute leaves no handler behind") {
  CHECK(coroutines_left(minutes(60)) <= coroutines_left(std::chrono::nanoseconds(0)) + 8);
}

TEST_CASE("a step is not given up for a target that shrank while its batch was asked for") {
  // All that happens to the last groups happens between the two questions of the trainer.
  REQUIRE(arm_failpoints("trainer.target_read=delay:60s").has_value());
  const one_life lived = live_once(quiet_plan(), [](main_job& job) {
    job.rollout.failures.max_skipped_prompts = 100;
    job.rollout.failures.min_step_batch_fraction = 0.0;
    job.parts.environment = []() -> result<scorer> {
      return scorer{[](const scoring_request& request) -> result<scoring_reply> {
                      if (request.answer == "13")
                        return failure(errc::invalid_argument, "no number");
                      return scoring_reply{1.0F, true, {}};
                    },
                    false};
    };
    job.loader.shuffle = false;
    job.loader.max_num_epochs = 1;
  });
  disarm_failpoints();
  INFO(lived.log);
  REQUIRE_MESSAGE(lived.ended.has_value(), to_string(lived.ended.error()));
  CHECK(lived.audit.clean());
  CHECK(lived.audit.consumed.size() == 15);
}

TEST_SUITE_END();
