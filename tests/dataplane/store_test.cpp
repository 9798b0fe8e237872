/// The store, verb by verb: values, states, errors that change nothing, memory that comes back.
#include "dataplane/store.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

static_assert(!std::is_copy_constructible_v<store>);

namespace {

constexpr std::string_view rollouts = "rollouts";

/// Rows as the replay actor writes them: jagged tokens, a scalar reward, tags.
struct sample {
  std::vector<std::int32_t> tokens;
  float reward = 0;
};

sample make_sample(int seed) {
  sample made;
  made.tokens.resize(static_cast<std::size_t>(seed % 7 + 1));
  std::iota(made.tokens.begin(), made.tokens.end(), seed * 100);
  made.reward = static_cast<float>(seed) / 2;
  return made;
}

row_input row_of(const sample& from, std::int64_t group, std::string key = {}) {
  return {.key = std::move(key),
          .tags = {{"group", group}},
          .cells = {vector_cell<std::int32_t>("tokens", from.tokens),
                    scalar_cell("reward", from.reward)}};
}

/// Stages rows with the samples of these seeds; the group is the seed.
std::vector<row_id> stage_seeds(store& plane, const std::vector<int>& seeds,
                                admission kind = admission::ordinary) {
  std::vector<sample> samples;
  for (const int seed : seeds)
    samples.push_back(make_sample(seed));
  std::vector<row_input> rows;
  for (std::size_t at = 0; at < seeds.size(); ++at)
    rows.push_back(row_of(samples[at], seeds[at]));
  auto ids = plane.stage(rollouts, rows, kind);
  REQUIRE(ids.has_value());
  return *ids;
}

std::vector<row_id> put_seeds(store& plane, const std::vector<int>& seeds) {
  const auto ids = stage_seeds(plane, seeds);
  REQUIRE(plane.commit(rollouts, ids).has_value());
  return ids;
}

const std::vector<std::string> both = {"tokens", "reward"};

void check_seeds(const store& plane, const std::vector<row_id>& ids,
                 const std::vector<int>& seeds) {
  const auto got = plane.get(rollouts, ids, both);
  REQUIRE(got.has_value());
  for (std::size_t at = 0; at < seeds.size(); ++at) {
    const sample expected = make_sample(seeds[at]);
    const auto tokens = got->columns[0].values<std::int32_t>(at);
    CHECK(std::vector(tokens.begin(), tokens.end()) == expected.tokens);
    CHECK(got->columns[1].values<float>(at)[0] == expected.reward);
    CHECK(got->columns[0].shape(at)[0] == expected.tokens.size());
    CHECK(got->columns[1].shape(at).empty());
  }
}

errc code_of(const result<void>& outcome) {
  REQUIRE_FALSE(outcome.has_value());
  return outcome.error().code;
}

} // namespace

