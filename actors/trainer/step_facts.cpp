#include "actors/trainer/step_facts.hpp"

#include <algorithm>

namespace weir {

void step_facts::add(const std::vector<ClaimedGroupT>& chunk) {
  ++chunks;
  groups += chunk.size();
  for (const ClaimedGroupT& group : chunk) {
    const std::uint64_t lag = version.value - std::min(version.value, group.start_version);
    lags_ += lag;
    ++staleness[std::min(lag, lag_max)];
    siblings_ += group.siblings.size();
    for (const auto& sibling : group.siblings)
      rewards_ += static_cast<double>(sibling->reward);
  }
}

double step_facts::mean_reward() const {
  return siblings_ > 0 ? rewards_ / static_cast<double>(siblings_) : 0.0;
}

double step_facts::mean_lag() const {
  return groups > 0 ? static_cast<double>(lags_) / static_cast<double>(groups) : 0.0;
}

} // namespace weir
