/// The progress line: what a run says about itself once a step. Pure: bytes to write, no output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace weir {

/// The state of a run, as it is shown.
struct progress {
  std::uint64_t step = 0;
  std::uint64_t max_steps = 0; ///< 0 = unknown (bounded by the data).
  double reward = 0;
  double loss = 0;
  double tokens_per_second = 0;
  double staleness = 0; ///< Mean, in weight versions.
  std::uint64_t groups_in_flight = 0;
  std::uint64_t groups_buffered = 0;
  std::uint64_t groups_dropped = 0; ///< Since the program started; not shown while there are none.
  std::optional<double> last_hold_us;     ///< Of the newest barrier.
  std::optional<double> checkpoint_age_s; ///< Since the newest bundle was published.
};

/// "step 12/250  reward 0.412  loss 0.0031  1234 tok/s  stale 0.8  in flight 32  buffered 17
/// hold 84 us  saved 12 s ago", on one line.
[[nodiscard]] std::string to_string(const progress& state);

/// Keeps one line up to date: in place on a terminal, as a new line per step elsewhere.
class progress_line {
public:
  /// `columns`: width of the terminal; longer lines are cut, since a wrapped line cannot be
  /// overwritten. 0 = unknown.
  progress_line(bool terminal, std::size_t columns) : terminal_(terminal), columns_(columns) {}

  /// What to write for a new state; empty elsewhere than on a terminal while the step is the same.
  [[nodiscard]] std::string update(const progress& state);
  /// What to write to print `text` above the line.
  [[nodiscard]] std::string above(const std::string& text);
  /// What to write to leave the line as it is and go on below.
  [[nodiscard]] std::string finish();

private:
  [[nodiscard]] std::string cut(std::string text) const;

  bool terminal_;
  std::size_t columns_;
  std::string shown_;
  std::optional<std::uint64_t> step_;
};

} // namespace weir
