#include "dataplane/write_pacer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

namespace weir::dataplane {

namespace {
constexpr std::int64_t second = 1'000'000'000;
} // namespace

TEST_SUITE("dataplane/write_pacer") {
  TEST_CASE("a burst costs no wait, what is beyond it the time of its bytes") {
    write_pacer pacer(1'000'000, 500'000);
    CHECK(pacer.take(400'000, 0) == 0);
    const std::int64_t wait = pacer.take(400'000, 0);
    CHECK(wait >= 300'000'000);
    CHECK(wait < 301'000'000);
  }

  TEST_CASE("idle time fills the bucket, and no further than the burst") {
    write_pacer pacer(1'000'000, 500'000);
    CHECK(pacer.take(500'000, 0) == 0);
    CHECK(pacer.take(500'000, 100 * second) == 0);
    CHECK(pacer.take(100'000, 100 * second) >= second / 10);
  }

  TEST_CASE("whoever waits as told never passes the rate by more than the burst") {
    std::mt19937_64 random(5);
    write_pacer pacer(50'000'000, 8'000'000);
    const std::int64_t begin = 7 * second;
    std::int64_t now = begin;
    std::uint64_t bytes = 0;
    for (int call = 0; call < 2000; ++call) {
      const std::uint64_t some = random() % 4'000'000;
      bytes += some;
      now += pacer.take(some, now) + static_cast<std::int64_t>(random() % 1'000'000);
      const double seconds = static_cast<double>(now - begin) / 1e9;
      REQUIRE(static_cast<double>(bytes) <= 8e6 + 50e6 * seconds);
    }
  }
}

} // namespace weir::dataplane
