/// Adds up how long coroutines wait: for metrics.
#pragma once

#include "actors/runtime/world.hpp"

#include <atomic>
#include <cstdint>

namespace weir {

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
