/// Reproducible test data for the kernels.
#pragma once

#include "kernels/philox.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::kernels {

/// `count` floats, uniform in [-1, 1), a function of `seed` only.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const philox_block counter{{static_cast<std::uint32_t>(i), 0, 0, 0}};
    values[i] =
        static_cast<float>(2.0 * uniform_double(philox4x32(counter, make_philox_key(seed))) - 1.0);
  }
  return values;
}

} // namespace weir::kernels
