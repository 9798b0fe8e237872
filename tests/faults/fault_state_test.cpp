#include "actors/fault/fault_state.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

payload_ptr reserve(std::uint64_t count) {
  ReserveBatchT request;
  request.count = count;
  return pack(request).content();
}

payload_ptr probe() {
  return pack(ProbeT()).content();
}

bool is_large(const ReserveBatch& request) {
  return request.count() > 10;
}

std::string kinds_of(fault_state& state, int messages) {
  std::string text;
  for (int i = 0; i < messages; ++i)
    text += to_string(state.decide(fault_side::request, probe()).kind).front();
  return text;
}

} // namespace

TEST_SUITE("faults/state") {
  TEST_CASE("an empty plan lets everything pass") {
    fault_state state(fault_plan(), random_source(1));
    CHECK(kinds_of(state, 3) == "ppp");
  }

  TEST_CASE("a rule looks at its type and asks its predicate") {
    fault_state state(fault_plan{on<ReserveBatch>(&is_large).drop()}, random_source(1));
    CHECK(state.decide(fault_side::request, probe()).kind == fault_kind::pass);
    CHECK(state.decide(fault_side::request, reserve(10)).kind == fault_kind::pass);
    CHECK(state.decide(fault_side::request, reserve(11)).kind == fault_kind::drop);
  }

  TEST_CASE("the first rule that strikes decides, and counts") {
    fault_plan plan{on<Probe>().drop().nth(2), any_request().delay(5ms).from(2).times(2)};
    fault_state state(plan, random_source(1));
    CHECK(kinds_of(state, 5) == "pdddp");
    CHECK(state.struck() == std::vector<std::uint64_t>{1, 2});
  }

  TEST_CASE("requests and replies are told apart, an error is a reply of no type") {
    fault_plan plan{any_reply().corrupt(), any_reply().drop(), any_request().duplicate()};
    fault_state state(plan, random_source(1));
    CHECK(state.decide(fault_side::request, probe()).kind == fault_kind::duplicate);
    CHECK(state.decide(fault_side::reply, probe()).kind == fault_kind::corrupt);
    CHECK(state.decide(fault_side::reply, nullptr).kind == fault_kind::drop);
  }

  TEST_CASE("one seed gives one schedule, another one another") {
    const fault_plan plan{any_request().drop().chance(0.5)};
    fault_state first(plan, random_source(7));
    fault_state again(plan, random_source(7));
    fault_state other(plan, random_source(8));
    const std::string schedule = kinds_of(first, 64);
    CHECK(kinds_of(again, 64) == schedule);
    CHECK(kinds_of(other, 64) != schedule);
    const auto struck = first.struck().front();
    CHECK(struck > 16);
    CHECK(struck < 48);
  }

  TEST_CASE("a delay is drawn from its range") {
    fault_state state(fault_plan{any_request().delay(2ms, 4ms)}, random_source(3));
    for (int i = 0; i < 100; ++i) {
      const fault_effect drawn = state.decide(fault_side::request, probe());
      CHECK(drawn.shortest >= 2ms);
      CHECK(drawn.shortest <= 4ms);
      CHECK(drawn.shortest == drawn.longest);
    }
  }

  TEST_CASE("a held message is overtaken by its own direction, at most as often as it says") {
    fault_state state(fault_plan(), random_source(3));
    const auto once = state.hold(fault_side::request, 1);
    const auto some = state.hold(fault_side::request, 3);
    state.went_past(fault_side::reply);
    CHECK(state.holds(once));
    state.went_past(fault_side::request);
    CHECK(!state.holds(once));
    state.went_past(fault_side::request);
    state.went_past(fault_side::request);
    CHECK(!state.holds(some));
    const auto late = state.hold(fault_side::request, 1);
    state.let_go(late);
    CHECK(!state.holds(late));
  }

  TEST_CASE("damage is always refused by the border, and the original is intact") {
    frame value;
    value.content = reserve(3);
    const auto before = encode(value);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      CAPTURE(seed);
      fault_state state(fault_plan{}, random_source(seed));
      const error found = state.damage(value);
      CHECK((found.code == errc::corrupt || found.code == errc::unsupported));
      CHECK(found.text.starts_with("frame: "));
    }
    CHECK(encode(value) == before);
  }
}

} // namespace weir::test
