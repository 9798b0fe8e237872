/// The 128-bit hash of what a prompt says: the same text has the same hash in every run, so that a
/// restart notices a dataset that changed under it.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

/// XXH3-128 of a record's prompt, answer and task. Stored in the ledger and in bundles.
struct content_hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend constexpr bool operator==(const content_hash&, const content_hash&) = default;
};

/// 32 hexadecimal digits, most significant first.
[[nodiscard]] inline std::string to_string(const content_hash& hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t word : {hash.high, hash.low})
    for (unsigned nibble = 16; nibble-- > 0;)
      text += digits[(word >> (nibble * 4)) & 15U];
  return text;
}

} // namespace weir
