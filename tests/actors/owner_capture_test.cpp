#include "actors/checkpoint/owner_capture.hpp"

#include <doctest/doctest.h>

namespace weir {
namespace {

constexpr epoch_id epoch(std::uint64_t number) {
  return {.incarnation = 1, .life = 1, .number = number};
}

} // namespace

TEST_SUITE("actors/checkpoint/owner_capture") {
  TEST_CASE("a Cut captures once; the same and older ones do nothing") {
    owner_capture<int> owner;
    int captures = 0;
    const auto capture = [&captures] { return ++captures; };
    CHECK(owner.cut(epoch(2), capture) == capture_facts{.epoch = epoch(2)});
    CHECK_FALSE(owner.cut(epoch(2), capture).has_value());
    CHECK_FALSE(owner.cut(epoch(1), capture).has_value());
    CHECK(captures == 1);
    CHECK(**owner.section(epoch(2)) == 1);
  }

  TEST_CASE("an epoch of an earlier life is stale, whatever its number") {
    owner_capture<int> owner;
    const epoch_id second_life{.incarnation = 1, .life = 2, .number = 1};
    REQUIRE(owner.cut(second_life, [] { return 1; }).has_value());
    CHECK_FALSE(owner.cut(epoch(900), [] { return 2; }).has_value());
  }

  TEST_CASE("a newer Cut replaces the one capture that is kept") {
    owner_capture<int> owner;
    REQUIRE(owner.cut(epoch(1), [] { return 1; }).has_value());
    const auto writing = *owner.section(epoch(1));
    REQUIRE(owner.cut(epoch(2), [] { return 2; }).has_value());
    const auto gone = owner.section(epoch(1));
    REQUIRE_FALSE(gone.has_value());
    CHECK(gone.error().code == errc::conflict);
    CHECK(gone.error().text == "no capture of epoch 1.1.1: kept is 1.1.2");
    CHECK(**owner.section(epoch(2)) == 2);
    CHECK(*writing == 1); // a writer's share outlives it
  }

  TEST_CASE("an Abort drops the capture, and its own late Cut does nothing") {
    owner_capture<int> owner;
    REQUIRE(owner.cut(epoch(1), [] { return 1; }).has_value());
    CHECK(owner.abort(epoch(1)));
    CHECK_FALSE(owner.section(epoch(1)).has_value());
    CHECK_FALSE(owner.abort(epoch(2)));
    CHECK_FALSE(owner.cut(epoch(2), [] { return 2; }).has_value());
    REQUIRE(owner.cut(epoch(3), [] { return 3; }).has_value());
    CHECK_FALSE(owner.abort(epoch(2))); // late: the newer capture stays
    CHECK(**owner.section(epoch(3)) == 3);
  }

  TEST_CASE("a lease that is older than the capture taints it") {
    owner_capture<int> owner;
    owner.applied(epoch(1)); // drained before the Cut: no harm
    REQUIRE(owner.cut(epoch(2), [] { return 1; })->tainted == false);
    owner.applied(epoch(2)); // granted after the gates opened again: no harm
    CHECK(owner.publishable(epoch(2)).has_value());
    owner.applied(epoch(1));
    const auto refused = owner.section(epoch(2));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::conflict);
  }

  TEST_CASE("a lease of the epoch that comes before its Cut taints the capture") {
    owner_capture<int> owner;
    owner.applied(epoch(1));
    const auto facts = owner.cut(epoch(1), [] { return 1; });
    REQUIRE(facts.has_value());
    CHECK(facts->tainted);
    CHECK_FALSE(owner.publishable(epoch(1)).has_value());
    // The next epoch is sound again.
    owner.applied(epoch(1));
    CHECK_FALSE(owner.cut(epoch(2), [] { return 2; })->tainted);
  }

  TEST_CASE("a lease of a newer epoch than the kept capture does not taint it") {
    owner_capture<int> owner;
    REQUIRE(owner.cut(epoch(1), [] { return 1; }).has_value());
    owner.applied(epoch(2)); // gates saw epoch 2, this owner has not
    CHECK(owner.publishable(epoch(1)).has_value());
    CHECK(owner.cut(epoch(2), [] { return 2; })->tainted);
    CHECK_FALSE(owner.cut(epoch(3), [] { return 3; })->tainted);
  }

  TEST_CASE("a capture that was tainted after it was written is dropped and counts for nothing") {
    owner_capture<int> owner;
    owner.applied(epoch(0));
    REQUIRE(owner.cut(epoch(1), [] { return 1; }).has_value());
    owner.applied(epoch(0));
    CHECK_FALSE(owner.release(epoch(1)));
    CHECK_FALSE(owner.section(epoch(1)).has_value());
    CHECK(owner.cut(epoch(2), [] { return 2; })->mutations == 2);
  }

  TEST_CASE("mutations count from the newest published capture") {
    owner_capture<int> owner;
    owner.applied(epoch(0));
    owner.mutated();
    CHECK(owner.cut(epoch(1), [] { return 1; })->mutations == 2);
    owner.applied(epoch(1));
    CHECK(owner.abort(epoch(1)));
    CHECK(owner.cut(epoch(2), [] { return 2; })->mutations == 3);
    owner.applied(epoch(2));
    CHECK(owner.release(epoch(2)));
    CHECK_FALSE(owner.release(epoch(2)));
    CHECK(owner.cut(epoch(3), [] { return 3; })->mutations == 1);
    CHECK(owner.release(epoch(3)));
    CHECK(owner.cut(epoch(4), [] { return 4; })->mutations == 0);
  }
}

} // namespace weir
