/// Little-endian integers in byte buffers, whatever the machine: for the fixed records of the
/// on-disk formats. A reader is bounded; past its end it yields zeros and says so once, at the end.
#pragma once

#include "dataplane/checksum.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::dataplane::detail {

template <std::unsigned_integral Number>
void put(std::vector<std::byte>& target, Number value) {
  for (std::size_t at = 0; at < sizeof(Number); ++at)
    target.push_back(static_cast<std::byte>((value >> (8 * at)) & 0xffU));
}

inline void put(std::vector<std::byte>& target, const checksum128& sum) {
  put(target, sum.low);
  put(target, sum.high);
}

class wire_reader {
public:
  explicit wire_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral Number>
  [[nodiscard]] Number take() {
    if (bytes_.size() < sizeof(Number)) {
      short_ = true;
      bytes_ = {};
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t at = 0; at < sizeof(Number); ++at)
      value |= std::to_integer<std::uint64_t>(bytes_[at]) << (8 * at);
    bytes_ = bytes_.subspan(sizeof(Number));
    return static_cast<Number>(value);
  }

  [[nodiscard]] checksum128 take_checksum() {
    const auto low = take<std::uint64_t>();
    const auto high = take<std::uint64_t>();
    return {.low = low, .high = high};
  }

  /// Whether everything was there and nothing is left.
  [[nodiscard]] bool exact() const { return !short_ && bytes_.empty(); }

private:
  std::span<const std::byte> bytes_;
  bool short_ = false;
};

} // namespace weir::dataplane::detail
