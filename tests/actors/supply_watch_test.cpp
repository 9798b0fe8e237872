#include "actors/trainer/supply_watch.hpp"

#include <doctest/doctest.h>

using namespace weir;
using std::chrono::seconds;

namespace {

constexpr std::int64_t second = 1'000'000'000;
const std::string shut = "sampler fair (libfair.so:fair) keeps batch 3 waiting at version 2";

supply_watch patient() {
  return supply_watch({.interval = seconds(30), .stall_timeout = seconds(600)});
}

} // namespace

TEST_SUITE("actors/supply_watch") {
  TEST_CASE("a step that nothing can fill is an error after the stall timeout, and again") {
    supply_watch supply = patient();
    CHECK(supply.waits(2, 4, shut, 0).has_value());
    CHECK(supply.waits(2, 4, shut, 599 * second).has_value());
    const auto stalled = supply.waits(2, 4, shut, 600 * second);
    REQUIRE_FALSE(stalled.has_value());
    CHECK(stalled.error().code == errc::exhausted);
    CHECK(stalled.error().text ==
          shut + ", and nothing is in flight: step 2 has lacked 4 groups for 600 s; its gate must "
                 "open before, or select must take what is ready");
    CHECK(supply.waits(2, 4, shut, 1199 * second).has_value());
    CHECK_FALSE(supply.waits(2, 1, shut, 1200 * second).has_value());
  }

  TEST_CASE("what is in flight, a gate that moved and groups that came begin another wait") {
    supply_watch supply = patient();
    CHECK(supply.waits(2, 4, shut, 0).has_value());
    CHECK(supply.waits(2, 4, "", 500 * second).has_value());
    CHECK(supply.waits(2, 4, shut, 700 * second).has_value());
    CHECK(supply.waits(2, 4, shut + "1", 1300 * second).has_value());
    CHECK(supply.waits(2, 4, shut + "1", 1800 * second).has_value());
    supply.fed();
    CHECK(supply.waits(2, 4, shut + "1", 1900 * second).has_value());
    CHECK(supply.waits(2, 4, shut + "1", 2499 * second).has_value());
  }
}
