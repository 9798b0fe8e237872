#include "tests/simulation/plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::sim {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Draws of one purpose; each use names its own, so that a new choice does not move the others.
class chooser {
public:
  chooser(std::uint64_t seed, std::uint64_t purpose)
      : random_(seed * 0x9e3779b97f4a7c15ULL + purpose) {}

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_.below(choices.size())));
  }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + random_.below(most - least + 1);
  }
  bool one_in(std::uint64_t count) { return random_.below(count) == 0; }
  std::uint64_t next() { return random_.next(); }

private:
  random_source random_;
};

sampler_choice choose_sampler(chooser& choose, const std::vector<std::string>& samplers) {
  sampler_choice chosen;
  chosen.name = samplers[choose.between(0, samplers.size() - 1)];
  chosen.window = choose.one_of<std::uint64_t>({0, 0, 1, 1, 2, 3});
  return chosen;
}

void choose_samplers(run_plan& plan, const std::vector<std::string>& samplers) {
  chooser choose(plan.seed, 1);
  plan.sampler = choose_sampler(choose, samplers);
  if (!choose.one_in(5)) return;
  for (int life = 0; life < 3; ++life)
    plan.later_samplers.push_back(choose_sampler(choose, samplers));
}

void choose_sizes(run_plan& plan) {
  chooser choose(plan.seed, 2);
  plan.groups_per_step = choose.between(1, 4);
  plan.siblings = static_cast<std::uint32_t>(choose.between(1, 3));
  plan.dataset = plan.groups_per_step * choose.between(1, 5) + choose.between(0, 3);
  plan.epochs = choose.between(1, 2);
  plan.tokens_max = choose.between(1, 4);
  if (choose.one_in(4)) plan.steps_max = choose.between(1, 6);
  // Room for what every sampler of this run needs; sometimes no more than that.
  std::uint64_t window = plan.sampler.window;
  for (const sampler_choice& later : plan.later_samplers)
    window = std::max(window, later.window);
  const std::uint64_t needed = plan.groups_per_step * (window + 1);
  plan.buffered_max = needed + (choose.one_in(2) ? 0 : choose.between(0, 8));
  plan.inflight_max = choose.between(1, 6);
  // A store that is nearly always full: only what the open step needs gets in.
  if (choose.one_in(4)) plan.store_bytes = choose.between(1, 400);
}

void choose_saving(run_plan& plan) {
  chooser choose(plan.seed, 3);
  plan.save_period = choose.one_of<std::uint64_t>({0, 1, 1, 1, 2, 3});
  if (plan.save_period == 0 || choose.one_in(2))
    plan.save_pause = choose.one_of<nanoseconds>(
        {std::chrono::microseconds(100), milliseconds(1), milliseconds(5), milliseconds(20)});
  if (choose.one_in(2)) plan.keep_top_k = choose.between(1, 3);
  plan.warm_up = choose.one_in(8);
}

