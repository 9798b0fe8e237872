// A crash must not change what a run trains on. Lengths of completions are log-normal here: at any
// instant most of the unfinished groups are long ones, so that whoever loses, skips or starts over
// with other prompts after a crash trains on short ones.
#include "tests/regress/observed_job.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/tiny_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace weir;
using namespace weir::test;

namespace {

using lengths = std::vector<std::uint64_t>;

sim::run_plan long_tailed(std::uint64_t seed) {
  sim::run_plan plan;
  plan.seed = seed;
  plan.sampler = {sim::all_samplers()[seed % 4], 1 + seed / 4 % 2};
  // A window that drops nothing: what windowed gives up as stale depends on the time that a crash
  // costs, and is its policy (40 % of these runs at W 1 and 2), not a loss.
  if (plan.sampler.name == "windowed") plan.sampler.window = 64;
  plan.groups_per_step = 4;
  plan.siblings = 1;
  plan.dataset = 64;
  plan.tokens_max = 200;
  plan.log_normal_lengths = true;
  plan.token_lag = std::chrono::milliseconds(1);
  plan.buffered_max = 16;
  plan.inflight_max = 12;
  return plan;
}

/// The chance that two samples of one distribution are as far apart as these (Kolmogorov-Smirnov;
/// ties make it larger, never smaller).
double chance_of_one_distribution(lengths left, lengths right) {
  std::ranges::sort(left);
  std::ranges::sort(right);
  const auto below = [](const lengths& sample, std::uint64_t value) {
    const auto end = std::ranges::upper_bound(sample, value);
    return static_cast<double>(end - sample.begin()) / static_cast<double>(sample.size());
  };
  double distance = 0;
  for (const lengths& sample : {left, right})
    for (const std::uint64_t value : sample)
      distance = std::max(distance, std::abs(below(left, value) - below(right, value)));
  const auto size_left = static_cast<double>(left.size());
  const auto size_right = static_cast<double>(right.size());
  const double lambda = distance * std::sqrt(size_left * size_right / (size_left + size_right));
  double chance = 0;
  for (int k = 1; k <= 100; ++k)
    chance += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * lambda * lambda);
  return lambda < 0.2 ? 1 : std::clamp(chance, 0.0, 1.0);
}

/// Six crashes, each after 10 to 50 % of the run's length: late enough for a bundle to be there.
std::vector<sim::crash_point> crashes_within(const sim::run_length& length, std::uint64_t seed) {
  random_source random(seed);
  std::vector<sim::crash_point> crashes(6);
  for (sim::crash_point& crash : crashes) {
    crash.kind = random.below(2) == 0 ? sim::crash_kind::process : sim::crash_kind::power;
    crash.at_step = length.steps * (10 + random.below(40)) / 100;
    crash.power_seed = random.next();
  }
  return crashes;
}

struct both_samples {
  lengths uninterrupted, resumed;
  std::uint64_t crashes = 0;
  std::uint64_t failed = 0;
};

/// What a run trained on, alone and with crashes; `edit` replaces each bundle that is resumed from.
void add_runs(std::uint64_t seed, const std::function<void(bundle_parts&)>& edit,
              both_samples& samples) {
  const sim::run_plan plan = long_tailed(seed);
  const auto alone = std::make_shared<training_record>();
  const auto resumed = std::make_shared<training_record>();
  sim::history undisturbed(plan, {.adjust = [&](main_job& job) { record_training(job, alone); }});
  REQUIRE(undisturbed.run({}).has_value());
  sim::history_hooks hooks{.adjust = [&](main_job& job) { record_training(job, resumed); }};
  world unused;
  const main_job job = sim::tiny_job(plan, plan.sampler, unused, nullptr);
  if (edit)
    hooks.after_crash = [&](crash_disk& disk) { plant(disk, sim::request_of(plan, job), edit); };
  sim::history disturbed(plan, std::move(hooks));
  const auto ended = disturbed.run(crashes_within(undisturbed.length(), seed));
  if (!ended) ++samples.failed;
  if (!edit) {
    INFO((ended ? std::string() : to_string(ended.error())));
    REQUIRE(ended.has_value());
  }
  sim::run_report report;
  disturbed.report_to(report);
  samples.crashes += report.crashes;
  if (!edit) {
    auto expected = alone->lengths();
    auto trained = resumed->lengths();
    std::ranges::sort(expected);
    std::ranges::sort(trained);
    CHECK(trained == expected); // The very same completions, whatever a crash broke off.
  }
  for (const auto& [record, into] :
       {std::pair(alone, &samples.uninterrupted), std::pair(resumed, &samples.resumed)}) {
    const lengths trained = record->lengths();
    into->insert(into->end(), trained.begin(), trained.end());
  }
}

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/length_bias: 200 runs with crashes train on the lengths of runs without") {
  both_samples samples;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    add_runs(seed, {}, samples);
  CHECK(samples.crashes >= 600);
  CHECK(samples.resumed.size() >= 200 * 50);
  const double chance = chance_of_one_distribution(samples.uninterrupted, samples.resumed);
  MESSAGE("p = ", chance, ", ", samples.crashes, " crashes, ", samples.uninterrupted.size(),
          " and ", samples.resumed.size(), " completions");
  CHECK(chance > 0.5);
}

TEST_CASE("regress/length_bias: a cursor that is saved without its ledger is noticed") {
  // All that is unfinished is forgotten, and the totals agree, so that no cut is out of balance.
  const auto forget = [](bundle_parts& parts) {
    for (const ledger_record& record : in_dispatch_order(parts.ledger.ledger)) {
      parts.ledger.erase(record.group);
      parts.ledger.dropped.add(drop_reason::stale, record.group);
    }
  };
  both_samples samples;
  // ready_first and windowed: no step waits for a stamp that was forgotten.
  for (std::uint64_t seed = 2; seed <= 80; seed += 4)
    for (const std::uint64_t one : {seed, seed + 1})
      add_runs(one, forget, samples);
  const double chance = chance_of_one_distribution(samples.uninterrupted, samples.resumed);
  MESSAGE("p = ", chance, ", ", samples.crashes, " crashes, ", samples.failed, " failed ",
          samples.uninterrupted.size(), " and ", samples.resumed.size(), " completions");
  CHECK(chance < 1e-4);
  CHECK(samples.failed >= 30); // The audit misses the groups, too, where there were any.
}

TEST_SUITE_END();
