/// Snapshots to disk and back: equality, the plain LZ4 decoder, damage at every bit, every prefix.
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>
#include <lz4frame.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;
using weir::test::crash_disk;

namespace {

const epoch_id epoch{3, 1, 7};
const std::string bundle_directory = "/bundle";

/// @pre it can be read
snapshot read_from(disk& storage) {
  auto state = read_snapshot(storage, bundle_directory, epoch);
  if (!state)
    FAIL(to_string(state.error()));
  return *state;
}

std::vector<finished_section> write_to(disk& storage, const snapshot& state,
                                       const write_pace& pace = {}) {
  REQUIRE(storage.make_directory(bundle_directory).has_value());
  auto written = write_snapshot(storage, bundle_directory, epoch, state, pace);
  REQUIRE(written.has_value());
  return *written;
}

/// Tokens that compress, noise that does not, flags, tags of each kind, staged rows, consumers, a
/// patch out of order, holes where rows were cleared.
void fill(store& plane, std::uint64_t seed, int rows) {
  std::mt19937_64 random(seed);
  std::vector<row_id> ids;
  for (int at = 0; at < rows; ++at) {
    std::vector<std::int32_t> tokens(random() % 40);
    std::vector<std::int64_t> versions(tokens.size(), static_cast<std::int64_t>(random() % 4));
    std::vector<float> noise(random() % 30);
    for (auto& token : tokens)
      token = static_cast<std::int32_t>(random() % 300);
    for (auto& one : noise)
      one = static_cast<float>(random()) * 1e-9F;
    const row_input row{.key = at % 3 == 0 ? "key" + std::to_string(at) : "",
                        .tags = {{"group", std::int64_t{at / 4}},
                                 {"score", static_cast<double>(at) / 3},
                                 {"task", std::string(at % 5 == 0 ? "" : "arithmetic")}},
                        .cells = {vector_cell<std::int32_t>("tokens", tokens),
                                  vector_cell<float>("noise", noise),
                                  vector_cell<std::int64_t>("versions", versions),
                                  scalar_cell("index", std::int32_t{at})}};
    const auto staged = plane.stage(at % 7 == 6 ? "other" : "rollouts", std::span(&row, 1));
    REQUIRE(staged.has_value());
    if (at % 7 == 6) continue;
    if (at % 5 != 4) REQUIRE(plane.commit("rollouts", *staged).has_value());
    if (at % 5 < 3) ids.push_back(staged->front());
  }
  for (std::size_t at = ids.size(); at-- > 0;) {
    const float advantage = static_cast<float>(at) / 8;
    const std::vector<row_patch> patch = {
        {.row = ids[at], .tags = {}, .cells = {scalar_cell("advantage", advantage)}}};
    REQUIRE(plane.patch("rollouts", patch).has_value());
  }
  for (std::size_t at = 0; at < ids.size(); ++at) {
    if (at % 4 == 1)
      REQUIRE(plane.claim("rollouts", "trainer", std::span(&ids[at], 1)).has_value());
    if (at % 8 == 1)
      REQUIRE(plane.acknowledge("rollouts", "trainer", std::span(&ids[at], 1)).has_value());
    if (at % 4 == 2) REQUIRE(plane.clear("rollouts", std::span(&ids[at], 1)).has_value());
  }
}

/// All of a store, payload included, as one comparable value.
std::string describe_all(const snapshot& state) {
  std::string text;
  const contents& all = state.state();
  all.partitions.for_each([&](std::uint64_t, const partition_state& partition) {
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      text += partition.schema->name + "/" + std::to_string(id) + ":";
      for (const cell& one : row.body->cells) {
        const field_info& field = partition.schema->fields[one.field];
        text += field.name + "=";
        if (one.bytes == 0) continue;
        const auto bytes = all.segments.find(one.segment)->memory->bytes(one.offset, one.bytes);
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    });
  });
  return text;
}

void check_equal(const snapshot& one, const snapshot& two) {
  CHECK(one.sequence() == two.sequence());
  CHECK(one.live_bytes() == two.live_bytes());
  CHECK(one.inventory() == two.inventory());
  CHECK(describe_all(one) == describe_all(two));
  CHECK(one.state().next_row == two.state().next_row);
  CHECK(one.state().next_segment == two.state().next_segment);
}

std::map<std::string, std::vector<std::byte>> files_of(crash_disk& storage,
                                                       const std::vector<finished_section>& all) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const finished_section& section : all) {
    auto bytes = read_file(storage, join(bundle_directory, section.file.path), 1 << 30);
    REQUIRE(bytes.has_value());
    files.emplace(section.file.path, std::move(*bytes));
  }
  return files;
}

/// A disk with these files and nothing else.
result<snapshot> read_files(const std::map<std::string, std::vector<std::byte>>& files) {
  crash_disk storage;
  for (const char* folder : {"/bundle", "/bundle/data_plane", "/bundle/data_plane/segments"})
    REQUIRE(storage.make_directory(folder).has_value());
  for (const auto& [path, bytes] : files) {
    auto made = storage.create(join(bundle_directory, path));
    REQUIRE(made.has_value());
    REQUIRE((*made)->append(bytes).has_value());
  }
  return read_snapshot(storage, bundle_directory, epoch);
}

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

  TEST_CASE("every flipped bit is refused, with the file's name") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    const auto sections = write_to(storage, plane.capture());
    REQUIRE(sections.size() >= 3);
    for (const finished_section& section : sections)
      for (std::size_t byte = 0; byte < section.file.bytes; ++byte)
        for (unsigned bit = 0; bit < 8; ++bit) {
          storage.damage(join(bundle_directory, section.file.path), byte, bit);
          const auto read = read_snapshot(storage, bundle_directory, epoch);
          storage.damage(join(bundle_directory, section.file.path), byte, bit);
          if (!read.has_value() && read.error().code == errc::corrupt &&
              read.error().text.find(section.file.path) != std::string::npos)
            continue;
          CAPTURE(section.file.path);
          CAPTURE(byte);
          FAIL_CHECK("a flipped bit was not seen: " << (read ? std::string("accepted")
                                                             : to_string(read.error())));
        }
    CHECK(read_snapshot(storage, bundle_directory, epoch).has_value());
  }

  TEST_CASE("every prefix, every extension and every missing file is refused") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    const auto files = files_of(storage, write_to(storage, plane.capture()));
    CHECK(read_files(files).has_value());
    for (const auto& [path, bytes] : files) {
      auto changed = files;
      std::vector<std::byte>& cut = changed.at(path);
      cut.push_back(std::byte{0});
      CHECK_FALSE(read_files(changed).has_value());
      cut.pop_back();
      while (!cut.empty()) {
        cut.pop_back();
        const auto read = read_files(changed);
        if (!read.has_value() && read.error().code == errc::corrupt) continue;
        CAPTURE(path);
        CAPTURE(cut.size());
        FAIL_CHECK("a truncated file was accepted");
      }
      changed.erase(path);
      CHECK(read_files(changed).error().code == errc::not_found);
    }
  }

  TEST_CASE("two segments that changed places are refused") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    auto files = files_of(storage, write_to(storage, plane.capture()));
    std::swap(files.at(segment_path(1)), files.at(segment_path(2)));
    CHECK(read_files(files).error().code == errc::corrupt);
  }
}
