// Rule [S] of a replacement: the spare, the promotion into its place and the repayment of the
// lender are one lease. A cut between them is one message wide, so that a drawn schedule hardly
// ever meets it; here it is held open, cuts are asked for all the time, and every bundle is one
// that a life is restored from.
#include "actors/runtime/failpoint.hpp"
#include "messages/rule.hpp"
#include "tests/simulation/history.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace weir;
using namespace weir::sim;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t crashes = 60;

/// Look-ahead finishes groups of later steps while a prompt at fault is still tried.
run_plan plan_of(std::uint64_t seed) {
  run_plan plan;
  plan.seed = seed;
  plan.sampler = {"in_order", 3};
  plan.groups_per_step = 2;
  plan.siblings = 1;
  plan.dataset = 16;
  plan.buffered_max = 12;
  plan.inflight_max = 8;
  plan.save_period = 0;
  plan.save_pause = milliseconds(1);
  plan.token_lag = milliseconds(3);
  plan.reserve_low = 2;
  plan.replacement_attempts = 4;
  return plan;
}

/// Two prompts are at fault.
result<scoring> judge() {
  return scorer{[](const scoring_request& request) -> result<scoring_reply> {
                  if (request.answer == "5" || request.answer == "9")
                    return failure(errc::invalid_argument, "no number");
                  return scoring_reply{1.0F, true, {}};
                },
                false};
}

/// Dies of every third bundle that is published, up to `crashes` of them. Returns what does not
/// hold.
std::string violation_of(std::uint64_t seed) {
  const run_plan plan = plan_of(seed);
  history_hooks hooks;
  test::crash_disk* disk = nullptr;
  std::size_t left = crashes;
  std::size_t published = 0;
  hooks.adjust = [&disk, &left, &published](main_job& job) {
    job.rollout.failures.max_skipped_prompts = 10;
    job.rollout.failures.min_step_batch_fraction = 0.0;
    job.parts.environment = &judge;
    job.record_checkpoint = [&disk, &left, &published](const checkpoint_record&) {
      if (left == 0 || ++published % 3 != 0) return; // Others get on in between.
      --left;
      disk->die();
    };
  };
  history run(plan, hooks);
  disk = &run.disk();
  const auto ended = run.run(std::vector<crash_point>(crashes));
  return ended ? std::string() : to_string(ended.error());
}

/// Of the first seed that has any.
std::string violation_within(std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::string violation = violation_of(seed);
    if (!violation.empty()) return "seed " + std::to_string(seed) + ": " + violation;
  }
  return {};
}

class armed {
public:
  explicit armed(const char* points) { REQUIRE(arm_failpoints(points).has_value()); }
  armed(const armed&) = delete;
  armed& operator=(const armed&) = delete;
  ~armed() { disarm_failpoints(); }
};

} // namespace

TEST_SUITE_BEGIN("simulation");

TEST_CASE("replaced_under_one_lease: no cut holds a step too full and another too short") {
  const armed held_open("rollout.replacing=delay:5ms,rollout.repaying=delay:5ms");
  CHECK(violation_within(60) == "");
  const rule_suspension off(rule::replaced_under_one_lease);
  const std::string violation = violation_within(60);
  INFO(violation);
  CHECK(violation.find("step ") != std::string::npos); // It cannot fill, or has too many groups.
}

TEST_SUITE_END();
