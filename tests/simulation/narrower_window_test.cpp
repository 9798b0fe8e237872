// A resume with a smaller window pins groups of later steps to versions that are yet to come.
// They wait for them before they fly: whoever waited in flight would keep a group of the open step,
// which failed and tries again, from flying, and with it the versions that they wait for.
#include "tests/simulation/history.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace weir;
using namespace weir::sim;
using std::chrono::hours;

namespace {

run_plan plan_of(std::uint64_t seed) {
  run_plan plan;
  plan.seed = seed;
  plan.sampler = {"in_order", 3};
  plan.later_samplers = {{"in_order", 0}};
  plan.pinned = true;
  plan.groups_per_step = 2;
  plan.dataset = 16;
  plan.buffered_max = 8;
  plan.inflight_max = 1;
  plan.failures_one_in = 2;
  return plan;
}

std::string violation_of(std::uint64_t seed) {
  const run_plan plan = plan_of(seed);
  history_hooks hooks;
  test::crash_disk* disk = nullptr;
  hooks.adjust = [&disk](main_job& job) {
    job.rollout.generation_timeout = hours(7); // Longer than a life may take.
    job.rollout.rollout_timeout = hours(8);
    job.record_checkpoint = [&disk](const checkpoint_record& record) {
      if (record.published.bundle == "step_2") disk->die();
    };
  };
  history run(plan, hooks);
  disk = &run.disk();
  const auto ended = run.run(std::vector<crash_point>(1));
  return ended ? std::string() : to_string(ended.error());
}

} // namespace

TEST_SUITE_BEGIN("simulation");

TEST_CASE("a smaller window on resume lets no group wait in flight for weights") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CHECK(violation_of(seed) == "");
  }
}

TEST_SUITE_END();
