#include "actors/runtime/watchdog_state.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using indices = std::vector<std::size_t>;
using lines = std::vector<std::string>;

watchdog_state three() {
  return watchdog_state({.interval = 1s, .stall_timeout = 5s}, {"a", "b", "c"});
}

long_wait wait_for(const std::string& other) {
  return {other, "waits for " + other + " to answer Probe", 6s};
}

/// A round in which everybody answers with what is given for it.
void round(watchdog_state& state, std::chrono::nanoseconds now,
           std::vector<std::vector<long_wait>> waits) {
  for (const std::size_t asked : state.begin_round(now))
    state.answered(asked, std::move(waits[asked]));
}

} // namespace

TEST_SUITE("runtime/watchdog_state") {
  TEST_CASE("nobody waits: nothing is stalled") {
    auto state = three();
    round(state, 1s, {{}, {}, {}});
    CHECK(state.all_answered());
    CHECK(state.judge(1s).lines.empty());
    CHECK(state.judge(1s).blamed.empty());
  }

  TEST_CASE("a wait is told with both sides, and the side that has to go on is blamed") {
    auto state = three();
    round(state, 1s, {{wait_for("b")}, {}, {}});
    const auto found = state.judge(1s);
    CHECK(found.lines == lines{"a waits for b to answer Probe, 6.0 s so far"});
    CHECK(found.blamed == indices{1});
  }

  TEST_CASE("of a chain the end is blamed") {
    auto state = three();
    round(state, 1s, {{wait_for("b")}, {wait_for("c")}, {}});
    CHECK(state.judge(1s).lines.size() == 2);
    CHECK(state.judge(1s).blamed == indices{2});
  }

  TEST_CASE("of a cycle everybody is blamed") {
    auto state = three();
    round(state, 1s, {{wait_for("b")}, {wait_for("a")}, {}});
    CHECK(state.judge(1s).blamed == indices{0, 1});
  }

  TEST_CASE("a lease that its own holder keeps is the holder's fault") {
    auto state = three();
    round(state, 1s, {{}, {{"b", "holds the lease of transaction 7", 6s}}, {}});
    CHECK(state.judge(1s).blamed == indices{1});
  }

  TEST_CASE("who owes an answer is not asked again, and is stalled after the timeout") {
    auto state = three();
    CHECK(state.begin_round(1s) == indices{0, 1, 2});
    state.answered(0, {});
    state.answered(2, {});
    CHECK(!state.all_answered());
    CHECK(state.begin_round(2s) == indices{0, 2});
    state.answered(0, {});
    state.answered(2, {});
    CHECK(state.judge(5999ms).lines.empty());
    CHECK(state.silent(1, 6s));
    CHECK(state.judge(6s).lines == lines{"b has taken no message for 5.0 s"});
    CHECK(state.judge(6s).blamed == indices{1});
  }

  TEST_CASE("a silent actor is blamed before those who wait for it") {
    auto state = three();
    CHECK(state.begin_round(1s).size() == 3);
    state.answered(0, {wait_for("b")});
    state.answered(2, {});
    CHECK(state.judge(6s).blamed == indices{1});
  }

  TEST_CASE("an answer that comes late ends the silence") {
    auto state = three();
    CHECK(state.begin_round(1s).size() == 3);
    for (const std::size_t actor : {0U, 1U, 2U})
      state.answered(actor, {});
    CHECK(state.judge(1h).lines.empty());
    CHECK(state.begin_round(1h).size() == 3);
  }

  TEST_CASE("the wait of a round is not that of the next") {
    auto state = three();
    round(state, 1s, {{wait_for("b")}, {}, {}});
    round(state, 2s, {{}, {}, {}});
    CHECK(state.judge(2s).lines.empty());
  }
}

} // namespace weir::test
