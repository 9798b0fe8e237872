/// What `metrics.jsonl` says of the steps of a run, and whether they show that the policy learned.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

/// One finished step.
struct step_metric {
  std::uint64_t step = 0; ///< Counted from 1.
  double reward = 0;      ///< Mean over the step's completions.
};

/// Reads a line; nothing if it is torn or of another event.
[[nodiscard]] std::optional<step_metric> parse_step_metric(std::string_view line);

/// The first tenth of the steps after the warm-up against the last.
struct learning_summary {
  std::uint64_t steps = 0;
  double first_tenth = 0;
  double last_tenth = 0;

  /// The last tenth is at least `learned_reward_min`, and `learned_gain_min` above the first.
  [[nodiscard]] bool learned() const;
};

inline constexpr double learned_reward_min = 0.6;
inline constexpr double learned_gain_min = 0.2;

/// Rewards by step. A restart goes back to a bundle: a step counts as it was made last, and steps
/// beyond it that were not made again do not count.
class step_history {
public:
  /// Takes the lines of a metrics file, in their order.
  void read(std::string_view lines);
  /// Nothing with fewer than ten steps.
  [[nodiscard]] std::optional<learning_summary> summary() const;

private:
  std::map<std::uint64_t, double> rewards_;
};

/// For people, several lines.
[[nodiscard]] std::string to_text(const learning_summary& summary);
/// For `metrics.jsonl`, one line.
[[nodiscard]] std::string to_json(const learning_summary& summary);

} // namespace weir
