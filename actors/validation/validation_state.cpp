#include "actors/validation/validation_state.hpp"

#include <utility>

namespace weir {

validation_round::validation_round(std::uint64_t step, std::uint64_t version, std::uint64_t samples,
                                   std::optional<float> full_reward)
    : step_(step), version_(version), full_reward_(full_reward), results_(samples) {
  ensure(samples > 0, "a validation run has samples");
}

std::optional<std::uint64_t> validation_round::take() {
  if (taken_ == results_.size()) return std::nullopt;
  return taken_++;
}

void validation_round::end(std::uint64_t sample, result<validated_sample> outcome) {
  ensure(sample < taken_ && !results_[sample], "a sample that was taken ends once");
  results_[sample].emplace(std::move(outcome));
  ++ended_;
}

result<validation_summary> validation_round::summary() const {
  ensure(done(), "a validation run is summed up at its end");
  validation_summary sums;
  double rewards = 0;
  std::uint64_t right = 0;
  for (const auto& one : results_) {
    if (!one->has_value()) {
      ++sums.failed;
      continue;
    }
    ++sums.samples;
    sums.tokens += (*one)->tokens;
    rewards += static_cast<double>((*one)->reward);
    if (full_reward_ && (*one)->reward >= *full_reward_) ++right;
  }
  // Whatever it was, it says nothing about how long to wait for another try.
  if (sums.samples == 0)
    return failure(errc::unavailable, "none of " + std::to_string(results_.size()) +
                                          " samples could be scored; the first one: " +
                                          to_string(results_.front()->error()));
  const auto count = static_cast<double>(sums.samples);
  sums.reward = rewards / count;
  if (full_reward_) sums.accuracy = static_cast<double>(right) / count;
  return sums;
}

} // namespace weir
