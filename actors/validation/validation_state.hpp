/// One validation run: which held-out prompts are still to be done, and what came of the others. No
/// actor, no clock.
///
/// Samples may finish in any order. The means are taken in the order of the file, so that the same
/// weights always give the same digits.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace weir {

/// A completion with its reward.
struct validated_sample {
  float reward = 0.0F;
  std::uint64_t tokens = 0;
};

struct validation_summary {
  std::uint64_t samples = 0;
  std::uint64_t failed = 0;
  double reward = 0;
  std::optional<double> accuracy = {};
  std::uint64_t tokens = 0;

  friend bool operator==(const validation_summary&, const validation_summary&) = default;
};

class validation_round {
public:
  /// `full_reward`: what a right answer earns; nothing where that is not known.
  validation_round(std::uint64_t step, std::uint64_t version, std::uint64_t samples,
                   std::optional<float> full_reward);

  [[nodiscard]] std::uint64_t step() const { return step_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }

  /// The next sample that nobody works on; nothing when all are taken.
  [[nodiscard]] std::optional<std::uint64_t> take();
  /// The end of a sample that was taken.
  void end(std::uint64_t sample, result<validated_sample> outcome);
  [[nodiscard]] bool done() const { return ended_ == results_.size(); }

  /// Errors: the first sample's, when not a single one could be scored. @pre done()
  [[nodiscard]] result<validation_summary> summary() const;

private:
  std::uint64_t step_;
  std::uint64_t version_;
  std::optional<float> full_reward_;
  std::uint64_t taken_ = 0;
  std::uint64_t ended_ = 0;
  std::vector<std::optional<result<validated_sample>>> results_;
};

} // namespace weir
