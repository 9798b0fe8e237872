/// The store against the simplest model that could be right, under seeded random calls: outcomes
/// and values agree after every call, captures never change, and a restore of one goes on.
#include "dataplane/posix_disk.hpp"
#include "dataplane/spill_area.hpp"
#include "dataplane/store.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

const std::vector<std::string> field_names = {"tokens", "advantage"};

struct model_row {
  bool committed = false;
  std::int64_t group = 0;
  std::map<std::string, std::vector<std::int32_t>> values;
  std::optional<consumer_state> trainer;

  friend bool operator==(const model_row&, const model_row&) = default;
};

using model = std::map<std::uint64_t, model_row>;

/// One store and what it should hold.
class pair_of_stores {
public:
  pair_of_stores(std::uint64_t seed, store_options options)
      : plane(std::move(options)), random_(seed) {}

  void step() {
    const std::vector<row_id> rows = draw_rows();
    if (random_() % 4 == 0) REQUIRE(plane.compact(random_() % 200).has_value());
    switch (random_() % 9) {
    case 0:
    case 1:
    case 2:
      return stage();
    case 3:
      return apply(
          rows, plane.commit("p", rows), [](const model_row& row) { return !row.committed; },
          [](model_row& row) { row.committed = true; });
    case 4:
      return patch(rows);
    case 5:
      return remove(rows, random_() % 2 == 0);
    case 6:
      return apply(
          rows, plane.claim("p", "trainer", rows),
          [](const model_row& row) { return row.committed && !row.trainer; },
          [](model_row& row) { row.trainer = consumer_state::claimed; });
    case 7:
      return apply(
          rows, plane.acknowledge("p", "trainer", rows),
          [](const model_row& row) { return row.trainer == consumer_state::claimed; },
          [](model_row& row) { row.trainer = consumer_state::consumed; });
    default:
      return apply(
          rows, plane.release("p", "trainer", rows),
          [](const model_row& row) { return row.trainer == consumer_state::claimed; },
          [](model_row& row) { row.trainer.reset(); });
    }
  }

  void check_query() {
    const std::int64_t group = static_cast<std::int64_t>(random_() % 5);
    const auto found = plane.query("p", {.tags = {tag_equals("group", group)},
                                         .produced = {"advantage"},
                                         .available_to = "trainer"});
    std::vector<row_id> wanted;
    for (const auto& [id, row] : expected)
      if (row.committed && row.group == group && row.values.contains("advantage") && !row.trainer)
        wanted.emplace_back(id);
    CHECK(*found == wanted);
    // By one tag alone the index answers without a look at the rows.
    wanted.clear();
    for (const auto& [id, row] : expected)
      if (row.committed && row.group <= group) wanted.emplace_back(id);
    row_query below;
    below.tags.push_back({"group", std::int64_t{0}, group});
    CHECK(*plane.query("p", below) == wanted);
  }

  /// Reads all committed rows that have both fields in one batch.
  void check_values() {
    std::vector<row_id> rows;
    for (const auto& [id, row] : expected)
      if (row.committed && row.values.size() == 2) rows.emplace_back(id);
    if (rows.empty()) return;
    auto got = plane.get("p", rows, field_names, std::move(recycled_));
    REQUIRE(got.has_value());
    for (std::size_t at = 0; at < rows.size(); ++at)
      for (std::size_t field = 0; field < 2; ++field) {
        const auto values = got->columns[field].values<std::int32_t>(at);
        CHECK(std::vector(values.begin(), values.end()) ==
              expected.at(rows[at].value).values.at(field_names[field]));
      }
    recycled_ = std::move(*got);
  }

  store plane;
  model expected;

private:
  std::vector<std::int32_t> draw_values() {
    std::vector<std::int32_t> values(random_() % 12);
    for (auto& value : values)
      value = static_cast<std::int32_t>(random_());
    return values;
  }

  /// Some rows that are there, now and then one that is not or one twice.
  std::vector<row_id> draw_rows() {
    std::vector<row_id> rows;
    for (const auto& [id, row] : expected)
      if (random_() % expected.size() < 3) rows.emplace_back(id);
    if (random_() % 12 == 0) rows.emplace_back(random_() % 400 + 1);
    return rows;
  }

  bool legal(const std::vector<row_id>& rows, const auto& allowed) {
    std::map<std::uint64_t, int> seen;
    for (const row_id row : rows)
      if (++seen[row.value] > 1 || !expected.contains(row.value) ||
          !allowed(expected.at(row.value)))
        return false;
    return plane.stat().partitions > 0;
  }

  void apply(const std::vector<row_id>& rows, const result<void>& outcome, const auto& allowed,
             const auto& change) {
    REQUIRE(outcome.has_value() == legal(rows, allowed));
    if (outcome)
      for (const row_id row : rows)
        change(expected.at(row.value));
  }

