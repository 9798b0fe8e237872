#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

namespace weir::dataplane {

namespace {

using test::crash_directory;
using test::crash_disk;
using test::crash_epoch;
using test::publish_step;

static_assert(!std::is_copy_constructible_v<section_file>);

std::string names_in(disk& storage, const std::string& path) {
  std::string names;
  const auto entries = storage.list(path);
  REQUIRE(entries);
  for (const directory_entry& entry : *entries)
    names += entry.name + " ";
  return names;
}

struct fixture {
  crash_disk storage;
  fixture() { REQUIRE(make_directories(storage, crash_directory)); }

  bundle_writer begin(std::uint64_t number) {
    auto writer = bundle_writer::begin(storage, crash_directory, crash_epoch(number));
    REQUIRE(writer);
    return std::move(*writer);
  }
  publication plain(std::uint64_t step) { return test::publication_of(step, "run"); }
  void add(bundle_writer& writer, const std::string& path, const std::string& text) {
    auto section = write_section(storage, writer.directory(), path, writer.epoch(),
                                 std::as_bytes(std::span(text)));
    REQUIRE(section);
    REQUIRE(writer.add(*section));
  }
};

} // namespace

TEST_SUITE("dataplane/bundle_writer") {

  TEST_CASE("a published bundle says all that it was told") {
    fixture on;
    bundle_writer writer = on.begin(1);
    CHECK(writer.directory() == crash_directory + "/.tmp-1-1.1");
    on.add(writer, "train_dataloader.fb", "cursor");
    on.add(writer, "data_plane/index.fb", "rows");
    publication what = on.plain(12);
    what.parent = manifest_parent{"step_11", {1, 2}};
    what.owners = {{"replay", sequence_number(9)}};
    what.metrics = {{"reward", 0.5}};
    const auto outcome = writer.publish(what);
    REQUIRE(outcome);
    CHECK(!outcome->pointer_failure);
    CHECK(names_in(on.storage, crash_directory) == "latest step_12 ");
    CHECK(on.storage.read_symlink(crash_directory + "/latest") == std::string("step_12"));

    const auto opened = open_bundle(on.storage, crash_directory, {12, 0});
    REQUIRE(opened);
    CHECK(*opened == outcome->published);
    CHECK(opened->content.epoch == crash_epoch(1));
    CHECK(opened->content.parent == what.parent);
    CHECK(opened->content.owners == what.owners);
    CHECK(opened->content.metrics == what.metrics);
    REQUIRE(opened->content.files.size() == 2);
    CHECK(opened->content.files[0].path == "data_plane/index.fb");
    CHECK(opened->content.files[0].bytes == section_header_bytes + 4);
  }

  TEST_CASE("a further bundle at a step takes the next number, never a name that exists") {
    fixture on;
    for (std::uint64_t number = 1; number <= 3; ++number) {
      bundle_writer writer = on.begin(number);
      REQUIRE(writer.publish(on.plain(5)));
    }
    CHECK(names_in(on.storage, crash_directory) == "latest step_5 step_5.1 step_5.2 ");
    // The first two are retired: the number still does not go back.
    REQUIRE(
        retire_bundles(on.storage, crash_directory, std::array{bundle_name{5}, bundle_name{5, 1}}));
    REQUIRE(on.begin(4).publish(on.plain(5)));
    CHECK(names_in(on.storage, crash_directory) == "latest step_5.2 step_5.3 ");
  }

  TEST_CASE("a zombie does not publish") {
    fixture on;
    bundle_writer writer = on.begin(1);
    on.add(writer, "train_dataloader.fb", "cursor");
    publication what = on.plain(1);
    what.still_current = [] { return result<void>(failure(errc::conflict, "INCARNATION: 2")); };
    const auto outcome = writer.publish(what);
    REQUIRE(!outcome);
    CHECK(outcome.error() == error{errc::conflict, "INCARNATION: 2"});
    CHECK(names_in(on.storage, crash_directory).empty());
  }

  TEST_CASE("a section of another epoch is refused, when added and when published") {
    fixture on;
    bundle_writer writer = on.begin(2);
    const std::string text = "late";
    const auto late = write_section(on.storage, writer.directory(), "replay.fb", crash_epoch(1),
                                    std::as_bytes(std::span(text)));
    REQUIRE(late);
    const auto added = writer.add(*late);
    REQUIRE(!added);
    CHECK(added.error().code == errc::conflict);
    CHECK(added.error().text == "replay.fb: belongs to the cut 1.1.1, and this bundle to 1.1.2");
    // An owner that lies about it is found out by the header.
    finished_section lie = *late;
    lie.epoch = writer.epoch();
    REQUIRE(writer.add(lie));
    const auto outcome = writer.publish(on.plain(1));
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::conflict);
  }

