#include "tests/simulation/one_life.hpp"

#include "actors/audit/run_audit.hpp"
#include "actors/runtime/simulation.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/support/crash_disk.hpp"

#include <tuple>
#include <utility>

namespace weir::sim {

namespace {

constexpr std::uint64_t life_steps_max = 3'000'000;
constexpr std::uint64_t settling_steps_max = 20'000;

result<composed_life> compose(const run_plan& plan, const main_job& job, simulation& around,
                              test::crash_disk& disk) {
  auto directory = open_run_directory(disk);
  if (!directory) return failure(std::move(directory.error()));
  const auto fine = [](const restored_states&) { return result<void>(); };
  auto begun = begin_life(disk, **directory, request_of(plan, job), "run", fine);
  if (!begun) return failure(std::move(begun.error()));
  return compose_life(job, around.env(), *begun, *directory);
}

result<void> run(composed_life& life, simulation& around) {
  if (auto started = life.actors->start(); !started) return started;
  while (!life.actors->outcome() && around.steps() < life_steps_max && around.step()) {
  }
  if (const auto outcome = life.actors->outcome()) return *outcome;
  return failure(errc::timed_out, "the life does not end:\n" + life.actors->dump_tasks("rollout") +
                                      life.actors->dump_tasks("trainer"));
}

/// Notes that are under way arrive: a second of virtual time.
void settle(simulation& around) {
  const auto until = around.elapsed() + std::chrono::seconds(1);
  const std::uint64_t last = around.steps() + settling_steps_max;
  while (around.elapsed() < until && around.steps() < last && around.step()) {
  }
}

} // namespace

run_plan quiet_plan() {
  run_plan plan;
  plan.groups_per_step = 4;
  plan.dataset = 16;
  plan.buffered_max = 16;
  plan.inflight_max = 16;
  plan.save_period = 2;
  return plan;
}

one_life live_once(const run_plan& plan, const std::function<void(main_job&)>& adjust,
                   std::optional<watchdog_options> watch) {
  one_life lived;
  test::crash_disk disk;
  simulation_options options;
  options.seed = plan.seed;
  options.step_cost = plan.step_cost;
  options.job_delay_max = plan.job_delay;
  options.storage = &disk;
  options.log = [&lived](log_level level, std::string_view actor, std::string_view text) {
    if (level >= log_level::warning) lived.log.append(actor).append(": ").append(text).append("\n");
  };
  simulation around(std::move(options));
  const auto seen = std::make_shared<observed>();
  main_job job = tiny_job(plan, plan.sampler, around.env(), seen);
  if (adjust) adjust(job);
  const auto observe = job.parts.observer;
  job.parts.observer = [&lived, observe](graph& actors, std::shared_ptr<run_counters> counters) {
    lived.counters = counters;
    return observe(actors, std::move(counters));
  };
  auto life = compose(plan, job, around, disk);
  ensure(life.has_value(), "the job of a test can be composed");
  if (watch) life->actors->watch(*watch);
  lived.ended = run(*life, around);
  lived.took = around.elapsed();
  settle(around);
  lived.left = life->actors->counters();
  lived.rows = life->rows->stat();
  std::ignore = life->actors->stop(); // Not of a run that failed: it says again why.
  const bool of_data = seen->finished == "the data ended";
  const finish_reason reason = !lived.ended ? finish_reason::failed
                               : of_data    ? finish_reason::end_of_data
                                            : finish_reason::steps_reached;
  ensure(end_life(*life, reason).has_value(), "the disk of a test takes the last line");
  auto audit = audit_run(disk, run_directory_path);
  ensure(audit.has_value(), "the log of a life can be read");
  lived.audit = std::move(*audit);
  return lived;
}

} // namespace weir::sim
