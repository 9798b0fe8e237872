#include "actors/runtime/processor_share.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir {

namespace {
/// A bundle of a few megabytes.
constexpr double saved_max_ns = 10e6;
/// Less is not worth a rest yet.
constexpr double owed_min_ns = 1e6;
/// A long job without pauses is forgiven the rest, so that no rest is without a bound.
constexpr double rest_max_ns = 250e6;
/// Kept waiting for this part of what it ran, a thread was in a crowd all the time; for less, for
/// as much less of the time: a message that is handled in between is no crowd.
constexpr std::int64_t crowd_per_wait = 16;
} // namespace

processor_share::processor_share(double share) : share_(share), saved_ns_(saved_max_ns) {
  ensure(share > 0.0 && share <= 1.0, "a share of a processor is a part of it");
}

std::int64_t processor_share::rest_due(std::int64_t now, processor_times totals) {
  const std::int64_t waited = totals.waited - seen_.waited;
  const std::int64_t crowded = std::min(totals.ran - seen_.ran, waited * crowd_per_wait);
  saved_ns_ += share_ * static_cast<double>(now - seen_at_) - static_cast<double>(crowded);
  saved_ns_ = std::clamp(saved_ns_, -std::max(share_ * rest_max_ns, owed_min_ns), saved_max_ns);
  seen_ = totals;
  seen_at_ = now;
  if (saved_ns_ > -owed_min_ns) return 0;
  return static_cast<std::int64_t>(std::min(-saved_ns_ / share_, rest_max_ns));
}

} // namespace weir
