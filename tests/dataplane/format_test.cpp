/// Bundles of every format that was ever written can be read. One of each version is committed
/// below bundles/; what a new version adds gets a bundle of its own, and none is ever changed.
///
/// To write the next: raise `newest`, run the skipped case with `-ns`, commit what it made.
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr int newest = 2;

std::string bundles_directory() {
  const char* root = std::getenv("WEIR_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/tests/dataplane/bundles";
}

/// What every version can hold: two partitions, jagged fields of all sizes that shuffle or not,
/// tags of each kind, keys, staged rows, consumers, a value without bytes.
void fill_version_1(store& plane) {
  for (std::int32_t at = 0; at < 12; ++at) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(at % 5) * 100, 7 * at);
    const std::vector<std::int64_t> versions(static_cast<std::size_t>(at % 3), at);
    const std::vector<std::uint8_t> text(3, static_cast<std::uint8_t>('a' + at));
    const row_input row{.key = at % 2 == 0 ? "key" + std::to_string(at) : "",
                        .tags = {{"group", std::int64_t{at / 4}},
                                 {"score", at / 8.0},
                                 {"task", std::string("arithmetic")}},
                        .cells = {vector_cell<std::int32_t>("tokens", tokens),
                                  vector_cell<std::int64_t>("versions", versions),
                                  vector_cell<std::uint8_t>("text", text), scalar_cell("at", at)}};
    const std::string partition = at % 6 == 5 ? "other" : "rollouts";
    const auto staged = plane.stage(partition, std::span(&row, 1));
    REQUIRE(staged.has_value());
    if (at < 10) REQUIRE(plane.commit(partition, *staged).has_value());
    if (at == 1 || at == 2) REQUIRE(plane.claim("rollouts", "trainer", *staged).has_value());
    if (at == 2) REQUIRE(plane.acknowledge("rollouts", "trainer", *staged).has_value());
    if (at == 3) REQUIRE(plane.clear("rollouts", *staged).has_value());
  }
}

/// What version 2 adds: texts and bytes, empty ones too.
void fill_version_2(store& plane) {
  for (int at = 0; at < 5; ++at) {
    std::string text;
    for (int letter = 0; letter < 40 * at; ++letter)
      text += "w\xc3\xa9ir"; // UTF-8 of two bytes in the middle.
    const std::vector<std::byte> blob(static_cast<std::size_t>(at) * 100, std::byte{0xff});
    const row_input row{.key = "note" + std::to_string(at),
                        .tags = {{"group", std::int64_t{at}}},
                        .cells = {text_cell("text", text), bytes_cell("blob", blob)}};
    REQUIRE(plane.put("notes", std::span(&row, 1)).has_value());
  }
}

/// What the bundle of a version holds.
void fill_version(int version, store& plane) {
  fill_version_1(plane);
  if (version >= 2) fill_version_2(plane);
}

} // namespace

TEST_SUITE("dataplane/format") {
  TEST_CASE("a bundle of every version is sound and holds what was written") {
    const auto storage = make_posix_disk();
    for (int version = 1; version <= newest; ++version) {
      CAPTURE(version);
      const std::string directory = bundles_directory() + "/version_" + std::to_string(version);
      for (const auto& problem : verify_bundle(*storage, directory + "/step_7"))
        FAIL_CHECK(to_string(problem.reason));
      const auto found = open_bundle(*storage, directory, {7, 0});
      REQUIRE(found.has_value());
      const auto read = read_snapshot(*storage, directory + "/step_7", found->content.epoch);
      if (!read) FAIL(to_string(read.error()));
      read->state().check_invariants();
      store expected;
      fill_version(version, expected);
      CHECK(read->inventory() == expected.capture().inventory());
      CHECK(fixture::describe_all(*read) == fixture::describe_all(expected.capture()));
    }
  }

  TEST_CASE("writes the bundle of the newest version" * doctest::skip()) {
    const auto storage = make_posix_disk();
    const std::string directory = bundles_directory() + "/version_" + std::to_string(newest);
    REQUIRE(storage->make_directory(directory).has_value());
    auto writer = bundle_writer::begin(*storage, directory, fixture::epoch);
    REQUIRE(writer.has_value());
    store plane;
    fill_version(newest, plane);
    auto sections = write_snapshot(*storage, writer->directory(), fixture::epoch, plane.capture());
    REQUIRE(sections.has_value());
    for (finished_section& section : *sections)
      REQUIRE(writer->add(std::move(section)).has_value());
    REQUIRE(writer->publish(test::publication_of(7, "format")).has_value());
    REQUIRE(storage->unlink(directory + "/latest").has_value());
  }
}

} // namespace weir::dataplane
