/// XXH3-128, the checksum of every file that weir writes. Not cryptographic: it finds damage, not
/// an attacker. `xxhsum -H2 FILE` prints the same digits.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace weir::dataplane {

/// The digest; the default value is not the checksum of anything we write.
struct checksum128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend constexpr auto operator<=>(const checksum128&, const checksum128&) = default;
};

/// 32 hexadecimal digits, the high half first.
[[nodiscard]] std::string to_string(checksum128 checksum);

[[nodiscard]] checksum128 checksum_of(std::span<const std::byte> bytes);

/// The checksum of bytes that come in pieces. `digest` may be taken at any point, repeatedly.
class checksum_stream {
public:
  checksum_stream();
  ~checksum_stream();
  checksum_stream(checksum_stream&& other) noexcept;
  checksum_stream& operator=(checksum_stream&& other) noexcept;

  void update(std::span<const std::byte> bytes);
  [[nodiscard]] checksum128 digest() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace weir::dataplane
