/// When a drill kills: a pure plan from a seed.
///
/// All kills should land before the job is done, spread over it, some of them early enough to hit a
/// start or a restore. A life is drawn uniformly from [0.2 s, 1.6 x remaining / (kills left + 1)]:
/// on average the kills use 0.8 of the job, whose own length is known (a reference run), or
/// estimated from the steps that the newest bundle has after the lives so far.
#pragma once

#include <cstdint>
#include <optional>

namespace weir {

/// What is known when a life is planned.
struct drill_progress {
  std::uint64_t kills_done = 0;
  /// Seconds that children lived so far, in all.
  double lived_s = 0;
  /// Step of the newest bundle.
  std::uint64_t saved_step = 0;
};

struct drill_plan {
  std::uint64_t seed = 1;
  std::uint64_t kills = 10;
  /// Steps of the job; 0 = unknown.
  std::uint64_t max_steps = 0;
  /// Seconds of an uninterrupted run, where one was made.
  std::optional<double> duration_s = std::nullopt;
  /// How often the drill was begun anew because the job was done before the last kill; each time
  /// lives are half as long.
  std::uint64_t attempt = 0;
};

inline constexpr double drill_life_min_s = 0.2;
inline constexpr std::uint64_t drill_attempts_max = 4;

/// Seconds until the next kill. The draw depends on (seed, attempt, kills_done) alone.
[[nodiscard]] double next_life(const drill_plan& plan, const drill_progress& progress);

/// Seconds that the job still needs, as far as it is known.
[[nodiscard]] std::optional<double> remaining_seconds(const drill_plan& plan,
                                                      const drill_progress& progress);

} // namespace weir
