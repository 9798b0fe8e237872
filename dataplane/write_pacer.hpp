/// A bounded rate for writing in the background: a token bucket. Pure: the caller has the clock,
/// and waits as long as it is told to (the hook of `write_pace`).
#pragma once

#include <cstdint>
#include <limits>

namespace weir::dataplane {

class write_pacer {
public:
  /// At most `bytes_per_second` over time, of which `burst_bytes` may come at once.
  write_pacer(std::uint64_t bytes_per_second, std::uint64_t burst_bytes);

  /// Takes `bytes` that were written at `now_ns` (of any steady clock), and returns for how many
  /// nanoseconds to wait before the next are written.
  [[nodiscard]] std::int64_t take(std::uint64_t bytes, std::int64_t now_ns);

private:
  [[nodiscard]] std::int64_t nanoseconds_of(std::uint64_t bytes) const;

  std::uint64_t bytes_per_second_;
  std::int64_t burst_ns_;
  /// When all that was taken so far is paid for.
  std::int64_t paid_at_ns_ = std::numeric_limits<std::int64_t>::min();
};

} // namespace weir::dataplane
