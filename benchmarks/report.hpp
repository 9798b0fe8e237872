/// What every benchmark harness shares: interleaved measurement, a table, and the JSON rows that
/// overview.md describes (build/benchmarks/AREA.json).
///
/// A row compares ours with a baseline that was measured in the same process, turn by turn, so that
/// whatever else the machine does falls on both. Ratios are taken per turn; the row holds when
/// their median reaches the target.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace weir::benchmarks {

enum class better : unsigned char {
  higher, ///< Rates: the ratio must be at least the target.
  lower,  ///< Times and sizes: the ratio must be at most the target.
};

/// What a row claims, before anything is measured.
struct claim {
  std::string text;
  std::string unit;
  std::string baseline_name;
  double target = 1.0; ///< Of ours / baseline.
  better direction = better::higher;
};

/// One line of the table and one object of the JSON file.
struct row {
  claim what;
  double ours = 0.0;     ///< Median over the turns.
  double baseline = 0.0; ///< Median over the turns.
  double ratio_median = 0.0;
  double ratio_min = 0.0;
  double ratio_max = 0.0;
  bool holds = false;
  std::string skipped; ///< Why it was not measured; empty = it was. Never holds then.
};

/// Measures one side once: returns a figure in the claim's unit.
using measurement = std::function<double()>;

/// Runs both sides `turns` (at least 7) times after one unmeasured turn, each first in every other
/// turn: what one leaves behind, or a machine that slows down, is no advantage for either.
[[nodiscard]] row compare(claim what, const measurement& ours, const measurement& baseline,
                          std::size_t turns = 9);

/// A row that says why it could not be measured.
[[nodiscard]] row skip(claim what, std::string reason);

/// Calls of `work` per second, over as many calls as take at least `seconds`.
[[nodiscard]] double calls_per_second(const std::function<void()>& work, double seconds = 0.02);

/// Wall-clock seconds of one call.
[[nodiscard]] double seconds_of(const std::function<void()>& work);

/// Prints the table and writes the rows to `path`, whose folders are made. Returns the exit status
/// of the harness: 0, or 1 when the file cannot be written (said on stderr).
[[nodiscard]] int publish(const std::vector<row>& rows, const std::string& path);

} // namespace weir::benchmarks
