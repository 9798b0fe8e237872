// Reported faults of memory, versions, hangs and cancels.
#include "actors/generator/generation_queue.hpp"
#include "actors/rollout/reconcile.hpp"
#include "dataplane/posix_disk.hpp"
#include "tests/actors/barrier_world.hpp"
#include "tests/actors/cores.hpp"
#include "tests/regress/observed_job.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <set>

using namespace weir;
using namespace weir::test;

namespace {

/// A fault actor before each generator of the job, with this plan.
std::function<void(main_job&)> with_faults(fault_plan plan) {
  return [plan = std::move(plan)](main_job& job) {
    put_before_generators(job, [plan] { return plan; });
  };
}

/// A thousand steps, each with a row of 128 KiB and a save.
main_job saving_job(world& env, const temp_dir& home) {
  sim::run_plan plan;
  plan.groups_per_step = plan.siblings = 1;
  plan.dataset = 200;
  plan.keep_top_k = 1;
  main_job job = sim::tiny_job(plan, plan.sampler, env, std::make_shared<sim::observed>());
  job.codec.encode = [](std::string_view) { return std::vector<std::int32_t>(32'768); };
  job.rows.segment_bytes = 1U << 20U;
  job.rows.capacity_bytes = job.rows.high_water_bytes = 1U << 24U;
  job.bundles.checkpoint_directory = home.file("checkpoints");
  REQUIRE(dataplane::make_directories(env.storage(), job.bundles.checkpoint_directory));
  return job;
}

/// A judge who takes his time.
class slow_judge final : public actor {
public:
  using protocol = environment_protocol;
  explicit slow_judge(context ctx) : actor(std::move(ctx)) {
    serve(&slow_judge::on_score);
    serve(&slow_judge::on_probe);
  }

private:
  task<result<message<CompletionScored>>> on_score(message<ScoreCompletion>) {
    co_await clock().after(std::chrono::seconds(60));
    co_return pack(CompletionScoredT());
  }
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    co_return pack(ProbeAnsweredT());
  }
};

/// Asks the judge, and loses interest.
class impatient final : public actor {
public:
  using protocol = environment_protocol;
  impatient(context ctx, handle<environment_protocol> judge)
      : actor(std::move(ctx)), judge_(std::move(judge)) {}

private:
  task<void> run() override {
    scope scoring;
    for (int sibling = 0; sibling < 4; ++sibling)
      scoring.spawn(&impatient::score, this);
    co_await clock().after(std::chrono::milliseconds(1));
    scoring.cancel();
    co_await scoring.joined();
    finish_run();
  }
  task<void> score() {
    auto request = pack(ScoreCompletionT());
    auto scored = co_await judge_.ask(request, within(std::chrono::seconds(500)));
    ensure(!scored, "nobody waits for the judge");
  }
  const handle<environment_protocol> judge_;
};

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/marin_6774: memory does not grow from save to save") {
  const temp_dir home;
  const auto storage = dataplane::make_posix_disk();
  simulation_options options;
  options.storage = storage.get();
  simulation around(std::move(options));
  main_job job = saving_job(around.env(), home);
  std::uint64_t saves = 0;
  std::vector<std::size_t> bytes_in_use;
  job.record_checkpoint = [&](const checkpoint_record&) {
    if (++saves % 100 == 0) bytes_in_use.push_back(::mallinfo2().uordblks);
  };
  auto held = dataplane::run_directory::acquire(*storage, home.path().string(), {});
  REQUIRE(held.has_value());
  const auto directory = std::make_shared<dataplane::run_directory>(std::move(*held));
  const auto number = directory->raise_incarnation({});
  REQUIRE(number.has_value());
  begun_life fresh;
  fresh.life = *number;
  fresh.run_id = "run";
  auto life = compose_life(job, around.env(), fresh, directory);
  REQUIRE(life.has_value());
  REQUIRE(life->actors->start().has_value());
  while (!life->actors->outcome() && around.step()) {
  }
  REQUIRE(bytes_in_use.size() == 2);
  // A save that left its capture behind, or an answer with a batch that is remembered, would keep
  // 128 KiB of rows.
  CHECK(bytes_in_use[1] < bytes_in_use[0] + 100U * 8192U);
  CHECK(life->actors->stop().has_value());
}

TEST_CASE(
    "regress/AReaL_1388: at version 50 with nothing counted, the gate lets in W batches ahead") {
  for (const std::int64_t window : {0, 1, 2}) {
    CAPTURE(window);
    const auto policy = testing::policy_of("in_order", window);
    sampler_image image;
    image.sampler = "windowed"; // Its index says nothing of versions.
    image.window = 3;
    image.groups_per_step = 2;
    replay_image nothing;
    image.live_version = weight_version(50);
    REQUIRE(reconcile(image, nothing, *policy, 2, weight_version(50)).has_value());
    sampler_state sampler(policy, 2, {});
    REQUIRE(sampler.load(image).has_value());
    testing::event_log log;
    std::vector<std::int64_t> targets;
    for (std::uint64_t batch = 0; batch < 5 && sampler.may_admit().value(); ++batch)
      targets.push_back(testing::admit_batch(sampler, batch * 2, 2, log).target_step);
    std::vector<std::int64_t> expected;
    for (std::int64_t step = 50; step <= 50 + window; ++step)
      expected.push_back(step);
    CHECK(targets == expected);
  }
}

TEST_CASE("regress/prime-rl_3004: the first rollouts after a restart carry the restored version") {
  sim::run_plan plan;
  plan.dataset = 20;
  plan.token_lag = plan.weights_lag = std::chrono::milliseconds(20);
  small_run run(plan);
  std::set<std::uint64_t> asked;
  run.adjust = [&](main_job& job) {
    hear_generations(
        job, [&] { asked.clear(); },
        [&](const GenerateGroup& request) { asked.insert(request.group()); });
  };
  run.dies_after = "step_3";
  run.run_clean(crashes_at_will(1));
  REQUIRE(run.report().crashes == 1);
  std::size_t made_after_restart = 0;
  for (const auto& [step, batch] : run.trained().steps)
    for (const trained_group& one : batch) {
      if (!asked.contains(one.group.value)) continue;
      ++made_after_restart;
      CHECK(one.start_version >= 3);
    }
  CHECK(made_after_restart > 0);
}

TEST_CASE("regress/slime_2092: a group whose attempts broke off keeps the tokens of one attempt") {
  std::size_t straddling = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::run_plan plan;
    plan.seed = seed;
    plan.sampler = {"ready_first", 2};
    plan.dataset = 20;
    plan.tokens_max = 8;
    plan.token_lag = plan.weights_lag = std::chrono::milliseconds(10);
    plan.failures_one_in = 2;
    small_run run(plan); // The learner of a simulation refuses tokens that stand twice.
    run.run_clean({});
    for (const auto& [step, batch] : run.trained().steps)
      for (const trained_group& one : batch)
        for (const auto& versions : one.versions) {
          CHECK(std::ranges::is_sorted(versions));
          CHECK(versions.front() >= one.start_version);
          straddling += versions.front() != versions.back() ? 1 : 0;
        }
  }
  CHECK(straddling > 0);
}

