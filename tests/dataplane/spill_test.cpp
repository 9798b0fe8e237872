/// Cold segments on disk: read as before, room given back, and a disk that fails costs no row.
#include "dataplane/posix_disk.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/spill_area.hpp"
#include "dataplane/store.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"
#include "tests/support/forwarding_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

const std::vector<std::string> field = {"value"};
constexpr std::uint64_t segment_bytes = 8192;
/// Two rows fill a segment.
constexpr std::size_t row_values = 1024;

/// The call of a spill that fails, and how.
enum class step : std::uint8_t { none, create, unlink, append, sync, map, close };

class failing_file final : public test::forwarding_file {
public:
  failing_file(std::unique_ptr<file> inner, const step& fails)
      : forwarding_file(std::move(inner)), fails_(fails) {}
  result<void> append(std::span<const std::byte> bytes) override {
    if (fails_ == step::append) return failure(errc::no_space, "the disk is full");
    return forwarding_file::append(bytes);
  }
  result<void> sync() override {
    if (fails_ == step::sync) return failure(errc::io_failed, "the disk is broken");
    return {}; // What is unsynced is lost with the machine only: no test waits for it.
  }
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override {
    if (fails_ == step::map) return failure(errc::unsupported, "the disk maps nothing");
    return forwarding_file::map(bytes);
  }
  result<void> close() override {
    auto closed = forwarding_file::close();
    if (fails_ == step::close) return failure(errc::io_failed, "the disk is broken");
    return closed;
  }

private:
  const step& fails_;
};

class failing_disk final : public test::forwarding_disk {
public:
  using forwarding_disk::forwarding_disk;
  file_result create(const std::string& path) override {
    ++files;
    if (fails == step::create) return failure(errc::no_space, "the disk is full");
    auto made = forwarding_disk::create(path);
    if (!made) return made;
    return std::make_unique<failing_file>(std::move(*made), fails);
  }
  result<void> unlink(const std::string& path) override {
    if (fails == step::unlink) return failure(errc::io_failed, "the disk is broken");
    return forwarding_disk::unlink(path);
  }
  step fails = step::none;
  std::uint64_t files = 0;
};

/// A store that has memory for four segments, and a folder for `spill_bytes`.
struct spilling_store {
  explicit spilling_store(std::uint64_t spill_bytes = 1U << 20U) {
    auto opened = spill_area::open(storage, directory.file("spill"), spill_bytes);
    REQUIRE(opened.has_value());
    area = *opened;
    plane = std::make_unique<store>(store_options{
        .segment_bytes = segment_bytes,
        .capacity_bytes = 4 * segment_bytes,
        .high_water_bytes = 4 * segment_bytes,
        .spill = area,
        .spill_failed = [this](const error& why) { told.push_back(why); },
    });
  }

  result<row_id> try_put(std::int32_t number) {
    const std::vector<std::int32_t> values(row_values, number);
    const row_input row{
        .key = {}, .tags = {}, .cells = {vector_cell<std::int32_t>("value", values)}};
    auto ids = plane->put("p", std::span(&row, 1));
    if (!ids) return failure(std::move(ids.error()));
    rows.push_back(ids->front());
    return ids->front();
  }
  void put(std::int32_t first, std::int32_t last) {
    for (std::int32_t number = first; number <= last; ++number)
      REQUIRE(try_put(number).has_value());
  }
  [[nodiscard]] std::int32_t value_of(row_id row) const {
    const auto got = plane->get("p", std::span(&row, 1), field);
    REQUIRE(got.has_value());
    const auto values = got->columns[0].values<std::int32_t>();
    CHECK(values.size() == row_values);
    CHECK(values.front() == values.back());
    return values.front();
  }
  /// Rows 0, 1, 2, ... have the values 0, 1, 2, ...
  void check_values() const {
    for (std::size_t at = 0; at < rows.size(); ++at)
      CHECK(value_of(rows[at]) == static_cast<std::int32_t>(at));
    plane->check_invariants();
  }
  [[nodiscard]] std::vector<std::string> names() {
    std::vector<std::string> found;
    const auto entries = storage.list(directory.file("spill"));
    REQUIRE(entries.has_value());
    for (const directory_entry& entry : *entries)
      found.push_back(entry.name);
    return found;
  }

  test::temp_dir directory;
  std::unique_ptr<disk> posix = make_posix_disk();
  failing_disk storage{*posix};
  std::shared_ptr<spill_area> area;
  std::unique_ptr<store> plane;
  std::vector<row_id> rows;
  std::vector<error> told;
};

} // namespace