void choose_world(run_plan& plan) {
  chooser choose(plan.seed, 4);
  plan.generators = choose.between(1, 3);
  plan.environments = choose.between(1, 2);
  plan.token_lag = choose.one_of<nanoseconds>({nanoseconds(0), milliseconds(1), milliseconds(20)});
  plan.weights_lag =
      choose.one_of<nanoseconds>({nanoseconds(0), milliseconds(1), milliseconds(50)});
  if (choose.one_in(5)) plan.failures_one_in = choose.between(3, 12);
  if (choose.one_in(8)) plan.silences_one_in = choose.between(6, 20);
  plan.step_cost = choose.one_of<nanoseconds>(
      {nanoseconds(1'000), nanoseconds(1'000), nanoseconds(10'000), milliseconds(1)});
  plan.job_delay = choose.one_of<nanoseconds>({nanoseconds(0), milliseconds(1), milliseconds(30)});
  if (!choose.one_in(3)) return;
  // Barriers are cut short: cuts are given up, gates open by themselves.
  const auto steps = static_cast<std::int64_t>(choose.between(10, 120));
  plan.barrier_timeout = plan.step_cost * steps;
  plan.hold_limit = plan.barrier_timeout * 2 + nanoseconds(1);
}

/// Pins need stamps in every life.
void choose_training(run_plan& plan) {
  chooser choose(plan.seed, 6);
  const auto stamps = [](const sampler_choice& one) { return one.name == "in_order"; };
  const bool may_pin = stamps(plan.sampler) && std::ranges::all_of(plan.later_samplers, stamps);
  plan.pinned = choose.one_in(2) && may_pin;
  if (choose.one_in(2)) plan.chunk_min = choose.between(1, plan.groups_per_step);
}

void choose_deaths(run_plan& plan) {
  chooser choose(plan.seed, 9);
  if (choose.one_in(5)) plan.deaths_one_in = choose.between(4, 16);
  if (choose.one_in(4))
    plan.checkpoint_death_pause = choose.one_of<nanoseconds>(
        {std::chrono::microseconds(50), milliseconds(1), milliseconds(10)});
}

void choose_faults(run_plan& plan) {
  chooser choose(plan.seed, 10);
  if (!choose.one_in(3)) return;
  if (choose.one_in(2)) plan.delays_one_in = choose.between(3, 20);
  if (choose.one_in(2)) plan.duplicates_one_in = choose.between(2, 10);
  if (choose.one_in(2)) plan.reorders_one_in = choose.between(3, 20);
  if (choose.one_in(2)) plan.losses_one_in = choose.between(8, 30);
}

void choose_restores(run_plan& plan) {
  chooser choose(plan.seed, 7);
  plan.drops_replay = choose.one_in(6);
}

void choose_drops(run_plan& plan) {
  chooser choose(plan.seed, 8);
  // A drop budget needs a sampler that stamps: others would wait for a batch that cannot fill.
  const bool stamps = plan.sampler.name == "in_order" && plan.later_samplers.empty();
  if (!stamps || plan.pinned || !choose.one_in(2)) return;
  if (!choose.one_in(4)) plan.bad_prompts_one_in = choose.between(2, 8);
  if (plan.failures_one_in > 0 && choose.one_in(2))
    plan.infra_attempts = static_cast<std::uint32_t>(choose.between(1, 2));
  if (choose.one_in(2)) plan.reserve_low = choose.between(1, 3);
  plan.replacement_attempts = static_cast<std::uint32_t>(choose.between(1, 2));
}

} // namespace

const std::vector<std::string>& all_samplers() {
  static const std::vector<std::string> names = {"in_order", "weight_fifo", "ready_first",
                                                 "windowed"};
  return names;
}

run_plan plan_of(std::uint64_t seed, const std::vector<std::string>& samplers) {
  run_plan plan;
  plan.seed = seed;
  choose_samplers(plan, samplers);
  choose_sizes(plan);
  choose_saving(plan);
  choose_world(plan);
  choose_training(plan);
  choose_drops(plan);
  choose_restores(plan);
  choose_deaths(plan);
  choose_faults(plan);
  return plan;
}

bool drops_prompts(const run_plan& plan) {
  return plan.bad_prompts_one_in > 0 || plan.infra_attempts > 0;
}

bool drops_by_chance(const run_plan& plan) {
  // Which spare takes whose place depends on who fails first.
  return plan.infra_attempts > 0 || (plan.bad_prompts_one_in > 0 && plan.reserve_low > 0);
}

std::vector<crash_point> crashes_of(std::uint64_t seed, const run_length& length,
                                    std::optional<std::uint64_t> count) {
  chooser choose(seed, 5);
  const std::uint64_t chosen = choose.between(8, 22);
  const std::uint64_t wanted = count.value_or(chosen);
  // Lives that are long enough to save something, and so short that there is work left.
  const std::uint64_t share = choose.between(5, 20);
  std::vector<crash_point> crashes;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    crash_point crash;
    crash.kind = choose.one_in(2) ? crash_kind::process : crash_kind::power;
    if (choose.one_in(2))
      crash.at_step = choose.between(1, length.steps / share + 1);
    else
      crash.at_disk_call = choose.between(1, length.disk_calls / share + 1);
    crash.power_seed = choose.next();
    crashes.push_back(crash);
  }
  return crashes;
}

namespace {

std::string faults_of(const run_plan& plan) {
  std::string text;
  const auto add = [&text](std::uint64_t one_in, const char* what) {
    if (one_in > 0) text += ", one call in " + std::to_string(one_in) + what;
  };
  add(plan.delays_one_in, " is late");
  add(plan.duplicates_one_in, " goes out again");
  add(plan.reorders_one_in, " is overtaken");
  add(plan.losses_one_in, " is lost");
  return text;
}

} // namespace

std::string to_string(const run_plan& plan) {
  const auto us = [](nanoseconds time) { return std::to_string(time.count() / 1000) + " us"; };
  const auto named = [](const sampler_choice& one) {
    return one.name + " W=" + std::to_string(one.window);
  };
  std::string text = named(plan.sampler);
  for (const sampler_choice& later : plan.later_samplers)
    text += " -> " + named(later);
  if (plan.pinned) text += ", pinned";
  if (plan.chunk_min > 0) text += ", chunks of " + std::to_string(plan.chunk_min);
  text += ", N=" + std::to_string(plan.groups_per_step) + ", G=" + std::to_string(plan.siblings) +
          ", " + std::to_string(plan.dataset) + " prompts x " + std::to_string(plan.epochs);
  if (plan.steps_max < 1'000'000) text += ", at most " + std::to_string(plan.steps_max) + " steps";
  text += ", buffer " + std::to_string(plan.buffered_max) + ", in flight " +
          std::to_string(plan.inflight_max) + ", save every " + std::to_string(plan.save_period) +
          " steps";
  if (plan.save_pause.count() > 0) text += " and about every " + us(plan.save_pause);
  if (plan.keep_top_k) text += ", keep " + std::to_string(*plan.keep_top_k);
  if (plan.warm_up) text += ", warm-up";
  text += ", " + std::to_string(plan.generators) + " generators (tokens up to " +
          us(plan.token_lag) + ", weights up to " + us(plan.weights_lag) + " late";
  if (plan.failures_one_in > 0)
    text += ", one in " + std::to_string(plan.failures_one_in) + " fails";
  if (plan.deaths_one_in > 0)
    text += ", one in " + std::to_string(plan.deaths_one_in) + " kills its generator";
  if (plan.checkpoint_death_pause.count() > 0)
    text += ", the checkpoint actor dies about every " + us(plan.checkpoint_death_pause);
  text += faults_of(plan);
  if (plan.silences_one_in > 0)
    text += ", one in " + std::to_string(plan.silences_one_in) + " is silent";
  if (plan.bad_prompts_one_in > 0)
    text += ", one prompt in " + std::to_string(plan.bad_prompts_one_in) + " is bad";
  if (plan.infra_attempts > 0)
    text += ", " + std::to_string(plan.infra_attempts) + " infra attempts";
  if (plan.reserve_low > 0)
    text += ", reserve " + std::to_string(plan.reserve_low) + " with " +
            std::to_string(plan.replacement_attempts) + " attempts";
  if (plan.drops_replay) text += ", every third restore drops replay";
  text += "), step " + us(plan.step_cost) + ", jobs up to " + us(plan.job_delay) +
          " late, barrier within " + us(plan.barrier_timeout) + ", gates closed for " +
          us(plan.hold_limit) + " at most";
  return text;
}

std::string to_string(const crash_point& crash) {
  std::string text = crash.kind == crash_kind::power ? "power loss" : "process loss";
  if (crash.at_step) text += " at step " + std::to_string(*crash.at_step);
  if (crash.at_disk_call) text += " in disk call " + std::to_string(*crash.at_disk_call);
  return text;
}

} // namespace weir::sim
