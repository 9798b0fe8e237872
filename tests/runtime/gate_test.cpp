#include "actors/runtime/channel.hpp"
#include "actors/runtime/gate.hpp"
#include "tests/runtime/queue_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr epoch_id first{1, 1, 1};

static_assert(!std::is_copy_constructible_v<lease>);
static_assert(std::is_nothrow_move_constructible_v<lease>);

task<void> mutate(mutation_gate* gate, signal* until, journal* log, std::string name) {
  auto held = co_await gate->enter();
  log->push_back(name + " in");
  co_await until->raised();
  held.release();
  log->push_back(name + " out");
}

task<void> quiesce(mutation_gate* gate, epoch_id epoch, journal* log) {
  auto settled = co_await gate->quiesced(epoch);
  log->push_back(settled ? std::string("quiesced") : settled.error().text);
}

} // namespace

TEST_SUITE("runtime/gate") {
  TEST_CASE("a closed gate drains, holds newcomers in line, and lets them in after Resume") {
    queue_under_test test;
    mutation_gate gate(test.queue, std::make_shared<const std::string>("rollout"), 1);
    journal log;
    signal until;
    test.root.spawn(&mutate, &gate, &until, &log, std::string("a"));
    test.settle();
    CHECK(gate.close(first, 5s));
    test.root.spawn(&mutate, &gate, &until, &log, std::string("b"));
    test.root.spawn(&mutate, &gate, &until, &log, std::string("c"));
    test.root.spawn(&quiesce, &gate, first, &log);
    test.settle();
    CHECK(log == journal{"a in"});
    CHECK(!gate.try_enter());
    until.raise();
    test.settle();
    CHECK(log == journal{"a in", "a out", "quiesced"});
    CHECK(gate.open(first));
    test.settle();
    CHECK(log == journal{"a in", "a out", "quiesced", "b in", "c in"});
    test.root.cancel();
    CHECK(gate.state().unsettled() == 0);
    CHECK(test.queue.timers().empty());
  }

  TEST_CASE("a lease given to a coroutine that dies before it runs is released") {
    queue_under_test test;
    mutation_gate gate(test.queue, std::make_shared<const std::string>("rollout"), 1);
    journal log;
    signal until;
    CHECK(gate.close(first, 5s));
    test.root.spawn(&mutate, &gate, &until, &log, std::string("a"));
    test.settle();
    gate.abort(first);
    CHECK(gate.state().unsettled() == 1);
    test.root.cancel();
    CHECK(gate.state().unsettled() == 0);
    CHECK(log.empty());
  }

  TEST_CASE("a hold that is too long ends by itself and fails the wait for quiet") {
    queue_under_test test;
    mutation_gate gate(test.queue, std::make_shared<const std::string>("rollout"), 1);
    journal log;
    signal until;
    test.root.spawn(&mutate, &gate, &until, &log, std::string("a"));
    test.settle();
    CHECK(gate.close(first, 5ms));
    test.root.spawn(&quiesce, &gate, first, &log);
    test.settle();
    CHECK(gate.oldest().find("transaction 1 of rollout, 0 ms old: held") == 0);
    test.advance(5ms);
    REQUIRE(log.size() == 2);
    CHECK(log[1] == "gate of rollout: not closed for epoch 1.1.1, the last one was 1.1.1");
    CHECK(!gate.open(first));
    test.root.cancel();
  }

  TEST_CASE("a request that was sent keeps its transaction unsettled after the lease is gone") {
    queue_under_test test;
    mutation_gate gate(test.queue, std::make_shared<const std::string>("rollout"), 7);
    auto held = gate.try_enter();
    REQUIRE(held);
    lease_hold request(*held);
    lease_hold next(*held);
    CHECK(request.stamp().instance == 7);
    CHECK(request.stamp().step == 0);
    CHECK(next.stamp().step == 1);
    held->release();
    request.answered();
    CHECK(gate.state().unsettled() == 1);
    next = lease_hold();
    CHECK(gate.state().unsettled() == 0);
  }
}

} // namespace weir::test
