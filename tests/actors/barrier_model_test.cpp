/// Every interleaving of two origins, two owners and the checkpoint actor, for small budgets of
/// transactions and faults; and random walks for larger ones.
#include "tests/actors/barrier_world.hpp"

#include <doctest/doctest.h>

#include <random>

namespace weir {
namespace {

using testing::barrier_world;
using testing::explore;
using testing::explored;
using testing::world_limits;

void check_sound(const world_limits& limits) {
  const explored found = explore(limits);
  MESSAGE(found.states, " states");
  CHECK(found.torn == 0);
  CHECK(found.stuck == 0);
  CHECK(found.halved == 0);
  CHECK(found.published > 0);
}

} // namespace

TEST_SUITE("actors/checkpoint/barrier_model") {
  TEST_CASE("without faults every cut holds each transaction in all owners or in none") {
    check_sound({.transactions = 2, .transactions_of_second = 2});
    check_sound({.requests = 2});
  }

  TEST_CASE("nor does a lost message tear one, and every gate opens again") {
    check_sound({.losses = 1});
    check_sound({.losses = 2});
  }

  TEST_CASE("nor a doubled one") {
    check_sound({.duplicates = 1});
    check_sound({.duplicates = 2});
  }

  TEST_CASE("nor a gate that opens by itself") {
    check_sound({.self_opens = 1});
    check_sound({.self_opens = 2});
  }

  TEST_CASE("nor a timeout, with the next checkpoint on its heels") {
    check_sound({.timeouts = 1});
    check_sound({.transactions_of_second = 0, .requests = 2, .timeouts = 1});
  }

  TEST_CASE("nor the death of the checkpoint actor in the middle of an epoch") {
    check_sound({.crashes = 1});
  }

  TEST_CASE("nor several faults at once") {
    check_sound({.transactions_of_second = 0, .losses = 1, .duplicates = 1, .self_opens = 1});
  }

  TEST_CASE("nor a transaction whose holder stopped waiting for it") {
    check_sound({.cancels = 1});
    check_sound({.timeouts = 1, .cancels = 1});
  }

  TEST_CASE("random walks with many faults stay sound") {
    std::size_t published = 0;
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      barrier_world world({.transactions = 4,
                           .requests = 6,
                           .losses = 2,
                           .duplicates = 3,
                           .self_opens = 2,
                           .timeouts = 2,
                           .crashes = 1});
      std::size_t steps = 0;
      for (std::size_t choices = world.choices(); choices != 0; choices = world.choices()) {
        world.choose(random() % choices);
        REQUIRE(++steps < 10'000);
      }
      REQUIRE_FALSE(world.torn());
      REQUIRE_FALSE(world.stuck());
      published += world.published();
    }
    CHECK(published > 1000);
  }
}

} // namespace weir
