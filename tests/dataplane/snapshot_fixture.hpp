/// What the tests of snapshots on disk share: a store with everything in it, written to a disk in
/// memory, and the values of one snapshot to be compared with another's.
#pragma once

#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weir::dataplane::fixture {

using weir::test::crash_disk;

inline const epoch_id epoch{3, 1, 7};
inline const std::string bundle_directory = "/bundle";

/// @pre it can be read
inline snapshot read_from(disk& storage) {
  auto state = read_snapshot(storage, bundle_directory, epoch);
  if (!state) FAIL(to_string(state.error()));
  return *state;
}

inline std::vector<finished_section> write_to(disk& storage, const snapshot& state,
                                              const write_pace& pace = {}) {
  REQUIRE(storage.make_directory(bundle_directory).has_value());
  auto written = write_snapshot(storage, bundle_directory, epoch, state, pace);
  REQUIRE(written.has_value());
  return *written;
}

/// Tokens that compress, noise that does not, flags, tags of each kind, staged rows, consumers, a
/// patch out of order, holes where rows were cleared.
inline void fill(store& plane, std::uint64_t seed, int rows) {
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
    const std::int32_t index = at;
    const row_input row{
        .key = at % 3 == 0 ? "key" + std::to_string(at) : "",
        .tags = {{"group", std::int64_t{at / 4}},
                 {"score", static_cast<double>(at) / 3},
                 {"task", std::string(at % 5 == 0 ? "" : "arithmetic")}},
        .cells = {vector_cell<std::int32_t>("tokens", tokens), vector_cell<float>("noise", noise),
                  vector_cell<std::int64_t>("versions", versions), scalar_cell("index", index)}};
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

using file_map = std::map<std::string, std::vector<std::byte>>;

/// All of a store, payload included, as one comparable value.
inline std::string describe_all(const snapshot& state) {
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

inline void check_equal(const snapshot& one, const snapshot& two) {
  CHECK(one.sequence() == two.sequence());
  CHECK(one.live_bytes() == two.live_bytes());
  CHECK(one.inventory() == two.inventory());
  CHECK(describe_all(one) == describe_all(two));
  CHECK(one.state().next_row == two.state().next_row);
  CHECK(one.state().next_segment == two.state().next_segment);
}

inline file_map files_of(crash_disk& storage, const std::vector<finished_section>& all) {
  file_map files;
  for (const finished_section& section : all) {
    auto bytes = read_file(storage, join(bundle_directory, section.file.path), 1 << 30);
    REQUIRE(bytes.has_value());
    files.emplace(section.file.path, std::move(*bytes));
  }
  return files;
}

/// A disk with these files and nothing else.
inline result<snapshot> read_files(const file_map& files) {
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

} // namespace weir::dataplane::fixture
