#include "dataplane/write_pacer.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir::dataplane {

using std::chrono::nanoseconds;

write_pacer::write_pacer(std::uint64_t bytes_per_second, std::uint64_t burst_bytes)
    : bytes_per_second_(bytes_per_second), burst_(0) {
  ensure(bytes_per_second > 0, "a rate is not zero");
  burst_ = time_of(burst_bytes);
}

nanoseconds write_pacer::time_of(std::uint64_t bytes) const {
  // Rounded up: the rate is never passed. Exact to a nanosecond for less than 9 PB.
  const double exact = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second_);
  return nanoseconds(static_cast<std::int64_t>(exact) + (bytes > 0 ? 1 : 0));
}

nanoseconds write_pacer::take(std::uint64_t bytes, nanoseconds now) {
  paid_at_ = std::max(paid_at_, now) + time_of(bytes);
  return std::max(nanoseconds(0), paid_at_ - now - burst_);
}

} // namespace weir::dataplane
