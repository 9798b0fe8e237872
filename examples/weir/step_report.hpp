/// What one step looked like: its line in `metrics.jsonl`. Plain numbers, tested without a run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

/// A permit that is taken while something is under way.
struct occupancy {
  std::uint64_t taken = 0;
  std::uint64_t most = 0;
};

struct step_report {
  using named_count = std::pair<std::string_view, std::uint64_t>;

  std::uint64_t incarnation = 0;
  std::uint64_t step = 0; ///< Counted from 1.
  double reward = 0;
  double loss = 0;
  double grad_norm = 0;
  double kl = 0;
  double clip_fraction = 0;
  double lag_mean = 0;
  /// Groups by their lag in versions; the last counts all that lag as much or more.
  std::vector<std::uint64_t> staleness = {};
  std::uint64_t groups = 0;
  std::uint64_t chunks = 0;
  std::uint64_t tokens = 0;
  std::uint64_t masked_tokens = 0;
  double tokens_per_second = 0;
  /// What happened to groups since the step before: "aborted", "replaced", ...
  std::vector<named_count> events = {};
  /// Groups dropped since the step before, by reason.
  std::vector<named_count> dropped = {};
  occupancy in_flight;
  occupancy buffered;
  std::uint64_t train_ns = 0;
  std::uint64_t wait_ns = 0; ///< Of the trainer, for groups.
  /// Nanoseconds that others waited since the step before, summed over all who waited: by whom, and
  /// for what.
  std::vector<named_count> waits = {};
};

/// One line, without its newline.
[[nodiscard]] std::string to_json(const step_report& report);

} // namespace weir
