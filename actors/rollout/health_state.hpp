/// Which generators serve, and to which of them a group goes: decisions only, no clock, no actor.
/// Times are nanoseconds of the world's clock.
///
/// Every generator is probed once an interval. So many probes in a row that are not answered make
/// it unhealthy, so many that are make it healthy again; groups go to healthy ones alone. Fewer
/// than `min_healthy` are borne for a while, for a restart in place, and then end the run with the
/// names of those that are missing: a fleet that is gone is no reason to wait in silence.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// `async_rl.generator_health` of the configuration.
struct health_options {
  std::int64_t probe_interval_ns = 5'000'000'000;
  /// Below the interval.
  std::int64_t probe_timeout_ns = 2'000'000'000;
  std::uint32_t unhealthy_threshold = 3;
  std::uint32_t healthy_threshold = 2;
  std::uint64_t min_healthy = 1;
  /// How long fewer may be healthy: `async_rl.stall_watchdog.stall_timeout_s`.
  std::int64_t patience_ns = 600'000'000'000;
};

class health_state {
public:
  /// All are taken for healthy at first. @pre Thresholds are at least 1.
  health_state(health_options options, std::vector<std::string> names);

  /// A probe came back; `live` is the version of the generator's weights, if it has any.
  void answered(std::size_t generator, std::optional<weight_version> live, std::int64_t now_ns);
  /// A probe did not.
  void missed(std::size_t generator, const error& why, std::int64_t now_ns);
  /// A token of these weights came from the generator.
  void saw(std::size_t generator, weight_version version);

  [[nodiscard]] bool healthy(std::size_t generator) const;
  [[nodiscard]] std::uint64_t healthy_generators() const;
  /// Errors: unavailable when fewer than `min_healthy` have been for longer than the patience; it
  /// names each that is not, since when and why.
  [[nodiscard]] result<void> judge(std::int64_t now_ns) const;

  /// The healthy generator for a group that may start on weights of `least` or later: one that is
  /// known to have them before others, another one than `avoided` (where the group has just
  /// failed), then the one with the fewest groups. Nothing while none is healthy.
  [[nodiscard]] std::optional<std::size_t> choose(weight_version least,
                                                  std::optional<std::size_t> avoided) const;
  /// A group is with the generator, from `began` to `ended`.
  void began(std::size_t generator) { ++generators_[generator].outstanding; }
  void ended(std::size_t generator);
  [[nodiscard]] std::uint64_t outstanding(std::size_t generator) const;

  [[nodiscard]] const health_options& options() const { return options_; }
  [[nodiscard]] std::size_t generators() const { return generators_.size(); }

private:
  struct probed {
    std::string name;
    bool healthy = true;
    std::uint32_t in_a_row = 0; ///< Answers that contradict `healthy`.
    std::int64_t silent_since_ns = 0;
    std::string why = {};
    std::optional<weight_version> live = {};
    std::uint64_t outstanding = 0;
  };

  void note_minimum(std::int64_t now_ns);

  health_options options_;
  std::vector<probed> generators_;
  /// Since when fewer than the minimum are healthy.
  std::optional<std::int64_t> short_since_ns_;
};

} // namespace weir
