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
  plan.chunk_min = 4;
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

TEST_CASE("acceptance/a gated sampler takes over a windowed buffer that is too large for it") {
  std::uint64_t overdrawn = 0;
  for (const char* sampler : {"in_order", "weight_fifo", "ready_first"})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(sampler);
      CAPTURE(seed);
      sim::run_plan plan;
      plan.seed = seed;
      plan.sampler = {"windowed", 2};
      plan.later_samplers = {{sampler, seed % 2}};
      plan.groups_per_step = 4;
      plan.dataset = 48;
      plan.inflight_max = 3;
      plan.generators = 2;
      plan.token_lag = plan.weights_lag = milliseconds(5);
      plan.failures_one_in = 8;
      plan.save_pause = milliseconds(1);
      small_run run(plan);
      bool first_life = true;
      run.adjust = [&](main_job& job) {
        job.replay.groups_buffered_max = first_life ? 32 : 4 * (seed % 2 + 1);
      };
      std::size_t before = 0;
      run.after_crash = [&](crash_disk& disk) {
        first_life = false;
        const auto newest = load_newest(disk, run.request());
        before = newest ? newest->replay.ready.count + newest->sampler.admitted.count : 0;
        overdrawn += before > 4 * (seed % 2 + 1) ? 1 : 0;
      };
      // The audit knows each group's window, and the bound of each new stamp.
      run.run_clean({{sim::crash_kind::process, 300, std::nullopt, 0}});
      const auto& audit = run.audit();
      const auto dropped = audit.in_state[static_cast<std::size_t>(group_state::dropped)];
      CHECK(audit.consumed.size() + dropped == plan.dataset);
      for (const auto& [step, batch] : run.trained().steps)
        for (const trained_group& one : batch)
          if (std::string(sampler) != "ready_first") CHECK(one.start_version + 2 >= step);
    }
  CHECK(overdrawn >= 60);
}

TEST_CASE("acceptance/the reserve is whole at every instant: diverted, owned anew, drained") {
  sim::run_plan plan;
  plan.dataset = 14;
  plan.groups_per_step = 3;
  plan.siblings = 1;
  plan.bad_prompts_one_in = 4;
  plan.reserve_low = 2;
  plan.save_pause = std::chrono::microseconds(50);
  small_run alone(plan);
  alone.run_clean({});
  std::uint64_t with_spares = 0;
  for (std::uint64_t step = 1; step <= alone.length().steps; step += 3) {
    CAPTURE(step);
    small_run run(plan);
    run.after_crash = [&](crash_disk& disk) {
      const auto newest = load_newest(disk, run.request());
      if (newest && !newest->sampler.reserve.empty()) ++with_spares;
    };
    run.run_clean({{sim::crash_kind::process, step, std::nullopt, 0}});
    const auto& audit = run.audit();
    REQUIRE(audit.consumed.size() +
                audit.in_state[static_cast<std::size_t>(group_state::dropped)] ==
            plan.dataset);
  }
  CHECK(with_spares >= 50);
}

TEST_CASE("acceptance/pinned: the admission after a restore names a version that it has") {
  sim::run_plan plan;
  plan.sampler = {"in_order", 2};
  plan.pinned = true;
  plan.dataset = 20;
  plan.inflight_max = 2;
  plan.token_lag = milliseconds(20);
  small_run alone(plan);
  alone.run_clean({});
  std::uint64_t older = 0; // Weights that only the bundle still had.
  for (const char* const bundle : {"step_1", "step_2", "step_4", "step_7"}) {
    CAPTURE(std::string(bundle));
    small_run run(plan);
    std::map<std::uint64_t, std::uint64_t> asked; // Version by group, in the second life.
    run.adjust = [&](main_job& job) {
      hear_generations(
          job, [&] { asked.clear(); },
          [&](const GenerateGroup& request) {
            if (request.pinned()) asked[request.group()] = request.minimum_version();
          });
    };
    run.dies_after = bundle;
    run.run_clean(crashes_at_will(1));
    REQUIRE(run.report().crashes == 1);
    const std::uint64_t restored = std::stoull(std::string(bundle).substr(5));
    for (const auto& [group, version] : asked) {
      CHECK(version == std::max<std::uint64_t>(group / 2, 2) - 2);
      older += version < restored ? 1 : 0;
    }
    for (const auto& [step, batch] : alone.trained().steps)
      for (std::size_t i = 0; i < batch.size(); ++i)
        CHECK(run.trained().steps.at(step).at(i).versions == batch[i].versions);
  }
  CHECK(older > 0);
}

TEST_SUITE_END();