  TEST_CASE("a section that was begun and not added stops the publish, and names itself") {
    fixture on;
    bundle_writer writer = on.begin(1);
    auto section = writer.create("policy/weights/model.safetensors");
    REQUIRE(section);
    const auto outcome = writer.publish(on.plain(1));
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::conflict);
    CHECK(outcome.error().text ==
          writer.directory() + "/policy/weights/model.safetensors: was begun and not finished");
    CHECK(names_in(on.storage, crash_directory).empty());
  }

  TEST_CASE("a section that changed size after it was finished stops the publish") {
    fixture on;
    bundle_writer writer = on.begin(1);
    on.add(writer, "a.fb", "text");
    auto again = on.storage.open_or_create(writer.directory() + "/a.fb");
    REQUIRE(again);
    const std::string more = "more";
    REQUIRE((*again)->append(std::as_bytes(std::span(more))));
    const auto outcome = writer.publish(on.plain(1));
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::corrupt);
  }

  TEST_CASE("one path is one section, and stays inside the bundle") {
    fixture on;
    bundle_writer writer = on.begin(1);
    on.add(writer, "a.fb", "text");
    CHECK(writer.create("a.fb").error().code == errc::already_exists);
    CHECK(writer.create("../a.fb").error().code == errc::invalid_argument);
    CHECK(writer.create("MANIFEST").error().code == errc::invalid_argument);
    CHECK(writer.add({{"a.fb", 0, {}}, writer.epoch()}).error().code == errc::already_exists);
    CHECK(writer.add({{"/a.fb", 0, {}}, writer.epoch()}).error().code == errc::invalid_argument);
  }

  TEST_CASE("an epoch has one unfinished bundle") {
    fixture on;
    bundle_writer writer = on.begin(1);
    const auto second = bundle_writer::begin(on.storage, crash_directory, crash_epoch(1));
    CHECK(second.error().code == errc::already_exists);
    writer.discard();
    CHECK(names_in(on.storage, crash_directory).empty());
  }

  TEST_CASE("a linked file is the same file, and its bundle is pinned") {
    fixture on;
    const auto first = publish_step(on.storage, 1);
    REQUIRE(first);
    bundle_writer writer = on.begin(2);
    CHECK(writer.pinned().empty());
    CHECK(writer.link_folder(first->published, "data_plane") == 2U);
    REQUIRE(writer.pinned().size() == 1);
    CHECK(writer.pinned()[0] == first->published.name);
    const auto outcome = writer.publish(on.plain(2));
    REQUIRE(outcome);
    const std::string path = "/data_plane/segments/1.seg";
    CHECK(on.storage.stat(crash_directory + "/step_1" + path)->inode ==
          on.storage.stat(crash_directory + "/step_2" + path)->inode);
    REQUIRE(retire_bundles(on.storage, crash_directory, std::array{bundle_name{1}}));
    CHECK(verify_bundle(on.storage, crash_directory + "/step_2").empty());
  }

  TEST_CASE("what is not in the source's manifest is not linked") {
    fixture on;
    const auto first = publish_step(on.storage, 1);
    REQUIRE(first);
    bundle_writer writer = on.begin(2);
    CHECK(writer.link_file(first->published, "MANIFEST").error().code == errc::not_found);
    CHECK(writer.link_file(first->published, "nothing").error().code == errc::not_found);
    REQUIRE(writer.link_file(first->published, "training_info.json"));
    CHECK(writer.link_file(first->published, "training_info.json").error().code ==
          errc::already_exists);
  }

  TEST_CASE("retiring what is gone is no error, and what is in the way is not overwritten") {
    fixture on;
    REQUIRE(publish_step(on.storage, 1));
    REQUIRE(make_directories(on.storage, crash_directory + "/.retired-step_1/old"));
    REQUIRE(
        retire_bundles(on.storage, crash_directory, std::array{bundle_name{1}, bundle_name{7}}));
    CHECK(names_in(on.storage, crash_directory) == ".retired-step_1 latest ");
  }
}

} // namespace weir::dataplane
