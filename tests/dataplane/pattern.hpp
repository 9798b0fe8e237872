/// Bytes for files, that are recognized when they are read back.
#pragma once

#include <cstddef>
#include <vector>

namespace weir::test {

/// Bytes that tell where they belong, and to which file by its `seed`.
inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed = 0) {
  std::vector<std::byte> made(bytes);
  for (std::size_t at = 0; at < bytes; ++at)
    made[at] = static_cast<std::byte>((at * 31 + at / 4093 + seed) & 0xffU);
  return made;
}

} // namespace weir::test
