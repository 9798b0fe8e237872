/// How long a thread rests so that it takes no more than its share of a processor that others want.
///
/// A token bucket. Time passes and fills it, at the share; running where others want to run as well
/// empties it. Whether others want to, the system tells: it counts how long a thread could have run
/// and was kept waiting. Undisturbed running is free. What is saved up lets a short job run at
/// once: one that is stretched costs its neighbours more, whose caches it empties at every turn.
///
/// Pure: time is an argument.
#pragma once

#include <cstdint>

namespace weir {

/// Of one thread since it began, in nanoseconds.
struct processor_times {
  std::int64_t ran = 0;
  std::int64_t waited = 0;
};

class processor_share {
public:
  /// @pre 0 < share <= 1
  explicit processor_share(double share);

  /// How long to rest from `now` (of any steady clock) on, in nanoseconds; the caller does.
  [[nodiscard]] std::int64_t rest_due(std::int64_t now, processor_times totals);

private:
  double share_;
  double saved_ns_; ///< What may be run at once; below zero what is owed.
  std::int64_t seen_at_ = 0;
  processor_times seen_ = {};
};

} // namespace weir
