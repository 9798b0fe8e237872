// Reported faults of checkpoints: samples that a restart lost, doubled, or made again.
#include "actors/rollout/rollout_state.hpp"
#include "tests/recovery/warm_run.hpp"
#include "tests/regress/observed_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace weir;
using namespace weir::test;

namespace {

/// The run of the recovery matrix at lag 1, with batch 5 admitted and the trainer at version 5.
void warm(small_run& run, const std::function<void(warm_run&)>& happens) {
  {
    const main_job job = run.job();
    warm_run first(run.disk(), job);
    first.next_batch();
    first.train_to(5);
    happens(first);
    first.publish();
  }
  run.disk().lose_process();
}

std::vector<group_id> trained_in(const small_run& run, std::uint64_t step) {
  std::vector<group_id> groups;
  for (const trained_group& one : run.trained().steps.at(step))
    groups.push_back(one.group);
  return groups;
}

void forget_ledger(bundle_parts& parts) {
  for (const ledger_record& record : in_dispatch_order(parts.ledger.ledger))
    parts.ledger.erase(record.group);
}

void forget_index(bundle_parts& parts) {
  for (const replay_record& record : in_dispatch_order(parts.index.index))
    parts.index.erase(record.group);
}

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/NeMo-RL_3599: 96 prompts in flight are trained after a crash") {
  sim::run_plan plan;
  plan.sampler = {"ready_first", 2};
  plan.groups_per_step = 32;
  plan.dataset = 192;
  plan.buffered_max = plan.inflight_max = 96;
  plan.tokens_max = 30;
  plan.log_normal_lengths = true;
  small_run alone(plan);
  alone.run_clean({});
  small_run run(plan);
  run.dies_after = "step_1";
  std::size_t unfinished = 0;
  run.after_crash = [&](crash_disk& disk) {
    unfinished = load_newest(disk, run.request())->sampler.ledger.size();
  };
  run.run_clean(crashes_at_will(1));
  CHECK(unfinished >= 32);
  CHECK(run.trained().groups() == all_groups(192));
  auto lengths = run.trained().lengths();
  auto expected = alone.trained().lengths();
  std::ranges::sort(lengths);
  std::ranges::sort(expected);
  CHECK(lengths == expected);
}

TEST_CASE("regress/NeMo-RL_3599: a cursor without its ledger is noticed at the next cut") {
  small_run run(matrix_plan("ready_first", 1));
  warm(run, [](warm_run& first) { first.done(12, 4); });
  plant(run.disk(), run.request(), forget_ledger);
  CHECK(mentions(run.run({}), "the cut does not balance"));
}

TEST_CASE("regress/OpenRLHF_1322: what was asked for beyond a batch is trained after a restart") {
  sim::run_plan plan;
  plan.dataset = 8;
  plan.groups_per_step = 2;
  plan.inflight_max = 4;
  small_run run(plan);
  run.dies_after = "step_1";
  run.run_clean(crashes_at_will(1));
  CHECK(run.report().crashes == 1);
  CHECK(run.trained().groups() == all_groups(8));
  CHECK(run.trained().steps.size() == 4);
}

TEST_CASE("regress/OpenRLHF_1322: data that ended exactly on a batch have ended after a restart") {
  sim::run_plan plan;
  plan.dataset = 8;
  plan.groups_per_step = 2;
  small_run run(plan);
  run.dies_after = "step_4";
  run.run_clean(crashes_at_will(1));
  CHECK(run.report().crashes == 1);
  CHECK(run.trained().groups() == all_groups(8));
  CHECK(run.audit().in_state[static_cast<std::size_t>(group_state::dropped)] == 0);
}

TEST_CASE("regress/verl_4199: no message is the only place of a sample, wherever it is parked") {
  sim::run_plan plan;
  plan.dataset = 6;
  plan.generators = 2;
  small_run alone(plan);
  alone.run_clean({});
  REQUIRE(alone.length().steps > 100);
  for (std::uint64_t step = 1; step <= alone.length().steps; ++step) {
    CAPTURE(step);
    small_run run(plan);
    run.run_clean({{sim::crash_kind::process, step, std::nullopt, 0}});
    REQUIRE(run.trained().groups() == all_groups(6));
  }
}

