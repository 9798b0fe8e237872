/// A bounded rate for writing in the background: a token bucket. Pure: the caller has the clock, and
/// waits as long as it is told to (the hook of `write_pace`).
#pragma once

#include <chrono>
#include <cstdint>

namespace weir::dataplane {

class write_pacer {
public:
  /// At most `bytes_per_second` over time, of which `burst_bytes` may come at once.
  write_pacer(std::uint64_t bytes_per_second, std::uint64_t burst_bytes);

  /// Takes `bytes` that were written at `now` (any steady clock), and returns how long to wait before
  /// the next are written.
  [[nodiscard]] std::chrono::nanoseconds take(std::uint64_t bytes, std::chrono::nanoseconds now);

private:
  [[nodiscard]] std::chrono::nanoseconds time_of(std::uint64_t bytes) const;

  std::uint64_t bytes_per_second_;
  std::chrono::nanoseconds burst_;
  /// When all that was taken so far is paid for.
  std::chrono::nanoseconds paid_at_ = std::chrono::nanoseconds::min();
};

} // namespace weir::dataplane
