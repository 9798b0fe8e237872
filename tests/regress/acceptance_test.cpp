// Situations that the model checks found, as runs of the whole graph: each ends as it should with
// the rule, and is noticed without it.
#include "messages/rule.hpp"
#include "tests/regress/observed_job.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::test;

namespace {

using std::chrono::milliseconds;

/// The first of the seeds for which the run does not end as it should, two crashes included; 0 if
/// there is none.
std::uint64_t failing_seed(sim::run_plan plan, std::uint64_t seeds) {
  for (plan.seed = 1; plan.seed <= seeds; ++plan.seed) {
    small_run run(plan);
    const auto ended = run.run({{sim::crash_kind::process, 150, std::nullopt, 0},
                                {sim::crash_kind::power, 400, std::nullopt, plan.seed}});
    if (!ended) return plan.seed;
  }
  return 0;
}

std::uint64_t failing_seed_without(rule which, const sim::run_plan& plan, std::uint64_t seeds) {
  const rule_suspension off(which);
  return failing_seed(plan, seeds);
}

} // namespace

TEST_SUITE_BEGIN("acceptance");

TEST_CASE("acceptance/a generator that lags, at W = 0, trains nothing that is stale") {
  sim::run_plan plan;
  plan.sampler = {"in_order", 0};
  plan.dataset = 12;
  plan.generators = 3;
  plan.weights_lag = milliseconds(50);
  CHECK(failing_seed(plan, 100) == 0);
  small_run run(plan);
  run.run_clean({});
  CHECK(run.audit().staleness_max == 0);
  CHECK(failing_seed_without(rule::version_live_on_every_generator, plan, 100) > 0);
}

TEST_CASE("acceptance/a store that look-ahead fills has room for the open step's straggler") {
  sim::run_plan plan;
  plan.sampler = {"in_order", 1};
  plan.groups_per_step = 4;
  plan.siblings = 1;
  plan.dataset = 16;
  plan.tokens_max = 4; // Sizes 1 to 4.
  plan.token_lag = milliseconds(20);
  plan.store_bytes = 200; // About eight tokens, with their prompts.
  CHECK(failing_seed(plan, 100) == 0);
  CHECK(failing_seed_without(rule::open_step_granted_credit, plan, 100) > 0);
}

TEST_CASE("acceptance/weight_fifo does not wedge: N 4, W 1, room for 8, 2 in flight, lag") {
  sim::run_plan plan;
  plan.sampler = {"weight_fifo", 1};
  plan.groups_per_step = 4;
  plan.siblings = 1;
  plan.dataset = 24;
  plan.buffered_max = 8;
  plan.inflight_max = 2;
  plan.generators = 2;
  plan.token_lag = plan.weights_lag = milliseconds(20);
  CHECK(failing_seed(plan, 1000) == 0);
  CHECK(failing_seed_without(rule::fifo_by_admission_version, plan, 1000) > 0);
}

TEST_CASE("acceptance/windowed goes on with room for no more than a step") {
  sim::run_plan plan;
  plan.sampler = {"windowed", 1};
  plan.groups_per_step = 4;
  plan.dataset = 20;
  plan.buffered_max = 4;
  plan.inflight_max = 3;
  plan.token_lag = milliseconds(1);
  CHECK(failing_seed(plan, 100) == 0);
}

TEST_CASE("acceptance/staleness stays within the window, before and after restarts") {
  for (const char* sampler : {"in_order", "weight_fifo", "windowed"})
    for (const std::uint64_t window : {0U, 1U, 2U}) {
      CAPTURE(sampler);
      CAPTURE(window);
      sim::run_plan plan;
      plan.sampler = {sampler, window};
      plan.dataset = 24;
      plan.generators = 2;
      plan.token_lag = plan.weights_lag = milliseconds(10);
      small_run run(plan);
      run.run_clean({{sim::crash_kind::process, 300, std::nullopt, 0},
                     {sim::crash_kind::power, 300, std::nullopt, 3}});
      // Told by the learner, not by the labels that the audit reads.
      for (const auto& [step, batch] : run.trained().steps)
        for (const trained_group& one : batch)
          for (const auto& versions : one.versions)
            CHECK(versions.front() + window >= step);
    }
}

TEST_SUITE_END();
