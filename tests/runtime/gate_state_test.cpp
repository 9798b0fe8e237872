#include "actors/runtime/gate_state.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {
using namespace std::chrono_literals;
constexpr epoch_id first{1, 1, 1};
constexpr epoch_id second{1, 1, 2};
constexpr epoch_id third{1, 2, 1};
} // namespace

TEST_SUITE("runtime/gate_state") {
  TEST_CASE("a transaction is settled when it was released and every request is answered") {
    gate_state gate;
    const auto id = gate.enter(0ns);
    CHECK(gate.sent(id) == 0);
    CHECK(gate.sent(id) == 1);
    CHECK(gate.close(first, 1ns, 5s));
    gate.answered(id);
    gate.released(id);
    CHECK(!gate.quiesced(first));
    CHECK(gate.settled_before() == id);
    gate.check_invariants();
    gate.answered(id);
    CHECK(gate.quiesced(first));
    CHECK(gate.settled_before() > id);
    CHECK(gate.unsettled() == 0);
  }

  TEST_CASE("a Quiesce at or below the newest epoch does nothing") {
    gate_state gate;
    CHECK(gate.close(second, 0ns, 5s));
    CHECK(gate.resume(second));
    CHECK(!gate.close(second, 0ns, 5s));
    CHECK(!gate.close(first, 0ns, 5s));
    CHECK(gate.open());
    CHECK(gate.close(third, 0ns, 5s));
    CHECK(!gate.open());
  }

  TEST_CASE("Resume says whether the gate held, and a repeated one says the same") {
    gate_state gate;
    CHECK(gate.close(first, 0ns, 5s));
    CHECK(gate.resume(first));
    CHECK(gate.resume(first));
    CHECK(gate.close(second, 0ns, 5s));
    gate.abort(second);
    CHECK(!gate.resume(second));
  }

  TEST_CASE("Resume before the gate was quiesced did not hold") {
    gate_state gate;
    const auto id = gate.enter(0ns);
    CHECK(gate.close(first, 0ns, 5s));
    CHECK(!gate.resume(first));
    gate.released(id);
    CHECK(!gate.resume(first));
  }

  TEST_CASE("Resume or Abort of a newer epoch opens, of an older one does nothing") {
    gate_state gate;
    CHECK(gate.close(second, 0ns, 5s));
    CHECK(!gate.resume(first));
    gate.abort(first);
    CHECK(!gate.open());
    CHECK(!gate.resume(third));
    CHECK(gate.open());
    CHECK(!gate.close(third, 0ns, 5s));
  }

  TEST_CASE("a gate held too long opens by itself, and such a cut was not held") {
    gate_state gate;
    CHECK(gate.close(first, 10ns, 5ns));
    CHECK(!gate.expire(14ns));
    CHECK(gate.expire(15ns));
    CHECK(gate.open());
    CHECK(!gate.resume(first));
    CHECK(!gate.expire(20ns));
  }

  TEST_CASE("the oldest lease is named with its age and what it waits for") {
    gate_state gate;
    CHECK(!gate.oldest(0ns));
    const auto id = gate.enter(100ns);
    static_cast<void>(gate.enter(200ns));
    CHECK(gate.sent(id) == 0);
    gate.released(id);
    const auto oldest = gate.oldest(350ns);
    REQUIRE(oldest);
    CHECK(oldest->id == id);
    CHECK(oldest->age == 250ns);
    CHECK(oldest->unanswered == 1);
    CHECK(oldest->released);
  }
}

} // namespace weir::test
