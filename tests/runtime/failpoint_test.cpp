#include "actors/runtime/failpoint.hpp"
#include "tests/runtime/queue_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// No point stays armed when a test ends.
struct disarmed_after {
  ~disarmed_after() { disarm_failpoints(); }
};

task<void> reach(journal* log) {
  auto fine = co_await failpoint("test.point");
  log->push_back(fine ? std::string("fine") : fine.error().text);
}

} // namespace

TEST_SUITE("runtime/failpoint") {
  TEST_CASE("an unarmed point does nothing") {
    queue_under_test test;
    journal log;
    test.root.spawn(&reach, &log);
    test.settle();
    CHECK(log == journal{"fine"});
    CHECK(hit_failpoint("test.point"));
  }

  TEST_CASE("error fails the point it names, at the hit it counts") {
    const disarmed_after guard;
    REQUIRE(arm_failpoints("test.point=error@2"));
    CHECK(hit_failpoint("test.point"));
    CHECK(hit_failpoint("test.other"));
    const auto failed = hit_failpoint("test.point");
    REQUIRE(!failed);
    CHECK(failed.error().code == errc::io_failed);
    CHECK(failed.error().text == "failpoint test.point was armed to fail");
    CHECK(hit_failpoint("test.point"));
  }

  TEST_CASE("a point may fail each so many times") {
    const disarmed_after guard;
    REQUIRE(arm_failpoints("test.point=error%3"));
    for (int hit = 1; hit <= 9; ++hit)
      CHECK(hit_failpoint("test.point").has_value() == (hit % 3 != 0));
  }

  TEST_CASE("delay suspends for its time, park for ever") {
    const disarmed_after guard;
    queue_under_test test;
    journal log;
    REQUIRE(arm_failpoints("test.point=delay:50ms"));
    test.root.spawn(&reach, &log);
    test.settle();
    test.advance(49ms);
    CHECK(log.empty());
    test.advance(1ms);
    CHECK(log == journal{"fine"});
    REQUIRE(arm_failpoints("test.point=park"));
    test.root.spawn(&reach, &log);
    test.advance(24h);
    CHECK(log.size() == 1);
    test.root.cancel();
  }

  TEST_CASE("a specification that cannot be right arms nothing and says what to write") {
    const disarmed_after guard;
    for (const auto* bad : {"x", "=kill", "x=", "x=explode", "x=delay:5", "x=delay:ms", "x=kill@0",
                            "x=error@", "x=error%0", "good=error,x=kil"}) {
      CAPTURE(bad);
      const auto armed = arm_failpoints(bad);
      REQUIRE(!armed);
      CHECK(armed.error().code == errc::invalid_argument);
      CHECK(armed.error().text.find("write name=kill") != std::string::npos);
    }
    CHECK(hit_failpoint("good"));
  }
}

} // namespace weir::test
