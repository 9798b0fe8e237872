/// When a drill kills: a pure plan from a seed, and the rule by which a watched life is ended.
///
/// Kills are spread over the whole job. One or two land in the warm-up, which starts over; the rest
/// are dealt from decks of four: two at a step, one while a bundle is written, one in the first
/// moments of a life, where it restores. The n kills at a step or a write take the job's steps in n
/// equal shares, one drawn step from each, so each life is allowed to go further than the one
/// before: every kill finds the job at a new place, and all of them find it unfinished.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct drill_plan {
  std::uint64_t seed = 1;
  std::uint64_t kills = 10;
  /// Steps of the job.
  std::uint64_t steps = 0;
  /// Steps between two bundles; 0: none on the way.
  std::uint64_t save_period = 0;
  bool has_warmup = false;
  /// How often the drill was begun anew because the job was done before the last kill: another
  /// draw, further from the end of the job.
  std::uint64_t attempt = 0;
};

inline constexpr std::uint64_t drill_attempts_max = 4;

enum class kill_kind : std::uint8_t {
  in_warmup,     ///< `delay` seconds after the child started; at once if the warm-up is over.
  at_start,      ///< `delay` seconds after the child started.
  at_step,       ///< `delay` steps after `step` steps are finished.
  while_writing, ///< `delay` seconds after a bundle is begun, once `step` steps are finished.
};

/// One kill.
struct kill_order {
  kill_kind kind = kill_kind::at_start;
  std::uint64_t step = 0;
  /// While_writing: where no write was seen before this many steps are finished, the kill comes.
  std::uint64_t step_limit = 0;
  double delay = 0;
};

/// All kills, in their order. Follows from the plan alone. @pre steps > 0.
[[nodiscard]] std::vector<kill_order> plan_kills(const drill_plan& plan);

/// What is seen of a life from outside.
struct life_sight {
  /// Finished steps: those that the life reported, or those that it began with.
  std::uint64_t step = 0;
  /// There is a bundle, or a finished step: the warm-up is over.
  bool past_warmup = false;
  /// An unfinished bundle of this life lies in the checkpoint directory.
  bool writing = false;
  /// Seconds that the last step took.
  double step_s = 0;
};

/// Seconds from the sight to the kill; nothing while it is not due yet.
[[nodiscard]] std::optional<double> kill_due(const kill_order& order, const life_sight& sight);

} // namespace weir
