/// Snapshots to disk and back: equality, the plain LZ4 decoder, a store that changes meanwhile.
#include "tests/dataplane/snapshot_fixture.hpp"

#include <doctest/doctest.h>
#include <lz4frame.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;
using namespace weir::dataplane::fixture;

namespace {

/// What the plain LZ4 tool makes of a file.
std::size_t plain_lz4_bytes(const std::vector<std::byte>& file) {
  LZ4F_dctx* context = nullptr;
  REQUIRE(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) == 0);
  std::vector<std::byte> out(1 << 20);
  std::size_t total = 0;
  std::size_t at = 0;
  std::size_t hint = 0;
  while (at < file.size()) {
    std::size_t in = file.size() - at;
    std::size_t made = out.size();
    hint = LZ4F_decompress(context, out.data(), &made, file.data() + at, &in, nullptr);
    REQUIRE(LZ4F_isError(hint) == 0);
    at += in;
    total += made;
  }
  CHECK(hint == 0);
  LZ4F_freeDecompressionContext(context);
  return total;
}

} // namespace

TEST_SUITE("dataplane/snapshot_file") {
  TEST_CASE("what was written is read again, value by value") {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      store plane({.segment_bytes = 1024 + seed * 3000});
      fill(plane, seed, 120);
      plane.check_invariants();
      const snapshot state = plane.capture();
      crash_disk storage;
      const auto sections = write_to(storage, state);
      CHECK(sections.size() == plane.stat().segments + 1);
      const snapshot again = read_from(storage);
      again.state().check_invariants();
      check_equal(again, state);
    }
  }

  TEST_CASE("a snapshot of the committed rows has nothing of the staged ones") {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      store plane({.segment_bytes = 1024 + seed * 3000});
      fill(plane, seed, 120);
      const snapshot state = plane.capture();
      const std::string before = describe_all(state);
      const snapshot kept = state.committed();
      kept.state().check_invariants();
      CHECK(kept.state().staged_rows == 0);
      CHECK(kept.state().committed_rows == state.state().committed_rows);
      CHECK(kept.state().next_row == state.state().next_row);
      for (const partition_inventory& partition : kept.inventory())
        for (const row_summary& row : partition.rows)
          CHECK(row.state == row_state::committed);
      CHECK(describe_all(state) == before); // The original is as it was.
      crash_disk storage;
      write_to(storage, kept);
      check_equal(read_from(storage), kept);
    }
  }

  TEST_CASE("an empty store is written and read") {
    crash_disk storage;
    CHECK(write_to(storage, snapshot()).size() == 1);
    const snapshot again = read_from(storage);
    CHECK(again.inventory().empty());
  }

  TEST_CASE("a snapshot is what the store was, whatever the store does while it is written") {
    store plane({.segment_bytes = 2048});
    fill(plane, 1, 80);
    const snapshot state = plane.capture();
    const std::string before = describe_all(state);
    crash_disk storage;
    std::uint64_t seed = 2;
    write_to(storage, state, [&](std::uint64_t bytes) -> result<void> {
      CHECK(bytes <= 4 * 1024 * 1024 + 64);
      const auto all = plane.query("rollouts", {});
      CHECK(plane.clear("rollouts", *all).has_value());
      std::vector<float> more(100, static_cast<float>(seed++));
      const row_input row{.key = {}, .tags = {}, .cells = {vector_cell<float>("noise", more)}};
      CHECK(plane.put("rollouts", std::span(&row, 1)).has_value());
      return {};
    });
    const snapshot again = read_from(storage);
    check_equal(again, state);
    CHECK(describe_all(again) == before);
    plane.check_invariants();
  }

  TEST_CASE("the pace stops the writing with its own error") {
    store plane;
    fill(plane, 1, 20);
    crash_disk storage;
    REQUIRE(storage.make_directory(bundle_directory).has_value());
    int left = 3;
    const auto written = write_snapshot(
        storage, bundle_directory, epoch, plane.capture(), [&](std::uint64_t) -> result<void> {
          return --left > 0 ? result<void>{} : failure(errc::cancelled, "the barrier was aborted");
        });
    REQUIRE_FALSE(written.has_value());
    CHECK(written.error().code == errc::cancelled);
    CHECK(left == 0);
  }

  TEST_CASE("the plain LZ4 decoder reads segments, and finds the live bytes in them") {
    store plane({.segment_bytes = 5000});
    fill(plane, 4, 100);
    crash_disk storage;
    const auto sections = write_to(storage, plane.capture());
    std::size_t bytes = 0;
    for (const auto& [path, file] : files_of(storage, sections))
      bytes += path == index_path() ? 0 : plain_lz4_bytes(file);
    CHECK(bytes == plane.stat().live_bytes);
  }

  TEST_CASE("columns larger than a chunk are written in several, and values may cross them") {
    store plane({.segment_bytes = 64 << 20});
    std::mt19937_64 random(5);
    std::vector<std::int32_t> tokens(1'500'000);
    for (auto& token : tokens)
      token = static_cast<std::int32_t>(random() % 1000);
    std::vector<float> noise(1'300'001);
    for (auto& one : noise)
      one = static_cast<float>(static_cast<std::int32_t>(random())) * 1e-7F;
    const row_input row{
        .key = {},
        .tags = {},
        .cells = {vector_cell<std::int32_t>("tokens", tokens), vector_cell<float>("noise", noise)}};
    const std::vector<row_input> rows = {row, row};
    const auto ids = plane.put("rollouts", rows);
    const snapshot state = plane.capture();
    crash_disk storage;
    const auto sections = write_to(storage, state);
    CHECK(sections.front().file.bytes < plane.stat().live_bytes * 9 / 10);
    const snapshot again = read_from(storage);
    CHECK(describe_all(again) == describe_all(state));
  }

  TEST_CASE("a store that was restored goes on with ids that nobody had") {
    store plane({.segment_bytes = 1024});
    fill(plane, 1, 40);
    crash_disk storage;
    const snapshot state = plane.capture();
    write_to(storage, state);
    const snapshot again = read_from(storage);
    store restored({.segment_bytes = 1024});
    fill(restored, 9, 100);
    const std::uint64_t last = restored.capture().state().next_row;
    restored.restore(again);
    restored.check_invariants();
    CHECK(restored.capture().inventory() == state.inventory());
    const std::int32_t value = 4;
    const row_input row{.key = "key0x", .tags = {}, .cells = {scalar_cell("index", value)}};
    CHECK(restored.put("rollouts", std::span(&row, 1))->front().value == last);
    CHECK(restored.find_key("rollouts", "key0") == plane.find_key("rollouts", "key0"));
    const auto all = restored.query("rollouts", {});
    REQUIRE(restored.clear("rollouts", *all).has_value());
    restored.check_invariants();
  }

  TEST_CASE("a snapshot of another cut is refused") {
    store plane;
    fill(plane, 1, 10);
    crash_disk storage;
    write_to(storage, plane.capture());
    const auto other = read_snapshot(storage, bundle_directory, epoch_id{3, 1, 8});
    REQUIRE_FALSE(other.has_value());
    CHECK(other.error().code == errc::corrupt);
    CHECK(other.error().text == "data_plane/index.fb: is of cut 3.1.7, the bundle of 3.1.8");
  }
}