TEST_SUITE("dataplane/store") {
  TEST_CASE("staged rows are invisible, committed ones have their values") {
    store plane;
    const auto ids = stage_seeds(plane, {1, 2, 3});
    CHECK(ids == std::vector{row_id(1), row_id(2), row_id(3)});
    CHECK(plane.get(rollouts, ids, both).error().code == errc::not_found);
    CHECK(plane.query(rollouts, {})->empty());
    CHECK(plane.describe(rollouts, ids[0])->state == row_state::staged);
    REQUIRE(plane.commit(rollouts, ids).has_value());
    check_seeds(plane, ids, {1, 2, 3});
    CHECK(*plane.query(rollouts, {}) == ids);
    plane.check_invariants();
  }

  TEST_CASE("rows that were staged together are read without a copy, in their order only") {
    store plane;
    const auto ids = put_seeds(plane, {4, 5, 6});
    const auto whole = plane.get(rollouts, ids, both);
    CHECK(whole->columns[0].zero_copy);
    CHECK(whole->columns[1].zero_copy);
    CHECK(whole->columns[0].offsets == std::vector<std::uint64_t>{0, 5, 11, 18});
    const std::vector<row_id> turned = {ids[2], ids[0], ids[2]};
    const auto copied = plane.get(rollouts, turned, both);
    CHECK_FALSE(copied->columns[0].zero_copy);
    check_seeds(plane, turned, {6, 4, 6});
    CHECK(reinterpret_cast<std::uintptr_t>(copied->columns[0].bytes.data()) % 64 == 0);
  }

  TEST_CASE("a batch keeps its values when the rows are cleared, and its buffers can be recycled") {
    store plane;
    const auto ids = put_seeds(plane, {1, 2, 3});
    const std::vector<row_id> turned = {ids[2], ids[1]};
    auto pinned = plane.get(rollouts, ids, both);
    auto copied = plane.get(rollouts, turned, both);
    REQUIRE(plane.clear(rollouts, ids).has_value());
    CHECK(plane.stat().segments == 0);
    CHECK(pinned->columns[0].values<std::int32_t>(2)[3] == 303);
    CHECK(copied->columns[0].values<std::int32_t>(1)[2] == 202);

    const auto others = put_seeds(plane, {2, 1});
    const std::byte* buffer = copied->columns[0].bytes.data();
    const std::vector<row_id> back = {others[1], others[0]};
    const auto again = plane.get(rollouts, back, both, std::move(*copied));
    CHECK(again->columns[0].bytes.data() == buffer);
    CHECK(again->columns[0].values<std::int32_t>(0)[0] == 100);
  }

  TEST_CASE("a dtype conflict names partition, row and field, and nothing of the call is visible") {
    store plane;
    put_seeds(plane, {1});
    const store_stat before = plane.stat();
    const std::vector<float> wrong = {1, 2};
    const sample good = make_sample(2);
    const std::vector<row_input> rows = {
        row_of(good, 2),
        {.key = "late", .tags = {}, .cells = {vector_cell<float>("tokens", wrong)}}};
    const auto refused = plane.put(rollouts, rows);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::invalid_argument);
    CHECK(refused.error().text ==
          "partition \"rollouts\", new row 1 (\"late\"): field \"tokens\" is "
          "i32 in this partition, not f32");
    CHECK(plane.stat() == before);
    CHECK_FALSE(plane.find_key(rollouts, "late").has_value());
    plane.check_invariants();
  }

  TEST_CASE("impossible rows are refused") {
    store plane;
    const std::int32_t value = 7;
    const auto refuse = [&plane](row_input row) {
      const auto refused = plane.stage(rollouts, std::span(&row, 1));
      REQUIRE_FALSE(refused.has_value());
      CHECK(plane.stat().partitions == 0);
      return refused.error().code;
    };
    cell_input shaped = scalar_cell("a", value);
    shaped.shape = {2};
    CHECK(refuse({.key = {}, .tags = {}, .cells = {shaped}}) == errc::invalid_argument);
    shaped.shape = {~std::uint64_t{0}, 4};
    CHECK(refuse({.key = {}, .tags = {}, .cells = {shaped}}) == errc::invalid_argument);
    shaped.shape.assign(rank_max + 1, 1);
    CHECK(refuse({.key = {}, .tags = {}, .cells = {shaped}}) == errc::invalid_argument);
    shaped = scalar_cell("a", value);
    shaped.type = static_cast<dtype>(99);
    CHECK(refuse({.key = {}, .tags = {}, .cells = {shaped}}) == errc::invalid_argument);
    CHECK(
        refuse(
            {.key = {}, .tags = {}, .cells = {scalar_cell("a", value), scalar_cell("a", value)}}) ==
        errc::already_exists);
    CHECK(refuse({.key = {}, .tags = {}, .cells = {scalar_cell("", value)}}) ==
          errc::invalid_argument);
    CHECK(refuse({.key = std::string(key_bytes_max + 1, 'k'), .tags = {}, .cells = {}}) ==
          errc::invalid_argument);
    CHECK(refuse({.key = {}, .tags = {{"", std::int64_t{1}}}, .cells = {}}) ==
          errc::invalid_argument);
  }

  TEST_CASE("keys are unique within a partition, and free again when their row is gone") {
    store plane;
    const sample some = make_sample(1);
    const std::vector<row_input> one = {row_of(some, 1, "g1/s0")};
    const std::vector<row_input> twice = {row_of(some, 1, "g2/s0"), row_of(some, 1, "g2/s0")};
    const auto ids = plane.put(rollouts, one);
    CHECK(plane.stage(rollouts, one).error().code == errc::already_exists);
    CHECK(plane.stage(rollouts, twice).error().code == errc::already_exists);
    CHECK(plane.put("others", one).has_value());
    CHECK(plane.find_key(rollouts, "g1/s0") == ids->front());
    REQUIRE(plane.clear(rollouts, *ids).has_value());
    CHECK_FALSE(plane.find_key(rollouts, "g1/s0").has_value());
    CHECK(plane.put(rollouts, one)->front() != ids->front());
    plane.check_invariants();
  }

  TEST_CASE("states are checked for all rows before any of them changes") {
    store plane;
    const auto staged = stage_seeds(plane, {1, 2});
    const auto done = put_seeds(plane, {3});
    const std::vector<row_id> mixed = {staged[0], done[0]};
    const std::vector<row_id> missing = {staged[0], row_id(99)};
    const std::vector<row_id> twice = {staged[0], staged[0]};
    CHECK(code_of(plane.commit(rollouts, mixed)) == errc::conflict);
    CHECK(code_of(plane.commit(rollouts, missing)) == errc::not_found);
    CHECK(code_of(plane.commit(rollouts, twice)) == errc::invalid_argument);
    CHECK(code_of(plane.clear(rollouts, mixed)) == errc::conflict);
    CHECK(code_of(plane.drop_staged(rollouts, mixed)) == errc::conflict);
    CHECK(code_of(plane.commit("nowhere", staged)) == errc::not_found);
    CHECK(plane.stat().staged_rows == 2);
    CHECK(plane.stat().committed_rows == 1);
    REQUIRE(plane.drop_staged(rollouts, staged).has_value());
    REQUIRE(plane.clear(rollouts, done).has_value());
    CHECK(code_of(plane.clear(rollouts, done)) == errc::not_found);
    CHECK(plane.stat().live_bytes == 0);
    plane.check_invariants();
  }

  TEST_CASE("a patch adds fields and sets tags, and never replaces a value") {
    store plane;
    const auto ids = put_seeds(plane, {1, 2});
    const std::vector<float> advantages = {0.5F, -0.5F};
    const auto patch_of = [&](std::size_t at) {
      return row_patch{.row = ids[at],
                       .tags = {{"group", std::int64_t{9}}},
                       .cells = {scalar_cell("advantage", advantages[at])}};
    };
    const std::vector<row_patch> patches = {patch_of(1), patch_of(0)};
    REQUIRE(plane.patch(rollouts, patches).has_value());
    const std::vector<std::string> fields = {"advantage"};
    const auto got = plane.get(rollouts, ids, fields);
    CHECK(got->columns[0].values<float>(0)[0] == 0.5F);
    CHECK(got->columns[0].values<float>(1)[0] == -0.5F);
    CHECK(plane
              .query(rollouts, {.tags = {tag_equals("group", std::int64_t{9})},
                                .produced = {"advantage"},
                                .available_to = {}})
              ->size() == 2);
    CHECK(code_of(plane.patch(rollouts, patches)) == errc::already_exists);
    check_seeds(plane, ids, {1, 2});
    plane.check_invariants();
  }

  TEST_CASE("a field that a row was not given is an error that names both") {
    store plane;
    const auto ids = put_seeds(plane, {1});
    const std::vector<std::string> fields = {"advantage"};
    CHECK(plane.get(rollouts, ids, fields).error().text ==
          "partition \"rollouts\", row 1: field \"advantage\" was not produced");
  }

  TEST_CASE("queries match tags by type and range, in the order of the rows") {
    store plane;
    const auto ids = put_seeds(plane, {5, 1, 3, 8});
    const auto find = [&](tag_range range) {
      return *plane.query(rollouts,
                          {.tags = {std::move(range)}, .produced = {}, .available_to = {}});
    };
    CHECK(find(tag_equals("group", std::int64_t{3})) == std::vector{ids[2]});
    CHECK(find({"group", std::int64_t{3}, std::int64_t{8}}) == std::vector{ids[0], ids[2], ids[3]});
    CHECK(find(tag_equals("group", 3.0)).empty());
    CHECK(find(tag_equals("unknown", std::int64_t{3})).empty());
    CHECK(plane.query(rollouts, {.tags = {}, .produced = {}, .available_to = {}, .rows_max = 2})
              ->size() == 2);
    CHECK(
        plane.query(rollouts, {.tags = {}, .produced = {"nothing"}, .available_to = {}})->empty());
    CHECK(plane.query("nowhere", {}).error().code == errc::not_found);
  }

  TEST_CASE("consumers claim, acknowledge and release, each for itself") {
    store plane;
    const auto ids = put_seeds(plane, {1, 2, 3});
    const std::vector<row_id> first = {ids[0], ids[1]};
    const row_query available{.tags = {}, .produced = {}, .available_to = "trainer"};
    REQUIRE(plane.claim(rollouts, "trainer", first).has_value());
    CHECK(code_of(plane.claim(rollouts, "trainer", ids)) == errc::conflict);
    CHECK(*plane.query(rollouts, available) == std::vector{ids[2]});
    CHECK(plane.claim(rollouts, "critic", ids).has_value());
    CHECK(plane.stat().claims == 5);
    REQUIRE(plane.acknowledge(rollouts, "trainer", std::span(first).first(1)).has_value());
    CHECK(code_of(plane.release(rollouts, "trainer", first)) == errc::conflict);
    REQUIRE(plane.release(rollouts, "trainer", std::span(first).last(1)).has_value());
    CHECK(*plane.query(rollouts, available) == std::vector{ids[1], ids[2]});
    CHECK(*plane.release_all(rollouts, "critic") == 3);
    CHECK(*plane.release_all(rollouts, "nobody") == 0);
    CHECK(plane.stat().claims == 0);
    CHECK(plane.describe(rollouts, ids[0])->consumers ==
          std::vector{std::pair(std::string("trainer"), consumer_state::consumed)});
    plane.check_invariants();
  }

  TEST_CASE("capacity is counted in bytes; priority passes the mark and is counted") {
    store plane({.segment_bytes = 4096, .capacity_bytes = 1200, .high_water_bytes = 1000});
    const std::vector<std::uint8_t> block(600, 1);
    const std::vector<row_input> rows = {
        {.key = {}, .tags = {}, .cells = {vector_cell<std::uint8_t>("blob", block)}}};
    const auto first = plane.put(rollouts, rows);
    REQUIRE(first.has_value());
    CHECK(plane.put(rollouts, rows).error().code == errc::exhausted);
    CHECK(plane.stat().stages_refused == 1);
    CHECK(plane.stat().live_bytes == 600);
    CHECK(plane.put(rollouts, rows, admission::priority).has_value());
    CHECK(plane.stat().stages_above_mark == 1);
    const std::vector<row_patch> patch = {
        {.row = first->front(), .tags = {}, .cells = {vector_cell<std::uint8_t>("more", block)}}};
    CHECK(code_of(plane.patch(rollouts, patch)) == errc::exhausted);
    REQUIRE(plane.clear(rollouts, *first).has_value());
    CHECK(plane.stage(rollouts, rows).error().code == errc::exhausted);
    plane.check_invariants();
  }

  TEST_CASE("a patch may use the room between the mark and the capacity") {
    store plane({.segment_bytes = 4096, .capacity_bytes = 1200, .high_water_bytes = 700});
    const std::vector<std::uint8_t> block(600, 1);
    const std::vector<row_input> rows = {
        {.key = {}, .tags = {}, .cells = {vector_cell<std::uint8_t>("blob", block)}}};
    const auto ids = plane.put(rollouts, rows);
    const std::vector<row_patch> patch = {
        {.row = ids->front(), .tags = {}, .cells = {vector_cell<std::uint8_t>("more", block)}}};
    CHECK(plane.patch(rollouts, patch).has_value());
  }

  TEST_CASE("rows spread over segments, large ones get their own, and memory comes back") {
    store plane({.segment_bytes = 256});
    std::vector<int> seeds(60);
    std::iota(seeds.begin(), seeds.end(), 0);
    auto ids = put_seeds(plane, seeds);
    CHECK(plane.stat().segments > 4);
    check_seeds(plane, ids, seeds);
    const std::vector<std::int32_t> large(1000, 5);
    const std::vector<row_input> rows = {
        {.key = {}, .tags = {}, .cells = {vector_cell<std::int32_t>("tokens", large)}}};
    const auto own = plane.put(rollouts, rows);
    CHECK(plane.describe(rollouts, own->front())->fields[0].shape ==
          std::vector<std::uint64_t>{1000});
    plane.check_invariants();

    const row_id kept = ids.back();
    ids.pop_back();
    REQUIRE(plane.clear(rollouts, ids).has_value());
    REQUIRE(plane.clear(rollouts, *own).has_value());
    CHECK(plane.stat().segments == 1);
    CHECK(plane.stat().segment_bytes == 256);
    check_seeds(plane, {kept}, {59});
    plane.check_invariants();
  }

  TEST_CASE("values without bytes take no memory and come back with their shape") {
    store plane;
    const std::vector<std::int32_t> nothing;
    cell_input flat = vector_cell<std::int32_t>("tokens", nothing);
    flat.shape = {0, 3};
    const std::vector<row_input> rows = {{.key = {}, .tags = {}, .cells = {flat}}};
    const auto ids = plane.put(rollouts, rows);
    CHECK(plane.stat().segments == 0);
    const std::vector<std::string> fields = {"tokens"};
    const auto got = plane.get(rollouts, *ids, fields);
    CHECK(got->columns[0].bytes.empty());
    CHECK(got->columns[0].shape(0)[1] == 3);
    REQUIRE(plane.clear(rollouts, *ids).has_value());
    plane.check_invariants();
  }

  TEST_CASE("empty calls succeed and change nothing visible") {
    store plane;
    put_seeds(plane, {1});
    CHECK(plane.stage(rollouts, {})->empty());
    CHECK(plane.commit(rollouts, {}).has_value());
    CHECK(plane.clear(rollouts, {}).has_value());
    CHECK(plane.get(rollouts, {}, both)->columns[0].bytes.empty());
    plane.check_invariants();
  }
}
