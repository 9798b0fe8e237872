#include "dataplane/write_pacer.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir::dataplane {

write_pacer::write_pacer(std::uint64_t bytes_per_second, std::uint64_t burst_bytes)
    : bytes_per_second_(bytes_per_second), burst_ns_(0) {
  ensure(bytes_per_second > 0, "a rate is not zero");
  burst_ns_ = nanoseconds_of(burst_bytes);
}

std::int64_t write_pacer::nanoseconds_of(std::uint64_t bytes) const {
  // Rounded up, so that the rate is never passed.
  const double exact = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second_);
  return static_cast<std::int64_t>(exact) + (bytes > 0 ? 1 : 0);
}

std::int64_t write_pacer::take(std::uint64_t bytes, std::int64_t now_ns) {
  paid_at_ns_ = std::max(paid_at_ns_, now_ns) + nanoseconds_of(bytes);
  return std::max<std::int64_t>(0, paid_at_ns_ - now_ns - burst_ns_);
}

} // namespace weir::dataplane
