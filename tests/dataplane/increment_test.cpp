/// Bundles that link segments of older ones: what is linked, what is written, and that each bundle
/// holds its snapshot by itself.
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

using fixture::crash_disk;

/// Bundles of one store, each based on the one before.
class chain {
public:
  explicit chain(std::uint64_t full_every = 8) : full_every_(full_every) {}

  static std::string directory(std::uint64_t number) { return "/b" + std::to_string(number); }

  /// Writes the next bundle, and reads it back.
  written_snapshot write(const snapshot& state) {
    const std::uint64_t number = ++newest_;
    REQUIRE(disk.make_directory(directory(number)).has_value());
    increment_options options{.pace = {}, .base = base_, .full_every = full_every_};
    auto written = write_increment(disk, directory(number), {1, 1, number}, state, options);
    if (!written) FAIL(to_string(written.error()));
    base_ = snapshot_base{directory(number), written->files};
    fixture::check_equal(read(number, *written).state, state);
    return std::move(*written);
  }

  loaded_snapshot read(std::uint64_t number, const written_snapshot& written) {
    manifest content;
    content.epoch = {1, 1, number};
    for (const finished_section& section : written.sections) {
      CHECK(section.epoch == content.epoch);
      content.files.push_back(section.file);
    }
    std::ranges::sort(content.files, {}, &manifest_file::path);
    auto loaded = load_snapshot(disk, directory(number), content);
    if (!loaded) FAIL(to_string(loaded.error()));
    loaded->state.state().check_invariants();
    return std::move(*loaded);
  }

  /// The next bundle goes on from what was read, as another life does.
  void restart(const loaded_snapshot& from) { base_->files = from.files; }
  void forget(std::uint64_t number) { REQUIRE(remove_tree(disk, directory(number)).has_value()); }

  [[nodiscard]] std::uint64_t newest() const { return newest_; }
  crash_disk disk;

private:
  std::uint64_t full_every_;
  std::uint64_t newest_ = 0;
  std::optional<snapshot_base> base_;
};

std::vector<row_id> stage_rows(store& plane, int count, std::int32_t value) {
  const std::vector<std::int32_t> values(1000, value);
  std::vector<row_input> rows(static_cast<std::size_t>(count));
  for (row_input& row : rows)
    row.cells.push_back(vector_cell<std::int32_t>("value", values));
  const auto ids = plane.stage("p", rows);
  REQUIRE(ids.has_value());
  return *ids;
}

std::vector<row_id> put_rows(store& plane, int count, std::int32_t value) {
  const auto ids = stage_rows(plane, count, value);
  REQUIRE(plane.commit("p", ids).has_value());
  return ids;
}

} // namespace

