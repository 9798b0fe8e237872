/// What can be seen of a run from outside, in its directory: how far it is, and what it was doing
/// when it was killed. Reads names and `metrics.jsonl`; changes nothing.
#pragma once

#include "examples/weir/drill_files.hpp"
#include "examples/weir/drill_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

/// What a life was doing, as far as the directory tells.
enum class life_stage : std::uint8_t {
  starting,   ///< It had not taken a number yet.
  restoring,  ///< It had a number, and was not running yet.
  warming_up, ///< There is no bundle yet.
  first_step, ///< It was running, and had not finished a step.
  training,   ///< Decoding and learning.
  writing,    ///< A bundle lies unfinished.
  publishing, ///< A bundle has its MANIFEST, and not its name.
};

/// For the table of a drill.
[[nodiscard]] std::string_view to_string(life_stage stage);

/// Watches one life of a run. Made before the child starts.
class life_watch {
public:
  /// `directory`: of the run; holds `checkpoints/`.
  explicit life_watch(std::string directory);

  /// Looks again, at `now_s` seconds of the life. `step_s`: what a step takes as far as the caller
  /// knows; said again until this life has finished two.
  [[nodiscard]] life_sight look(double now_s, double step_s);

  /// After the kill.
  [[nodiscard]] life_stage stage();
  /// Finished steps, and the newest bundle.
  [[nodiscard]] std::uint64_t step() const;
  [[nodiscard]] std::optional<bundle_name> bundle() const;

private:
  void read_metrics(double now_s);
  [[nodiscard]] std::uint64_t incarnation() const;
  [[nodiscard]] std::string unfinished() const;

  std::string directory_;
  std::string checkpoints_;
  std::uint64_t incarnation_before_;
  std::uintmax_t metrics_read_ = 0; ///< Bytes, up to the end of a line.
  std::optional<bundle_name> began_with_;
  std::optional<std::uint64_t> reported_; ///< The newest step of this life.
  std::optional<double> reported_s_;
  std::optional<double> step_s_;
};

} // namespace weir
