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
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

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
  plan.save_pause = microseconds(500);
  plan.token_lag = milliseconds(1);
  plan.bad_prompts_one_in = 4;
  plan.reserve_low = 2;
  plan.replacement_attempts = 2;
  return plan;
}

/// Dies of every bundle that is published, up to 40 of them. Returns what does not hold.
std::string violation_of(std::uint64_t seed) {
  const run_plan plan = plan_of(seed);
  history_hooks hooks;
  test::crash_disk* disk = nullptr;
  hooks.adjust = [&disk](main_job& job) {
    job.record_checkpoint = [&disk](const checkpoint_record&) { disk->die(); };
  };
  history run(plan, hooks);
  disk = &run.disk();
  const auto ended = run.run(std::vector<crash_point>(40));
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

TEST_CASE(
    "replaced_under_one_lease: no cut has a step with too many groups, another with too few") {
  const armed held_open("rollout.replacing=delay:5ms,rollout.repaying=delay:5ms");
  CHECK(violation_within(5) == "");
  const rule_suspension off(rule::replaced_under_one_lease);
  const std::string violation = violation_within(5);
  INFO(violation);
  CHECK(violation.find("groups, more than 2") != std::string::npos);
}

TEST_SUITE_END();
