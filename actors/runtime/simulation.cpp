#include "actors/runtime/simulation.hpp"

namespace weir {
namespace {

class virtual_clock final : public clock {
public:
  explicit virtual_clock(const detail::simulated_scheduler& schedule) : schedule_(schedule) {}
  [[nodiscard]] std::int64_t now() const override { return schedule_.now().count(); }
  [[nodiscard]] std::string wall_text() const override {
    constexpr std::int64_t year_2000_ms = 946'684'800'000;
    return utc_text(year_2000_ms + schedule_.now().count() / 1'000'000);
  }

private:
  const detail::simulated_scheduler& schedule_;
};

/// Jobs are turns of the schedule.
class stepped_pool final : public blocking_pool {
public:
  explicit stepped_pool(detail::simulated_scheduler& schedule) : schedule_(schedule) {}
  [[nodiscard]] bool submit(std::function<void()> job) override {
    return schedule_.submit(std::move(job));
  }
  void stop() override {}

private:
  detail::simulated_scheduler& schedule_;
};

detail::schedule_options schedule_options_of(const simulation_options& options) {
  detail::schedule_options schedule;
  schedule.seed = options.seed;
  schedule.step_cost = options.step_cost;
  schedule.job_delay_max = options.job_delay_max;
  schedule.pool_threads = options.pool_threads;
  schedule.trace_depth = options.trace_depth;
  return schedule;
}

world_options world_options_of(simulation_options options) {
  world_options made;
  made.seed = options.seed;
  made.storage = options.storage;
  made.log = std::move(options.log);
  return made;
}

} // namespace

simulation::simulation(simulation_options options)
    : schedule_(schedule_options_of(options)),
      world_(world_options_of(options), std::make_unique<virtual_clock>(schedule_),
             std::make_unique<stepped_pool>(schedule_), &schedule_) {}

std::uint64_t simulation::run(std::uint64_t steps_max) {
  const std::uint64_t before = steps();
  while (steps() - before < steps_max && step()) {
  }
  return steps() - before;
}

} // namespace weir
