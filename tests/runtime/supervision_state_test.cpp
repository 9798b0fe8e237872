#include "actors/runtime/supervision_state.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using indices = std::vector<std::size_t>;

supervision_options options(restart how) {
  supervision_options chosen;
  chosen.how = how;
  chosen.restarts_max = 3;
  chosen.period = 10s;
  chosen.backoff = 100ms;
  chosen.backoff_max = 300ms;
  return chosen;
}

supervision_state three(restart how) {
  return supervision_state("trio", options(how), {"a", "b", "c"});
}

error boom() {
  return error{errc::corrupt, "boom", "b"};
}

/// Begins whoever is due at a time, without a failure; for histories.
void settle(supervision_state& state, std::chrono::nanoseconds now) {
  std::ignore = state.begin_due(now);
}

} // namespace

TEST_SUITE("runtime/supervision_state") {
  TEST_CASE("one_for_one: the one that failed begins again after the backoff, no earlier") {
    auto state = three(restart::one_for_one);
    const auto wanted = state.failed(1, boom(), 1s);
    CHECK(wanted.leave.empty());
    CHECK(!wanted.give_up);
    CHECK(state.next_due() == 1100ms);
    CHECK(state.begin_due(1099ms).empty());
    CHECK(state.begin_due(1100ms) == indices{1});
    CHECK(!state.next_due());
  }

  TEST_CASE("one_for_all: all leave, and begin together once the last has left") {
    auto state = three(restart::one_for_all);
    CHECK(state.failed(1, boom(), 0s).leave == indices{0, 2});
    state.left(2);
    CHECK(!state.next_due());
    CHECK(state.begin_due(1s).empty());
    state.left(0);
    CHECK(state.next_due() == 100ms);
    CHECK(state.begin_due(100ms) == indices{0, 1, 2});
  }

  TEST_CASE("rest_for_one: those that were added later go with it") {
    auto state = three(restart::rest_for_one);
    CHECK(state.failed(1, boom(), 0s).leave == indices{2});
    state.left(2);
    CHECK(state.begin_due(100ms) == indices{1, 2});
  }

  TEST_CASE("one that fails while it leaves has left, and costs no budget") {
    auto state = three(restart::one_for_all);
    std::ignore = state.failed(0, boom(), 0s);
    for (const std::size_t other : {1U, 2U}) {
      const auto wanted = state.failed(other, boom(), 0s);
      CHECK(wanted.leave.empty());
      CHECK(!wanted.give_up);
    }
    CHECK(state.next_due() == 100ms);
  }

  TEST_CASE("a second failure during a backoff widens the group that waits") {
    auto state = three(restart::rest_for_one);
    CHECK(state.failed(2, boom(), 0s).leave.empty());
    CHECK(state.failed(0, boom(), 50ms).leave == indices{1});
    state.left(1);
    CHECK(state.begin_due(100ms).empty());
    CHECK(state.begin_due(150ms) == indices{0, 1, 2});
  }

  TEST_CASE("the backoff doubles with each failure of the same actor, up to its cap") {
    auto state = three(restart::one_for_one);
    std::vector<std::chrono::nanoseconds> waits;
    for (const auto now : {0ms, 1000ms, 2000ms}) {
      std::ignore = state.failed(0, boom(), now);
      waits.push_back(*state.next_due() - now);
      settle(state, *state.next_due());
    }
    CHECK(waits == std::vector<std::chrono::nanoseconds>{100ms, 200ms, 300ms});
  }

  TEST_CASE("another actor's failures do not lengthen the backoff, and neither do old ones") {
    auto state = three(restart::one_for_one);
    std::ignore = state.failed(0, boom(), 0s);
    std::ignore = state.failed(1, boom(), 0s);
    CHECK(state.next_due() == 100ms);
    settle(state, 100ms);
    std::ignore = state.failed(0, boom(), 11s);
    CHECK(state.next_due() == 11100ms);
  }

  TEST_CASE("one failure more than the budget, and the group gives up with its history") {
    auto state = three(restart::one_for_one);
    for (const auto now : {0s, 1s, 2s}) {
      CHECK(!state.failed(1, boom(), now).give_up);
      settle(state, now + 1s);
    }
    const auto wanted = state.failed(1, boom(), 9s);
    REQUIRE(wanted.give_up);
    CHECK(to_string(*wanted.give_up) ==
          "corrupt: b failed after 3 restarts within 10 s, all that group trio allows: boom "
          "(asked of b)");
  }

  TEST_CASE("failures that are older than the period are forgiven") {
    auto state = three(restart::one_for_one);
    for (const auto now : {0s, 1s, 2s, 10s, 11s, 12s}) {
      CHECK(!state.failed(1, boom(), now).give_up);
      settle(state, now + 1s);
    }
  }

  TEST_CASE("without a budget the first failure is the last") {
    auto none = options(restart::one_for_one);
    none.restarts_max = 0;
    supervision_state state("strict", none, {"a"});
    CHECK(state.failed(0, boom(), 0s).give_up);
  }

  TEST_CASE("a group that is begun anew waits for everybody to leave") {
    auto state = three(restart::one_for_one);
    CHECK(state.renew(5s).leave == indices{0, 1, 2});
    state.left(0);
    state.left(1);
    CHECK(state.begin_due(5s).empty());
    state.left(2);
    CHECK(state.begin_due(5s) == indices{0, 1, 2});
  }

  TEST_CASE("news of one that is up already changes nothing") {
    auto state = three(restart::one_for_one);
    state.left(0);
    CHECK(!state.next_due());
    CHECK(state.begin_due(1h).empty());
  }
}

} // namespace weir::test
