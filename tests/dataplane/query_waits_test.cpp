/// Queries that wait: served by a commit, a tag or a release, in the order of asking; or late.
#include "dataplane/query_waits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr std::int64_t never = std::int64_t{1} << 60;

row_query group_is(std::int64_t group) {
  row_query conditions;
  conditions.tags = {tag_equals("group", group)};
  return conditions;
}

row_id put(store& plane, std::int64_t group) {
  const row_input row{.key = {}, .tags = {{"group", group}}, .cells = {}};
  const auto id = plane.put("p", std::span(&row, 1));
  REQUIRE(id.has_value());
  return id->front();
}

} // namespace

TEST_SUITE("dataplane/query_waits") {
  TEST_CASE("a query is answered when its rows are there, and not before") {
    store plane;
    query_waits waits;
    const auto ticket = waits.wait(
        {.partition = "p", .conditions = group_is(3), .rows_min = 2, .deadline_ns = never});
    CHECK(waits.settle(plane, 0).empty()); // Not even the partition is there.
    put(plane, 3);
    put(plane, 4);
    CHECK(waits.settle(plane, 0).empty());
    put(plane, 3);
    const auto settled = waits.settle(plane, 0);
    REQUIRE(settled.size() == 1);
    CHECK(settled[0].ticket == ticket);
    CHECK(settled[0].rows == std::vector<row_id>{row_id(1), row_id(3)});
    CHECK(waits.size() == 0);
  }

  TEST_CASE("rows that are there already answer at once, a staged row does not") {
    store plane;
    query_waits waits;
    const row_input row{.key = {}, .tags = {{"group", std::int64_t{1}}}, .cells = {}};
    const auto staged = plane.stage("p", std::span(&row, 1));
    REQUIRE(staged.has_value());
    std::ignore = waits.wait({.partition = "p", .conditions = group_is(1), .deadline_ns = never});
    CHECK(waits.settle(plane, 0).empty());
    REQUIRE(plane.commit("p", *staged).has_value());
    CHECK(waits.settle(plane, 0).size() == 1);
    std::ignore = waits.wait({.partition = "p", .conditions = group_is(1), .deadline_ns = never});
    CHECK(waits.settle(plane, 0).size() == 1);
  }

  TEST_CASE("a row that is released serves who waits for what is available to it") {
    store plane;
    const row_id row = put(plane, 1);
    REQUIRE(plane.claim("p", "trainer", std::span(&row, 1)).has_value());
    query_waits waits;
    awaited_query wanted{.partition = "p", .conditions = group_is(1), .deadline_ns = never};
    wanted.conditions.available_to = "trainer";
    std::ignore = waits.wait(wanted);
    CHECK(waits.settle(plane, 0).empty());
    REQUIRE(plane.release("p", "trainer", std::span(&row, 1)).has_value());
    CHECK(waits.settle(plane, 0).size() == 1);
  }

  TEST_CASE("a deadline answers with what was found, what was wanted, and of what") {
    store plane;
    put(plane, 3);
    query_waits waits;
    std::ignore =
        waits.wait({.partition = "p", .conditions = group_is(3), .rows_min = 2, .deadline_ns = 50});
    std::ignore = waits.wait({.partition = "p", .conditions = group_is(9), .deadline_ns = 70});
    CHECK(waits.next_deadline() == 50);
    CHECK(waits.settle(plane, 49).empty());
    const auto settled = waits.settle(plane, 50);
    REQUIRE(settled.size() == 1);
    REQUIRE_FALSE(settled[0].rows.has_value());
    CHECK(settled[0].rows.error().code == errc::timed_out);
    CHECK(settled[0].rows.error().text ==
          "partition \"p\": 1 of 2 rows with tag \"group\" were there by the deadline");
    CHECK(waits.next_deadline() == 70);
  }

  TEST_CASE("who gave up is not answered, and nobody is answered twice") {
    store plane;
    query_waits waits;
    const auto first = waits.wait({.partition = "p", .conditions = group_is(1), .deadline_ns = 10});
    const auto second =
        waits.wait({.partition = "p", .conditions = group_is(1), .deadline_ns = 10});
    waits.cancel(first);
    put(plane, 1);
    const auto settled = waits.settle(plane, 20);
    REQUIRE(settled.size() == 1);
    CHECK(settled[0].ticket == second);
    CHECK(waits.settle(plane, 30).empty());
    CHECK_FALSE(waits.next_deadline().has_value());
  }
}

} // namespace weir::dataplane