  void remove(const std::vector<row_id>& rows, bool committed) {
    const bool allowed =
        legal(rows, [committed](const model_row& row) { return row.committed == committed; });
    const auto outcome = committed ? plane.clear("p", rows) : plane.drop_staged("p", rows);
    REQUIRE(outcome.has_value() == allowed);
    if (allowed)
      for (const row_id row : rows)
        expected.erase(row.value);
  }

  void stage() {
    std::vector<std::vector<std::int32_t>> values;
    for (std::size_t count = random_() % 6; count-- > 0;)
      values.push_back(draw_values());
    std::vector<row_input> rows;
    std::vector<std::int64_t> groups;
    for (const auto& one : values) {
      groups.push_back(static_cast<std::int64_t>(random_() % 5));
      rows.push_back({.key = {},
                      .tags = {{"group", groups.back()}},
                      .cells = {vector_cell<std::int32_t>("tokens", one)}});
    }
    const auto ids = plane.stage("p", rows);
    REQUIRE(ids.has_value());
    for (std::size_t at = 0; at < ids->size(); ++at) {
      CHECK((expected.empty() || ids->at(at).value > expected.rbegin()->first));
      expected[ids->at(at).value] = {.committed = false,
                                     .group = groups[at],
                                     .values = {{"tokens", values[at]}},
                                     .trainer = {}};
    }
  }

  void patch(const std::vector<row_id>& rows) {
    const bool allowed =
        legal(rows, [](const model_row& row) { return !row.values.contains("advantage"); });
    std::vector<std::vector<std::int32_t>> values;
    for (std::size_t count = rows.size(); count-- > 0;)
      values.push_back(draw_values());
    std::vector<row_patch> patches;
    for (std::size_t at = 0; at < rows.size(); ++at)
      patches.push_back({.row = rows[at],
                         .tags = {},
                         .cells = {vector_cell<std::int32_t>("advantage", values[at])}});
    REQUIRE(plane.patch("p", patches).has_value() == allowed);
    if (allowed)
      for (std::size_t at = 0; at < rows.size(); ++at)
        expected.at(rows[at].value).values["advantage"] = values[at];
  }

  std::mt19937_64 random_;
  batch recycled_;
};

/// What a snapshot holds, as the model would.
model model_of(const snapshot& state) {
  model seen;
  state.state().partitions.for_each([&](std::uint64_t, const partition_state& partition) {
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      model_row& one = seen[id];
      one.committed = row.state == row_state::committed;
      one.group = std::get<std::int64_t>(row.body->tags.at(0).value);
      if (!row.marks.empty()) one.trainer = row.marks[0].state;
      for (const cell& value : row.body->cells) {
        auto& target = one.values[partition.schema->fields[value.field].name];
        if (value.bytes == 0) continue;
        const auto bytes =
            state.state().segments.find(value.segment)->memory->bytes(value.offset, value.bytes);
        const auto* numbers = reinterpret_cast<const std::int32_t*>(bytes.data());
        target.assign(numbers, numbers + value.bytes / 4);
      }
    });
  });
  return seen;
}

void run_history(pair_of_stores& both) {
  std::vector<std::pair<snapshot, model>> captured;
  for (int step = 0; step < 300; ++step) {
    both.step();
    if (step % 20 == 7 && both.plane.stat().partitions > 0) {
      both.plane.check_invariants();
      both.check_query();
      both.check_values();
    }
    if (step % 50 == 13) captured.emplace_back(both.plane.capture(), both.expected);
    if (step % 90 == 89) {
      both.plane.restore(captured[captured.size() / 2].first);
      both.expected = captured[captured.size() / 2].second;
    }
  }
  CHECK(model_of(both.plane.capture()) == both.expected);
  for (const auto& [state, then] : captured) {
    CHECK(model_of(state) == then);
    state.state().check_invariants();
  }
}

} // namespace

TEST_SUITE("dataplane/store_model") {
  TEST_CASE("random calls agree with the model, captures never change, restores go on") {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      pair_of_stores both(seed, {.segment_bytes = 128 + seed * 64});
      run_history(both);
    }
  }

  TEST_CASE("the same in little memory, with most segments on disk") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(seed);
      const auto area = spill_area::open(*storage, directory.path().string(), 1U << 24U);
      REQUIRE(area.has_value());
      {
        pair_of_stores both(seed, {.segment_bytes = 128 + seed * 64,
                                   .capacity_bytes = 2048,
                                   .high_water_bytes = 2048,
                                   .spill = *area});
        run_history(both);
        CHECK(both.plane.stat().spilled_segments > 0);
      }
      CHECK((*area)->used_bytes() == 0);
    }
  }

  TEST_CASE("another thread reads captures, value by value, while the store goes on") {
    pair_of_stores both(77, {.segment_bytes = 512});
    std::atomic<bool> agreed{true};
    for (int round = 0; round < 10; ++round) {
      for (int step = 0; step < 20; ++step)
        both.step();
      std::thread reader([state = both.plane.capture(), then = both.expected, &agreed] {
        if (model_of(state) != then) agreed = false;
      });
      for (int step = 0; step < 40; ++step)
        both.step();
      reader.join();
    }
    CHECK(agreed.load());
  }
}
