/// What one step was made of, gathered chunk by chunk: for people and metrics, nothing decides by
/// it.
#pragma once

#include "messages/ids.hpp"
#include "messages/message.hpp"

#include <cstdint>
#include <vector>

namespace weir {

struct step_facts {
  /// The last bucket of the histogram counts all groups that lag this much or more.
  static constexpr std::uint64_t lag_max = 8;

  weight_version version = {}; ///< That the step is trained at.
  std::uint64_t groups = 0;
  std::uint32_t chunks = 0;
  std::vector<std::uint64_t> staleness = std::vector<std::uint64_t>(lag_max + 1, 0);
  std::int64_t waited_ns = 0;
  std::int64_t trained_ns = 0;
  std::uint64_t evicted = 0; ///< By replay, in the whole run.
  std::uint64_t dropped = 0; ///< By the sampler, in the whole run.

  void add(const std::vector<ClaimedGroupT>& chunk);
  /// Over the siblings of all groups; 0 without one.
  [[nodiscard]] double mean_reward() const;
  /// Trainer version minus start version, over the groups; 0 without one.
  [[nodiscard]] double mean_lag() const;

private:
  double rewards_ = 0.0;
  std::uint64_t siblings_ = 0;
  std::uint64_t lags_ = 0;
};

} // namespace weir
