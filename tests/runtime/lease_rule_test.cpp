/// A lease is never held across a wait that a barrier could prolong: what is caught, what is not.
/// A right that was given away is not mistaken for one that is held.
#include "actors/runtime/gate.hpp"
#include "actors/runtime/offload.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"
#include "tests/runtime/queue_under_test.hpp"
#include "tests/support/death.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// A queue with a gate; runs one coroutine to its end, or to the end of the process.
struct gated {
  queue_under_test test;
  mutation_gate gate{test.queue, std::make_shared<const std::string>("rollout"), 1};
  int entered = 0;

  ~gated() { test.root.cancel(); }

  template <class... Args>
  void run(task<void> (*body)(gated*, Args...), Args... args) {
    test.root.spawn(body, this, std::move(args)...);
    test.settle();
  }
};

std::string death_in(task<void> (*body)(gated*)) {
  return death_of([body] {
    gated world;
    world.run(body);
  });
}

task<void> enter_once(gated* world) {
  auto lease = co_await world->gate.enter();
  ++world->entered;
}

task<void> enter_twice(gated* world) {
  auto outer = co_await world->gate.enter();
  auto inner = co_await world->gate.enter();
  inner.release();
}

task<void> enter_in_callee(gated* world) {
  auto outer = co_await world->gate.enter();
  co_await with_deadline(enter_once(world), within(1s));
}

task<void> enter_in_one_of_two(gated* world) {
  auto outer = co_await world->gate.enter();
  co_await when_all(enter_once(world), enter_once(world));
}

task<void> enter_in_shielded(gated* world) {
  auto outer = co_await world->gate.enter();
  co_await shielded(enter_once(world));
}

task<void> work_under_lease(gated* world) {
  auto lease = co_await world->gate.enter();
  const auto work = [] { return 1; };
  const int one = co_await offload(work);
  ensure(one == 1, "never reached");
}

task<void> release_first(gated* world) {
  auto lease = co_await world->gate.enter();
  lease.release();
  co_await enter_once(world);
}

task<void> use_up(gated* world, lease given) {
  co_await yield();
  given.release();
  ++world->entered;
}

/// The lease belongs to a child: the one who got it may enter again, and may end before.
task<void> give_away(gated* world) {
  auto lease = co_await world->gate.enter();
  world->test.root.spawn(&use_up, world, std::move(lease));
  co_await enter_once(world);
}

task<void> in_turn(gated* world) {
  for (int i = 0; i < 3; ++i)
    co_await enter_once(world);
}

/// While it holds a lease, the shielded work that it left behind enters by itself.
task<void> enter_late(gated* world, signal* until) {
  co_await until->raised();
  co_await enter_once(world);
}
task<void> leave_shielded_behind(gated* world, signal* until) {
  auto lease = co_await world->gate.enter();
  co_await shielded(enter_late(world, until));
}

/// A lease on the heap outlives the coroutine that made it, whose frame another one may get.
task<void> keep_on_heap(gated* world, std::unique_ptr<lease>* kept) {
  auto got = co_await world->gate.enter();
  *kept = std::make_unique<lease>(std::move(got));
}

} // namespace

TEST_SUITE("runtime/lease_rule") {
  TEST_CASE("entering the gate again under a lease ends the process, and says which lease") {
    const std::string said = death_in(&enter_twice);
    CHECK(said.find("test waits for an open mutation gate while it holds a lease (") !=
          std::string::npos);
    CHECK(said.find("lease_rule_test.cpp:") != std::string::npos);
    CHECK(said.find("release the lease first") != std::string::npos);
    CHECK(said.find("enter_twice") != std::string::npos);
  }

  TEST_CASE("so does a callee, however it is called") {
    CHECK(death_in(&enter_in_callee).find("while it holds a lease") != std::string::npos);
    CHECK(death_in(&enter_in_one_of_two).find("while it holds a lease") != std::string::npos);
    CHECK(death_in(&enter_in_shielded).find("while it holds a lease") != std::string::npos);
  }

  TEST_CASE("blocking work under a lease ends the process") {
    const std::string said = death_in(&work_under_lease);
    CHECK(said.find("waits for blocking work while it holds a lease") != std::string::npos);
  }

  TEST_CASE("a request under a lease that was released ends the process") {
    const std::string said = death_of([] {
      gated world;
      auto used = world.gate.try_enter();
      used->release();
      const handle<keeper_protocol> keeper;
      std::ignore = keeper.ask(*used, pack(ReserveBatchT()), within(1s));
    });
    CHECK(said.find("a mutating request is sent under a lease that is held") != std::string::npos);
  }

  TEST_CASE("a lease that was released or moved is in nobody's way") {
    gated world;
    world.run(&release_first);
    CHECK(world.entered == 1);
    world.run(&give_away);
    CHECK(world.entered == 3);
    world.run(&in_turn);
    CHECK(world.entered == 6);
    CHECK(world.gate.state().unsettled() == 0);
  }

  TEST_CASE("two coroutines hold leases of one gate at a time") {
    gated world;
    signal until;
    const auto hold = [](gated* of, signal* end) -> task<void> {
      auto lease = co_await of->gate.enter();
      co_await end->raised();
      ++of->entered;
    };
    world.test.root.spawn(hold, &world, &until);
    world.test.root.spawn(hold, &world, &until);
    world.test.settle();
    CHECK(world.gate.state().unsettled() == 2);
    until.raise();
    world.test.settle();
    CHECK(world.entered == 2);
  }

  TEST_CASE("shielded work whose caller is gone does not count as called under its lease") {
    gated world;
    signal until;
    world.run(&leave_shielded_behind, &until);
    world.test.root.cancel();
    CHECK(world.gate.state().unsettled() == 0);
    until.raise();
    world.test.settle();
    CHECK(world.entered == 1);
  }

  TEST_CASE("a frame at the address of one that kept a lease is another holder") {
    gated world;
    std::unique_ptr<lease> kept;
    world.run(&keep_on_heap, &kept);
    REQUIRE(kept != nullptr);
    for (int i = 0; i < 4; ++i)
      world.run(&enter_once);
    CHECK(world.entered == 4);
    kept->release();
  }
}

} // namespace weir::test
