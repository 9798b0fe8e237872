/// How many descriptors this process has open, for tests that look for leaks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace weir::test {

/// Counts its own look at the folder as well, each time.
inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

} // namespace weir::test
