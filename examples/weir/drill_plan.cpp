#include "examples/weir/drill_plan.hpp"

#include <algorithm>

namespace weir {

namespace {

/// Longest life while nothing is known about the length of the job.
constexpr double blind_life_s = 4;
/// Mean share of the remaining time that is spent before the next kill, twice.
constexpr double spread = 1.6;

/// A number in [0, 1) from three counters (the finalizer of splitmix64, chained).
double uniform(std::uint64_t seed, std::uint64_t attempt, std::uint64_t index) {
  std::uint64_t word = 0;
  for (const std::uint64_t input : {seed, attempt, index}) {
    word += input + 0x9e3779b97f4a7c15ULL;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
    word ^= word >> 31U;
  }
  return static_cast<double>(word >> 11U) * 0x1.0p-53;
}

} // namespace

std::optional<double> remaining_seconds(const drill_plan& plan, const drill_progress& progress) {
  if (plan.max_steps == 0) {
    if (!plan.duration_s) return std::nullopt;
    return std::max(0.0, *plan.duration_s - progress.lived_s);
  }
  const double left = static_cast<double>(plan.max_steps) -
                      static_cast<double>(std::min(progress.saved_step, plan.max_steps));
  if (plan.duration_s) return *plan.duration_s * left / static_cast<double>(plan.max_steps);
  if (progress.saved_step == 0) return std::nullopt;
  return progress.lived_s * left / static_cast<double>(progress.saved_step);
}

double next_life(const drill_plan& plan, const drill_progress& progress) {
  const std::uint64_t left = plan.kills - std::min(progress.kills_done, plan.kills);
  double longest = blind_life_s;
  if (const auto remaining = remaining_seconds(plan, progress))
    longest = spread * *remaining / static_cast<double>(left + 1);
  for (std::uint64_t again = 0; again < plan.attempt; ++again)
    longest /= 2;
  longest = std::max(longest, 2 * drill_life_min_s);
  return drill_life_min_s +
         uniform(plan.seed, plan.attempt, progress.kills_done) * (longest - drill_life_min_s);
}

} // namespace weir
