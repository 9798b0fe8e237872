#include "examples/weir/drill_plan.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace weir {

namespace {

// Longest delays: of a kill in the warm-up (s), at a start (s), at a step (steps) and in a write
// (s). A start takes about a quarter of a second, a bundle of the main job a tenth.
constexpr double warmup_delay_s = 4.0;
constexpr double start_delay_s = 0.25;
constexpr std::uint64_t step_delay_steps = 2;
constexpr double write_delay_s = 0.1;
/// Steps before the end of the job in which no kill becomes due: the longest delay, and one more.
constexpr std::uint64_t end_margin_steps = 3;
/// With fewer kills than this none is spent on the warm-up.
constexpr std::uint64_t kills_with_warmup = 4;

/// Numbers in [0, 1) from a seed (splitmix64).
class draw {
public:
  draw(std::uint64_t seed, std::uint64_t attempt) : state_(seed * 0x2545f4914f6cdd1dULL + attempt) {
    std::ignore = next(); // Neighbouring seeds part here.
  }

  double next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t word = state_;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
    word ^= word >> 31U;
    return static_cast<double>(word >> 11U) * 0x1.0p-53;
  }
  std::uint64_t below(std::uint64_t bound) {
    return std::min(static_cast<std::uint64_t>(next() * static_cast<double>(bound)), bound - 1);
  }

private:
  std::uint64_t state_;
};

/// What the kills after the warm-up are, in decks of four, each shuffled.
std::vector<kill_kind> deal(std::uint64_t count, draw& random) {
  std::vector<kill_kind> kinds;
  while (kinds.size() < count) {
    std::array deck{kill_kind::at_step, kill_kind::at_step, kill_kind::while_writing,
                    kill_kind::at_start};
    for (std::size_t last = deck.size() - 1; last > 0; --last)
      std::swap(deck[last], deck[random.below(last + 1)]);
    kinds.insert(kinds.end(), deck.begin(), deck.end());
  }
  kinds.resize(count);
  return kinds;
}

} // namespace

std::vector<kill_order> plan_kills(const drill_plan& plan) {
  draw random(plan.seed, plan.attempt);
  std::vector<kill_order> orders;
  if (plan.has_warmup && plan.kills >= kills_with_warmup) {
    const std::uint64_t in_warmup = 1 + random.below(2);
    for (std::uint64_t i = 0; i < in_warmup; ++i)
      orders.push_back({.kind = kill_kind::in_warmup, .delay = random.next() * warmup_delay_s});
  }
  const auto kinds = deal(plan.kills - orders.size(), random);
  const auto at_steps = static_cast<std::uint64_t>(
      std::ranges::count_if(kinds, [](kill_kind kind) { return kind != kill_kind::at_start; }));
  const std::uint64_t margin = end_margin_steps << plan.attempt;
  const std::uint64_t usable = plan.steps > margin ? plan.steps - margin : 1;
  std::uint64_t share = 0;
  for (const kill_kind kind : kinds) {
    kill_order order{.kind = kind};
    if (kind == kill_kind::at_start) {
      order.delay = random.next() * start_delay_s;
      orders.push_back(order);
      continue;
    }
    const double place = (static_cast<double>(share++) + random.next()) /
                         static_cast<double>(at_steps) * static_cast<double>(usable);
    order.step = std::min(static_cast<std::uint64_t>(place), usable - 1);
    const std::uint64_t patience = plan.save_period > 0 ? plan.save_period + 1 : 0;
    order.step_limit = std::min(order.step + patience, usable);
    const bool writing = kind == kill_kind::while_writing;
    order.delay = random.next() * (writing ? write_delay_s : static_cast<double>(step_delay_steps));
    orders.push_back(order);
  }
  return orders;
}

std::optional<double> kill_due(const kill_order& order, const life_sight& sight) {
  switch (order.kind) {
  case kill_kind::at_start:
    return order.delay;
  case kill_kind::in_warmup:
    return sight.past_warmup ? 0.0 : order.delay;
  case kill_kind::at_step:
    if (!sight.past_warmup || sight.step < order.step) return std::nullopt;
    // A life that began far beyond its step is killed as it starts, or many of them would reach
    // the end of the job.
    if (sight.step >= order.step + step_delay_steps) return order.delay * start_delay_s / 2;
    return order.delay * sight.step_s;
  case kill_kind::while_writing:
    if (!sight.past_warmup || sight.step < order.step) return std::nullopt;
    if (sight.writing) return order.delay;
    if (sight.step >= order.step_limit) return 0.0;
    return std::nullopt;
  }
  return 0.0;
}

} // namespace weir