TEST_CASE("regress/verl-omni_470: prompts of 1 MiB come back whole") {
  constexpr std::size_t prompt_bytes = 1U << 20U;
  sim::run_plan plan;
  plan.dataset = 4;
  plan.siblings = 1;
  small_run run(plan);
  run.adjust = [](main_job& job) {
    std::string lines;
    for (const char letter : {'a', 'b', 'c', 'd'})
      lines += "{\"question\": \"" + std::string(prompt_bytes, letter) + "\", \"answer\": \"a\"}\n";
    auto records = dataset::parse("large.jsonl", std::move(lines), {});
    REQUIRE(records.has_value());
    job.records = std::make_shared<const dataset>(std::move(*records));
    job.rows.segment_bytes = 1U << 24U;
    job.rows.capacity_bytes = job.rows.high_water_bytes = 1U << 28U;
  };
  run.dies_after = "step_1";
  run.run_clean(crashes_at_will(1));
  CHECK(run.report().crashes == 1);
  CHECK(run.trained().groups() == all_groups(4));
  for (const auto& [step, batch] : run.trained().steps)
    for (const trained_group& one : batch)
      CHECK(one.prompt_tokens == prompt_bytes);
}

TEST_CASE("regress/TRL_5911: a resume generates what was unfinished, and nothing again") {
  small_run run(matrix_plan("in_order", 1));
  const auto asked = std::make_shared<std::set<std::uint64_t>>();
  run.adjust = [&run, asked](main_job& job) {
    hear_generations(
        job, [] {},
        [&run, asked](const GenerateGroup& request) {
          if (!run.trained().steps.contains(5)) asked->insert(request.group());
        });
  };
  warm(run, [](warm_run& first) {
    first.done(12, 4);
    first.done(13, 4);
  });
  run.run_clean({});
  CHECK(asked->contains(14));
  for (const std::uint64_t group : *asked)
    CHECK(group >= 14);
}

TEST_CASE("regress/NeMo-RL_3480: a finished batch is what the next step trains on") {
  for (const std::string& sampler : sim::all_samplers()) {
    CAPTURE(sampler);
    small_run run(matrix_plan(sampler, 1));
    warm(run, [](warm_run& first) {
      for (const std::uint64_t group : {12U, 13U, 14U})
        first.done(group, 4);
    });
    run.run_clean({});
    const std::vector<group_id> batch = {group_id(12), group_id(13), group_id(14)};
    CHECK(trained_in(run, 5) == batch);
  }
}

TEST_CASE("regress/NeMo-RL_3480: reserved groups wait for a gate that admitted ones open") {
  small_run run(matrix_plan("in_order", 0));
  run.adjust = [](main_job& job) {
    job.rollout.limits.inflight_max = 1;
    job.replay.groups_buffered_max = matrix_groups_per_step;
  };
  {
    const main_job job = run.job();
    warm_run first(run.disk(), job);
    first.next_batch(); // ADMITTED, and none of it generated.
    first.hand_out();   // RESERVED: the gate opens after step 5.
    first.publish();
  }
  run.disk().lose_process();
  run.run_clean({});
  CHECK(run.audit().consumed.size() == matrix_dataset);
}

TEST_CASE("regress/NeMo-RL_3480: an unknown phase is an error, not a group that is skipped") {
  ledger_record record;
  record.group = group_id(3);
  record.siblings = 2;
  const auto packed = pack_record(record);
  packed->phase = static_cast<GroupPhase>(77);
  const auto read = unpack_record(*packed);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == errc::corrupt);
}

