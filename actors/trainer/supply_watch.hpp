/// Whether the open step waits for groups that can never come: nothing is in flight, the sampler's
/// gate is shut until a step is trained, and what is ready does not make the step.
///
/// No request is old then, since each wait is asked again, so the watchdog sees nothing: the step
/// itself is watched, with the watchdog's own patience. No clock, no actor; times are nanoseconds
/// of the world's clock.
#pragma once

#include "actors/runtime/watchdog_state.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace weir {

class supply_watch {
public:
  explicit supply_watch(watchdog_options options) : options_(options) {}

  /// The step lacks `lacking` groups. `shut_gate` is what the sampler says of its gate; empty:
  /// groups may still come. Errors: exhausted once that has not changed for the stall timeout, and
  /// again after each further one.
  [[nodiscard]] result<void> waits(std::uint64_t step, std::uint64_t lacking,
                                   const std::string& shut_gate, std::int64_t now_ns);
  /// The step got groups.
  void fed() { since_ns_.reset(); }

private:
  watchdog_options options_;
  std::string shut_gate_;
  std::optional<std::int64_t> since_ns_; ///< When `shut_gate_` was first heard, or complained of.
};

} // namespace weir