TEST_SUITE("dataplane/increment") {
  TEST_CASE("a value that was staged beside a committed one is written again") {
    store plane;
    chain bundles;
    const std::vector<std::int32_t> values(16, 1);
    std::vector<row_input> rows(2);
    for (row_input& row : rows)
      row.cells.push_back(vector_cell<std::int32_t>("values", values));
    const auto ids = plane.stage("p", rows); // Their values are one run in memory.
    REQUIRE(ids);
    REQUIRE(plane.commit("p", std::span(*ids).first(1)));
    std::ignore = bundles.write(plane.capture().committed());
    REQUIRE(plane.commit("p", std::span(*ids).subspan(1)));
    CHECK(bundles.write(plane.capture()).linked_bytes == 0);
  }

  TEST_CASE("a refused piece ends the writing, whichever it is") {
    store plane;
    std::vector<row_input> rows(3 * 4096 + 5); // Several chunks of the index.
    const std::int32_t one = 1;
    for (row_input& row : rows)
      row.cells.push_back(scalar_cell("value", one));
    REQUIRE(plane.put("p", rows));
    const auto state = plane.capture();
    const auto pieces_until = [&](std::size_t refused) {
      crash_disk disk;
      REQUIRE(disk.make_directory("/b"));
      std::size_t pieces = 0;
      const auto pace = [&](std::uint64_t) -> result<void> {
        if (pieces++ == refused) return failure(errc::conflict, "the cut was aborted");
        return {};
      };
      const auto written = write_snapshot(disk, "/b", {1, 1, 1}, state, pace);
      CHECK(written.has_value() == (pieces <= refused));
      return pieces;
    };
    const std::size_t all = pieces_until(1'000'000);
    REQUIRE(all > 8);
    for (std::size_t at = 0; at < all; ++at)
      CHECK(pieces_until(at) == at + 1);
  }

  TEST_CASE("a walk over a layout finds what a search does, whatever it is asked for next") {
    std::mt19937_64 random(7);
    segment_layout layout;
    std::uint64_t offset = 0;
    for (std::uint64_t position = 0; offset < 100'000; offset += random() % 3 * 64) {
      const std::uint64_t bytes = 1 + random() % 200;
      layout.add(offset, bytes, position);
      offset += bytes;
      position += bytes;
    }
    layout.finish();
    layout_walk walk(layout);
    std::vector<std::uint64_t> next(5);
    for (int query = 0; query < 200'000; ++query) {
      const auto field = static_cast<std::uint16_t>(random() % next.size());
      // Mostly a little further on, as rows are, and now and then anywhere.
      if (random() % 50 == 0) next[field] = random() % (offset + 500);
      const std::uint64_t at = next[field] += random() % 400;
      const std::uint64_t bytes = 1 + random() % 100;
      REQUIRE(walk.find(field, at, bytes) == layout.find(at, bytes));
    }
  }

  TEST_CASE("the next bundle writes the segments that changed, and links the others") {
    store plane;
    chain bundles;
    put_rows(plane, 8, 1);
    const auto first = bundles.write(plane.capture());
    CHECK(first.linked_bytes == 0);
    put_rows(plane, 8, 2);
    const auto second = bundles.write(plane.capture());
    CHECK(second.linked_bytes == first.written_bytes);
    CHECK(second.files->links_since_whole == 1);
    const auto third = bundles.write(plane.capture());
    CHECK(third.written_bytes == 0);
    bundles.forget(1);
    bundles.forget(2);
    fixture::check_equal(bundles.read(3, third).state, plane.capture());
  }

  TEST_CASE("a file without a value that was staged when it was written is written again") {
    store plane;
    chain bundles;
    put_rows(plane, 4, 1);
    const auto staged = stage_rows(plane, 2, 2);
    const auto first = bundles.write(plane.capture().committed());
    REQUIRE(plane.commit("p", staged).has_value());
    const auto second = bundles.write(plane.capture().committed());
    CHECK(second.linked_bytes == 0);
    CHECK(second.written_bytes > first.written_bytes);
  }

  TEST_CASE("a mostly dead file is written again, with its live values alone") {
    store plane;
    chain bundles;
    const auto ids = put_rows(plane, 8, 1);
    bundles.write(plane.capture());
    REQUIRE(plane.clear("p", std::span(ids).first(4)).has_value());
    CHECK(bundles.write(plane.capture()).written_bytes == 0); // Half of it lives.
    REQUIRE(plane.clear("p", std::span(ids).subspan(4, 1)).has_value());
    const auto third = bundles.write(plane.capture());
    CHECK(third.linked_bytes == 0);
    CHECK(third.written_bytes > 0);
  }

  TEST_CASE("every so many bundles all is written, whatever lives end in between") {
    store plane;
    chain bundles(3);
    put_rows(plane, 2, 1);
    std::vector<std::uint64_t> links;
    for (int round = 0; round < 7; ++round) {
      const auto written = bundles.write(plane.capture());
      links.push_back(written.files->links_since_whole);
      CHECK((written.linked_bytes == 0) == (links.back() == 0));
      bundles.restart(bundles.read(bundles.newest(), written));
    }
    CHECK(links == std::vector<std::uint64_t>{0, 1, 2, 0, 1, 2, 0});
  }

  TEST_CASE("without hard links files are copied, and damage is found meanwhile") {
    store plane;
    chain bundles;
    put_rows(plane, 2, 1);
    const auto first = bundles.write(plane.capture());
    bundles.disk.refuse_links();
    CHECK(bundles.write(plane.capture()).linked_bytes == first.written_bytes);
    bundles.disk.damage(chain::directory(1) + "/" + first.sections[0].file.path, 90, 1);
    REQUIRE(bundles.disk.make_directory("/b9").has_value());
    const snapshot_base damaged{chain::directory(1), first.files};
    const auto third = write_increment(bundles.disk, "/b9", {1, 1, 9}, plane.capture(),
                                       {.pace = {}, .base = damaged});
    REQUIRE(!third.has_value());
    CHECK(third.error().code == errc::corrupt);
  }

  TEST_CASE("a base that is gone is no loss: all is written") {
    store plane;
    chain bundles;
    put_rows(plane, 2, 1);
    bundles.write(plane.capture());
    bundles.forget(1);
    CHECK(bundles.write(plane.capture()).linked_bytes == 0);
  }

  TEST_CASE("random histories: each bundle holds its snapshot, across lives and compaction") {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      auto plane = std::make_unique<store>(store_options{.segment_bytes = 20'000});
      chain bundles(4);
      std::vector<row_id> rows;
      for (int round = 0; round < 12; ++round) {
        for (std::uint64_t count = random() % 4; count-- > 0;) {
          const auto some = put_rows(*plane, static_cast<int>(random() % 5 + 1), round);
          rows.insert(rows.end(), some.begin(), some.end());
        }
        while (!rows.empty() && random() % 3 != 0) {
          const auto at = rows.begin() + static_cast<std::ptrdiff_t>(random() % rows.size());
          REQUIRE(plane->clear("p", std::span(&*at, 1)).has_value());
          rows.erase(at);
        }
        if (random() % 2 == 0) REQUIRE(plane->compact(random() % 20'000).has_value());
        const auto written = bundles.write(plane->capture());
        if (random() % 3 != 0) continue;
        const auto loaded = bundles.read(bundles.newest(), written);
        plane = std::make_unique<store>(store_options{.segment_bytes = 20'000});
        plane->restore(loaded.state);
        bundles.restart(loaded);
      }
    }
  }

  TEST_CASE("segments are loaded by whatever runs the jobs") {
    store plane({.segment_bytes = 20'000});
    chain bundles;
    put_rows(plane, 30, 1);
    bundles.write(plane.capture());
    std::size_t count = 0;
    const job_runner backwards = [&count](std::span<const std::function<void()>> jobs) {
      count = jobs.size();
      for (std::size_t at = jobs.size(); at-- > 0;)
        jobs[at]();
    };
    const auto read = read_snapshot(bundles.disk, chain::directory(1), {1, 1, 1}, backwards);
    REQUIRE(read.has_value());
    fixture::check_equal(*read, plane.capture());
    CHECK(count > 4);
  }
}

} // namespace weir::dataplane