TEST_CASE("regress/NeMo-RL_2651: with every third rollout failing, nothing is held at the end") {
  sim::run_plan plan;
  plan.dataset = 10'000;
  plan.groups_per_step = 50;
  plan.siblings = 1;
  plan.tokens_max = 1;
  plan.save_period = 0;
  plan.buffered_max = plan.inflight_max = 100;
  plan.failures_one_in = 3;
  small_run run(plan);
  run.run_clean({}); // Ends only if every slot and permit came back; checks leases and rows.
  CHECK(run.trained().groups().size() == 10'000);
}

TEST_CASE("regress/vime_324: counters without the buffered groups are refused") {
  small_run run(matrix_plan("in_order", 1));
  warm(run, [](warm_run& first) { first.done(12, 4); });
  plant(run.disk(), run.request(), forget_index);
  const auto outcome = run.run({});
  CHECK(mentions(outcome, "group 12"));
  CHECK(outcome.error().code == errc::corrupt);
}

TEST_CASE("regress/slime_data_source: offsets without index and rows are noticed at the next cut") {
  small_run run(matrix_plan("ready_first", 1));
  warm(run, [](warm_run& first) { first.done(12, 4); });
  plant(run.disk(), run.request(), [](bundle_parts& parts) {
    forget_index(parts);
    parts.rows = dataplane::snapshot();
  });
  CHECK(mentions(run.run({}), "the cut does not balance"));
}

TEST_CASE("regress/prime-rl_823: a buffer of 0, 1, capacity and one more groups round-trips") {
  constexpr std::uint64_t capacity = 4;
  for (const std::uint64_t groups : {0U, 1U, 4U, 5U}) {
    CAPTURE(groups);
    replay_image image;
    for (std::uint64_t group = 0; group < groups; ++group)
      image.put({.group = group_id(group),
                 .dispatch_index = static_cast<std::int64_t>(group / 2),
                 .target_step = static_cast<std::int64_t>(group / 2),
                 .rows = {row_id(group)}});
    const auto read = decode_replay(encode(image, {1, 1, 1}));
    REQUIRE(read.has_value());
    CHECK(in_dispatch_order(read->image.index) == in_dispatch_order(image.index));
    replay_state buffer(small_run(sim::run_plan()).job().policy, {.groups_buffered_max = capacity});
    REQUIRE(buffer.load(read->image).has_value());
    CHECK(buffer.permits().taken() == groups);
    // Nothing starts while the buffer is full or overdrawn.
    REQUIRE(buffer.request_start({.group = group_id(9), .dispatch_index = 9}).has_value());
    CHECK(buffer.grant_permits().empty() == (groups >= capacity));
  }
}

TEST_CASE("regress/NeMo-RL_3583: without its buffer a run resumes, and trains on every prompt") {
  sim::run_plan plan = matrix_plan("in_order", 1);
  plan.drops_replay = true; // In the third life.
  small_run run(plan);
  std::set<std::uint64_t> asked;
  run.adjust = [&](main_job& job) {
    hear_generations(
        job, [&] { asked.clear(); },
        [&](const GenerateGroup& request) { asked.insert(request.group()); });
  };
  warm(run, [](warm_run& first) {
    first.done(12, 4);
    first.done(13, 4);
  });
  const sim::crash_point at_once{sim::crash_kind::process, 1, std::nullopt, 0};
  run.run_clean({at_once, at_once});
  CHECK(run.report().crashes == 2);
  CHECK(asked.contains(12));
  CHECK(asked.contains(13));
  // For the steps that they were stamped for, and no group of the run is lost.
  CHECK(trained_in(run, 5) == std::vector<group_id>{group_id(12), group_id(13), group_id(14)});
  CHECK(run.audit().consumed.size() == matrix_dataset);
}

TEST_CASE("regress/tinker-cookbook_822: slow prompts are trained as often as others") {
  sim::run_plan plan;
  plan.dataset = 16;
  plan.epochs = 2;
  plan.tokens_max = 200;
  plan.log_normal_lengths = true;
  plan.token_lag = std::chrono::milliseconds(1);
  small_run run(plan);
  std::vector<sim::crash_point> crashes;
  for (std::uint64_t life = 0; life < 10; ++life)
    crashes.push_back({sim::crash_kind::process, 300, std::nullopt, 0});
  run.run_clean(crashes);
  CHECK(run.report().crashes == 10);
  CHECK(run.trained().groups() == all_groups(32));
}

TEST_CASE("regress/NeMo-RL_3238: a generation that never ends holds up no run, nor its resumes") {
  sim::run_plan plan;
  plan.dataset = 12;
  small_run run(plan);
  run.adjust = [](main_job& job) {
    job.rollout.failures.max_infra_attempts_per_prompt = 3;
    job.rollout.failures.max_consecutive_dropped_prompts = 1;
    job.rollout.failures.min_step_batch_fraction = 0.5;
    put_before_generators(job, [] {
      const auto is_straggler = [](const GenerateGroup& request) { return request.group() == 5; };
      return fault_plan{on<GenerateGroup>(is_straggler).drop()};
    });
  };
  run.run_clean({{sim::crash_kind::process, 300, std::nullopt, 0},
                 {sim::crash_kind::process, 300, std::nullopt, 0},
                 {sim::crash_kind::process, 300, std::nullopt, 0}});
  CHECK(run.report().crashes == 3);
  auto expected = all_groups(12);
  std::erase(expected, group_id(5));
  CHECK(run.trained().groups() == expected);
}

TEST_SUITE_END();
