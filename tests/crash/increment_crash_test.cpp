/// Power loss while a bundle whose segments are linked from an older one is published, and the
/// older one retired: the old bundle or the new one is restored, with every value of its cut.
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir::test {

namespace {

using namespace dataplane;

/// Publishes the snapshot as the bundle of a step; returns what it came to.
struct published_increment {
  bundle published;
  std::shared_ptr<const snapshot_files> files;
};

result<published_increment> publish_increment(crash_disk& storage, std::uint64_t step,
                                              const snapshot& state,
                                              const std::optional<snapshot_base>& base) {
  auto writer = bundle_writer::begin(storage, crash_directory, crash_epoch(step));
  if (!writer) return failure(writer.error());
  auto written = write_increment(storage, writer->directory(), crash_epoch(step), state,
                                 {.pace = {}, .base = base});
  if (!written) {
    writer->discard();
    return failure(written.error());
  }
  for (finished_section& section : written->sections)
    if (auto added = writer->add(std::move(section)); !added) return failure(added.error());
  auto outcome = writer->publish(publication_of(step, "crash"));
  if (!outcome) return failure(outcome.error());
  return published_increment{std::move(outcome->published), written->files};
}

snapshot_base base_of(const published_increment& from) {
  return {join(crash_directory, to_string(from.published.name)), from.files};
}

/// The rows of the newest valid bundle, by key; empty without a bundle.
result<std::vector<std::string>> restored_keys(disk& storage) {
  const auto survey = survey_bundles(storage, crash_directory);
  if (!survey) return failure(survey.error());
  auto choice = newest_valid_bundle(storage, crash_directory, *survey);
  if (!choice) return failure(choice.error());
  std::vector<std::string> keys;
  if (!*choice) return keys;
  const bundle& chosen = (*choice)->chosen;
  auto loaded =
      load_snapshot(storage, join(crash_directory, to_string(chosen.name)), chosen.content);
  if (!loaded) return failure(loaded.error());
  for (const partition_inventory& partition : loaded->state.inventory())
    for (const row_summary& row : partition.rows)
      keys.push_back(row.key);
  return keys;
}

void put_row(store& plane, const std::string& key) {
  const std::vector<std::int32_t> values(8, 3);
  const row_input row{.key = key, .tags = {}, .cells = {vector_cell<std::int32_t>("v", values)}};
  REQUIRE(plane.put("p", std::span(&row, 1)).has_value());
}

using keys = std::vector<std::string>;

} // namespace

TEST_SUITE("crash/increment") {
  TEST_CASE("every state opens to the old bundle or to the one that links it, with all values") {
    crash_disk storage;
    REQUIRE(make_directories(storage, crash_directory));
    store plane;
    put_row(plane, "a");
    const snapshot first_state = plane.capture();
    put_row(plane, "b");
    const snapshot second_state = plane.capture();
    std::vector<keys> allowed{{}, {"a"}};
    std::uint64_t states = 0;
    std::uint64_t calls = 0;
    storage.after_change([&] {
      states += storage.for_each_crash_state(128, calls++, [&](crash_disk& state) {
        const auto found = restored_keys(state);
        if (!found) FAIL_CHECK(to_string(found.error()));
        if (found) CHECK(std::ranges::find(allowed, *found) != allowed.end());
      });
    });
    const auto first = publish_increment(storage, 1, first_state, std::nullopt);
    REQUIRE(first);
    allowed = {{"a"}, {"a", "b"}};
    const auto second = publish_increment(storage, 2, second_state, base_of(*first));
    REQUIRE(second);
    CHECK(second->files->links_since_whole == 1);
    allowed = {{"a", "b"}};
    const std::array names{first->published.name};
    REQUIRE(retire_bundles(storage, crash_directory, names));
    storage.after_change({});
    CHECK(restored_keys(storage) == keys{"a", "b"});
    CHECK(states > 500);
  }

  TEST_CASE("a fault at any call of a linked publish leaves the older bundle whole") {
    for (std::uint64_t n = 0; n < 200; ++n) {
      crash_disk storage;
      REQUIRE(make_directories(storage, crash_directory));
      store plane;
      put_row(plane, "a");
      const auto first = publish_increment(storage, 1, plane.capture(), std::nullopt);
      REQUIRE(first);
      put_row(plane, "b");
      const snapshot state = plane.capture();
      storage.plan({storage.calls() + n, errc::no_space, false});
      const std::uint64_t last = storage.calls() + n;
      const auto second = publish_increment(storage, 2, state, base_of(*first));
      const bool struck = storage.calls() > last;
      storage.plan({});
      const auto found = restored_keys(storage);
      REQUIRE(found);
      CHECK(*found == (second ? keys{"a", "b"} : keys{"a"}));
      if (!struck) return;
    }
    FAIL("the count of calls never ended");
  }
}

} // namespace weir::test
