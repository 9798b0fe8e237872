#include "dataplane/write_pacer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

namespace weir::dataplane {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST_SUITE("dataplane/write_pacer") {
  TEST_CASE("a burst costs no wait, what is beyond it the time of its bytes") {
    write_pacer pacer(1'000'000, 500'000);
    CHECK(pacer.take(400'000, 0s) == 0s);
    const nanoseconds wait = pacer.take(400'000, 0s);
    CHECK(wait >= 300ms);
    CHECK(wait < 301ms);
  }

  TEST_CASE("idle time fills the bucket, and no further than the burst") {
    write_pacer pacer(1'000'000, 500'000);
    CHECK(pacer.take(500'000, 0s) == 0s);
    CHECK(pacer.take(500'000, 100s) == 0s);
    CHECK(pacer.take(100'000, 100s) >= 100ms);
  }

  TEST_CASE("whoever waits as told never passes the rate by more than the burst") {
    std::mt19937_64 random(5);
    write_pacer pacer(50'000'000, 8'000'000);
    nanoseconds now = 7s;
    std::uint64_t bytes = 0;
    for (int call = 0; call < 2000; ++call) {
      const std::uint64_t some = random() % 4'000'000;
      bytes += some;
      now += pacer.take(some, now) + nanoseconds(static_cast<std::int64_t>(random() % 1'000'000));
      const double allowed = 8e6 + 50e6 * std::chrono::duration<double>(now - 7s).count();
      REQUIRE(static_cast<double>(bytes) <= allowed);
    }
  }
}

} // namespace weir::dataplane
