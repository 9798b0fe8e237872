/// Waiting for what other threads bring about, without sleeping and not for ever.
#pragma once

#include "actors/runtime/world.hpp"

#include <thread>

namespace weir::test {

/// Looks until `done()` is true; false after ten seconds.
template <class Done>
[[nodiscard]] bool eventually(const world& env, Done done) {
  const std::int64_t latest = env.clock().now() + 10'000'000'000;
  while (!done()) {
    if (env.clock().now() > latest) return false;
    std::this_thread::yield();
  }
  return true;
}

} // namespace weir::test
