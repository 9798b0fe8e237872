/// How long coroutines wait: the bound of standing waits, and the sum, for metrics.
#pragma once

#include "actors/runtime/world.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weir {

/// Longer than anybody waits before asking again: a wait that an actor keeps for an asker ends
/// then, since the asker is gone.
inline constexpr std::chrono::seconds standing_wait_max(150);

/// Lives while a coroutine waits, and adds that time to a counter.
class waiting_time {
public:
  waiting_time(const clock& time, std::atomic<std::uint64_t>& sum)
      : clock_(time), sum_(sum), began_ns_(time.now()) {}
  waiting_time(const waiting_time&) = delete;
  waiting_time& operator=(const waiting_time&) = delete;
  ~waiting_time() { sum_ += static_cast<std::uint64_t>(clock_.now() - began_ns_); }

private:
  const clock& clock_;
  std::atomic<std::uint64_t>& sum_;
  const std::int64_t began_ns_;
};

} // namespace weir
