/// Memory goes back: at once with the last value of a segment, in bounded steps from mostly dead
/// ones; what snapshots and batches pin stays as it is.
#include "dataplane/compaction.hpp"
#include "dataplane/store.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

constexpr std::uint64_t segment_bytes = std::uint64_t{1} << 20;
constexpr std::size_t batch_rows = 16;
const std::vector<std::string> field = {"value"};

/// Rows of 32 KiB, each filled with its number in the store.
std::vector<row_id> put_batch(store& plane) {
  std::vector<std::vector<std::int32_t>> values;
  const auto first = static_cast<std::int32_t>(plane.stat().sequence);
  for (std::size_t at = 0; at < batch_rows; ++at)
    values.emplace_back(8192, first * 100 + static_cast<std::int32_t>(at));
  std::vector<row_input> rows;
  for (const auto& one : values)
    rows.push_back({.key = {}, .tags = {}, .cells = {vector_cell<std::int32_t>("value", one)}});
  const auto ids = plane.put("p", rows);
  REQUIRE(ids.has_value());
  return *ids;
}

std::vector<std::int32_t> value_of(const store& plane, row_id row) {
  const auto got = plane.get("p", std::span(&row, 1), field);
  REQUIRE(got.has_value());
  const auto values = got->columns[0].values<std::int32_t>();
  return {values.begin(), values.end()};
}

/// Batches, each in a segment of its own, of which only the first row is left.
struct survivors {
  explicit survivors(store& plane, int batches) {
    for (int at = 0; at < batches; ++at) {
      const auto ids = put_batch(plane);
      rows.push_back(ids.front());
      values.push_back(value_of(plane, ids.front()));
      std::ignore = plane.capture(); // Seals the segment.
      REQUIRE(plane.clear("p", std::span(ids).subspan(1)).has_value());
    }
  }
  void check(const store& plane) const {
    for (std::size_t at = 0; at < rows.size(); ++at)
      CHECK(value_of(plane, rows[at]) == values[at]);
  }
  std::vector<row_id> rows;
  std::vector<std::vector<std::int32_t>> values;
};

int compact_fully(store& plane, std::uint64_t step_bytes) {
  for (int steps = 1; steps < 1000; ++steps) {
    const auto step = plane.compact(step_bytes);
    REQUIRE(step.has_value());
    CHECK(step->moved_bytes <= std::max<std::uint64_t>(step_bytes, 32768));
    plane.check_invariants();
    if (step->finished) return steps;
  }
  FAIL("compaction does not end");
  return 0;
}

} // namespace

TEST_SUITE("dataplane/compaction") {
  TEST_CASE("the plan has the mostly dead segments, and never the open one") {
    const std::vector<segment_standing> segments = {
        {1, 100, 100}, {2, 49, 100}, {3, 50, 100}, {4, 1, 100}, {5, 0, 0}};
    CHECK(compaction_plan(segments, 4) == std::unordered_set<std::uint64_t>{2});
    CHECK(compaction_plan(segments, 0) == std::unordered_set<std::uint64_t>{2, 4});
  }

  TEST_CASE("memory after clearing all but one row of a batch is back to within one segment") {
    store plane({.segment_bytes = segment_bytes});
    std::vector<row_id> ids;
    for (int at = 0; at < 8; ++at) {
      const auto some = put_batch(plane);
      ids.insert(ids.end(), some.begin(), some.end());
    }
    CHECK(plane.stat().segment_bytes >= 4 * segment_bytes);
    REQUIRE(plane.clear("p", std::span(ids).subspan(1)).has_value());
    CHECK(plane.stat().segment_bytes == segment_bytes);
  }

  TEST_CASE("one row left of each of many batches: compaction moves them into one segment") {
    store plane({.segment_bytes = segment_bytes});
    const survivors left(plane, 12);
    CHECK(plane.stat().segments == 12);
    const std::uint64_t sequence = plane.stat().sequence;
    compact_fully(plane, segment_bytes);
    CHECK(plane.stat().segments == 1);
    CHECK(plane.stat().sequence == sequence);
    left.check(plane);
    CHECK(compact_fully(plane, segment_bytes) == 1); // Nothing is left to do.
  }

  TEST_CASE("a step moves no more than it may, and at least one row") {
    store plane({.segment_bytes = segment_bytes});
    const survivors left(plane, 6);
    CHECK(compact_fully(plane, 1) >= 6);
    CHECK(plane.stat().segments == 1);
    left.check(plane);
  }

  TEST_CASE("a snapshot and a batch keep what they pin while compaction moves it away") {
    store plane({.segment_bytes = segment_bytes});
    const survivors left(plane, 4);
    std::optional<snapshot> pinned = plane.capture();
    const auto batch = plane.get("p", std::span(left.rows).first(1), field);
    REQUIRE(batch.has_value());
    compact_fully(plane, segment_bytes);
    CHECK(plane.stat().segments == 1);
    CHECK(pinned->state().segments.size() == 4);
    pinned->state().check_invariants();
    CHECK(batch->columns[0].values<std::int32_t>()[5] == left.values[0][5]);
    store other;
    other.restore(*pinned);
    left.check(other);
  }

  TEST_CASE("rows that are cleared or restored during a sweep are no obstacle") {
    store plane({.segment_bytes = segment_bytes});
    const survivors left(plane, 6);
    const snapshot before = plane.capture();
    REQUIRE(plane.compact(1).has_value());
    REQUIRE(plane.clear("p", std::span(left.rows).subspan(1, 2)).has_value());
    REQUIRE(plane.compact(1).has_value());
    plane.restore(before);
    compact_fully(plane, 1);
    left.check(plane);
  }

  TEST_CASE("the memory of dead segments is used again, up to a bound") {
    store plane({.segment_bytes = segment_bytes, .idle_bytes = 2 * segment_bytes});
    std::vector<row_id> ids;
    for (int at = 0; at < 8; ++at) {
      const auto some = put_batch(plane);
      ids.insert(ids.end(), some.begin(), some.end());
    }
    REQUIRE(plane.clear("p", ids).has_value());
    CHECK(plane.stat().segments == 0);
    CHECK(plane.stat().idle_bytes == 2 * segment_bytes);
    const auto again = put_batch(plane);
    CHECK(plane.stat().idle_bytes == segment_bytes);
    CHECK(value_of(plane, again[3])[0] % 100 == 3);
  }
}