TEST_CASE("regress/NeMo-RL_3488: without a generator the run ends, and says which one failed") {
  small_run run({});
  run.adjust = with_faults({on<GenerateGroup>().kill()});
  CHECK(mentions(run.run({}), "generator-0"));
}

TEST_CASE("regress/TRL_6797: weights that get lost are missed within the deadline") {
  small_run run({});
  run.adjust = with_faults({on<UpdateWeights>().drop().nth(2)});
  const auto outcome = run.run({});
  CHECK(mentions(outcome, "did not take the weights of version 1"));
  CHECK(mentions(outcome, "before-generator-0"));
}

TEST_CASE("regress/verl_7423: a barrier and a weight update never wait for each other") {
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    sim::run_plan plan;
    plan.seed = seed;
    plan.generators = 2;
    plan.weights_lag = std::chrono::microseconds(200);
    plan.save_period = 1; // Asked for by each consume, which the update follows at once.
    plan.save_pause = std::chrono::microseconds(20);
    small_run run(plan);
    run.run_clean({{sim::crash_kind::process, 200, std::nullopt, 0}});
    crashes += run.report().crashes;
    CHECK(run.trained().groups() == all_groups(8));
  }
  CHECK(crashes == 150);
}

TEST_CASE("regress/slime_2176: a cancel does not wait for a judge who takes a minute") {
  const auto ended = simulate(1, [](graph& system) {
    const auto judge = system.add<slow_judge>("judge");
    system.add<impatient>("impatient", judge);
  });
  INFO((ended.outcome ? std::string() : to_string(ended.outcome.error())));
  CHECK(ended.outcome.has_value());
  CHECK(ended.elapsed < std::chrono::seconds(1));
}

TEST_CASE("regress/vllm_44100: a group that is aborted before its first token holds no place") {
  generation_queue queue;
  for (std::uint64_t group = 0; group < 100; ++group) {
    GenerateGroupT request;
    request.group = group;
    request.siblings = 2;
    const auto tag = queue.enqueue(request, 2); // Refused if an earlier one were still here.
    REQUIRE(tag.has_value());
    if (group % 2 == 1) queue.started(*tag);
    queue.remove(*tag);
    queue.append({.tag = *tag, .token = 1}); // On its way when the abort came.
    CHECK(queue.deliverable(1).empty());
    CHECK_FALSE(queue.next_startable(0).has_value());
  }
  CHECK(queue.size() == 0);
}

TEST_CASE("regress/FLINK-20645: messages that overtake a barrier, in every order, are in one cut") {
  const auto found = testing::explore({.transactions = 2, .duplicates = 1});
  CHECK(found.torn == 0);
  CHECK(found.stuck == 0);
  CHECK(found.halved == 0);
  CHECK(found.published > 0);
}

TEST_SUITE_END();