TEST_SUITE("dataplane/spill") {
  TEST_CASE("what memory has no room for goes to disk, coldest first, and is read as before") {
    spilling_store one;
    one.put(0, 31);
    const store_stat stat = one.plane->stat();
    CHECK(stat.committed_rows == 32);
    CHECK(stat.segments == 16);
    CHECK(stat.spilled_segments == 12);
    CHECK(stat.spilled_bytes == 12 * segment_bytes);
    CHECK(stat.segment_bytes == 4 * segment_bytes);
    CHECK(one.area->used_bytes() == stat.spilled_bytes);
    CHECK(one.names().empty());
    CHECK(one.told.empty());
    one.check_values();
  }

  TEST_CASE("a segment that was read lately stays in memory") {
    spilling_store one;
    one.put(0, 7);
    // The order of touching is that of changes.
    REQUIRE(one.plane->claim("p", "trainer", std::span(one.rows).first(1)).has_value());
    CHECK(one.value_of(one.rows[0]) == 0);
    one.put(8, 9);
    std::vector<std::uint64_t> spilled;
    const snapshot state = one.plane->capture();
    state.state().segments.for_each([&](std::uint64_t id, const segment_entry& entry) {
      if (entry.memory->on_disk()) spilled.push_back(id);
    });
    CHECK(spilled == std::vector<std::uint64_t>{2});
  }

  TEST_CASE("room on disk comes back with the last holder of a segment") {
    spilling_store one;
    one.put(0, 31);
    auto batch = one.plane->get("p", std::span(one.rows).first(2), field);
    REQUIRE(batch.has_value());
    CHECK(batch->columns[0].zero_copy);
    REQUIRE(one.plane->clear("p", one.rows).has_value());
    CHECK(one.area->used_bytes() == segment_bytes);
    CHECK(batch->columns[0].values<std::int32_t>(1).back() == 1);
    batch = {};
    CHECK(one.area->used_bytes() == 0);
    one.plane.reset();
    CHECK(one.area->room_bytes() == one.area->bytes_max());
  }

  TEST_CASE("snapshots and compaction read spilled segments") {
    spilling_store one;
    one.put(0, 31);
    const snapshot before = one.plane->capture();
    test::crash_disk disk;
    fixture::write_to(disk, before);
    fixture::check_equal(fixture::read_from(disk), before);
    // Of every second segment's rows one is left, of the others none: all the room comes back.
    std::vector<row_id> dead;
    for (std::size_t at = 0; at < one.rows.size(); ++at)
      if (at % 4 != 0) dead.push_back(one.rows[at]);
    REQUIRE(one.plane->clear("p", dead).has_value());
    store half({.segment_bytes = segment_bytes});
    half.restore(one.plane->capture());
    one.plane->check_invariants();
    for (std::size_t at = 0; at < one.rows.size(); at += 4) {
      CHECK(one.value_of(one.rows[at]) == static_cast<std::int32_t>(at));
      const auto same = half.get("p", std::span(&one.rows[at], 1), field);
      REQUIRE(same.has_value());
      CHECK(same->columns[0].values<std::int32_t>().front() == static_cast<std::int32_t>(at));
    }
  }

  TEST_CASE("a full area is an answer: wait until rows are cleared") {
    spilling_store one(2 * segment_bytes);
    one.put(0, 11);
    const auto refused = one.try_put(12);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::exhausted);
    CHECK(one.plane->stat().spills_failed == 0);
    CHECK(one.told.empty());
    REQUIRE(one.plane->clear("p", std::span(one.rows).first(2)).has_value());
    one.put(12, 13);
    CHECK(one.plane->stat().spilled_segments == 2);
  }

  TEST_CASE("a disk that fails at any call costs no row: counted, told, tried again later") {
    for (const step fails :
         {step::create, step::unlink, step::append, step::sync, step::map, step::close}) {
      CAPTURE(static_cast<int>(fails));
      spilling_store one;
      one.put(0, 7);
      one.storage.fails = fails;
      CHECK(one.try_put(8).error().code == errc::exhausted);
      REQUIRE(one.told.size() == 1);
      CHECK(one.told[0].text.starts_with("the disk "));
      CHECK(one.plane->stat().spills_failed == 1);
      CHECK(one.plane->stat().spilled_segments == 0);
      CHECK(one.area->used_bytes() == 0);
      one.check_values();
      // Not again at once, and ever more seldom.
      for (int tries = 0; tries < 100; ++tries)
        CHECK_FALSE(one.try_put(8).has_value());
      CHECK(one.told.size() == 7); // After 0, 1, 2, 4, 8, 16 and 32 more calls.
      one.storage.fails = step::none;
      bool room = false;
      for (int tries = 0; tries < 100 && !room; ++tries)
        room = one.try_put(8).has_value();
      CHECK(room);
      one.check_values();
    }
  }

  TEST_CASE("what an earlier life left is removed at the start, and nothing else") {
    const test::temp_dir directory;
    for (const char* name : {"spill-1", "spill-77", "notes"})
      std::ofstream(directory.file(name)) << "left";
    std::filesystem::create_directory(directory.file("spill-folder"));
    const auto storage = make_posix_disk();
    REQUIRE(spill_area::open(*storage, directory.path().string(), 1000).has_value());
    const auto left = storage->list(directory.path().string());
    REQUIRE(left.has_value());
    REQUIRE(left->size() == 2);
    CHECK((*left)[0].name == "notes");
    CHECK((*left)[1].name == "spill-folder");
  }

  TEST_CASE("two runs share a folder: a name that is taken is passed over") {
    spilling_store one;
    std::ofstream(one.directory.file("spill/spill-1")) << "of another process, just now";
    one.put(0, 9);
    CHECK(one.plane->stat().spilled_segments == 1);
    CHECK(one.names() == std::vector<std::string>{"spill-1"});
    one.check_values();
  }

  TEST_CASE("a disk that cannot map files refuses, and leaves nothing") {
    test::crash_disk disk;
    const auto area = spill_area::open(disk, "/spill", 1U << 20U);
    REQUIRE(area.has_value());
    const auto memory = segment::allocate(100);
    memory->writable(0, 100).front() = std::byte{1};
    const auto moved = (*area)->spill(*memory);
    REQUIRE_FALSE(moved.has_value());
    CHECK(moved.error().code == errc::unsupported);
    CHECK(disk.list("/spill")->empty());
    CHECK((*area)->used_bytes() == 0);
  }
}
