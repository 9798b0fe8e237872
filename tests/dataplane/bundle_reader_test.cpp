#include "dataplane/bundle_reader.hpp"
#include "dataplane/posix_disk.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

using test::crash_directory;
using test::crash_disk;
using test::crash_epoch;
using test::publish_step;

struct fixture {
  crash_disk storage;
  fixture() { REQUIRE(make_directories(storage, crash_directory)); }

  bundle publish(std::uint64_t step, const std::optional<bundle>& source = std::nullopt) {
    auto outcome = publish_step(storage, step, source);
    REQUIRE(outcome);
    return outcome->published;
  }
  bundle_survey survey() {
    auto found = survey_bundles(storage, crash_directory);
    REQUIRE(found);
    return std::move(*found);
  }
  result<std::optional<bundle_choice>> choose() {
    return newest_valid_bundle(storage, crash_directory, survey());
  }
  bundle_choice chosen() {
    auto choice = choose();
    REQUIRE(choice);
    REQUIRE(*choice);
    return **choice;
  }
  std::string path(const std::string& name) { return crash_directory + "/" + name; }
  void put(const std::string& name, const std::vector<std::byte>& bytes) {
    REQUIRE(replace_file(storage, path(name), bytes));
  }
  std::vector<std::byte> get(const std::string& name) {
    auto bytes = read_file(storage, path(name), 1 << 20);
    REQUIRE(bytes);
    return std::move(*bytes);
  }
  /// The only problem of a bundle.
  bundle_problem problem(const std::string& name) {
    auto problems = verify_bundle(storage, path(name));
    REQUIRE(problems.size() == 1);
    return problems.front();
  }
};

constexpr const char* segment = "data_plane/segments/1.seg";

/// An intact manifest, of the next format.
std::vector<std::byte> of_next_format(std::vector<std::byte> bytes) {
  bytes[8] = std::byte{manifest_version + 1};
  const auto covered = std::span(bytes).first(bytes.size() - 16);
  const checksum128 checksum = checksum_of(covered);
  for (std::size_t at = 0; at < 8; ++at) {
    bytes[covered.size() + at] = static_cast<std::byte>(checksum.low >> (8 * at));
    bytes[covered.size() + 8 + at] = static_cast<std::byte>(checksum.high >> (8 * at));
  }
  return bytes;
}

} // namespace

TEST_SUITE("dataplane/bundle_reader") {

  TEST_CASE("no directory and an empty one have no bundle, and that is no error") {
    fixture on;
    CHECK(!*on.choose());
    const auto missing = survey_bundles(on.storage, "/nowhere");
    REQUIRE(missing);
    CHECK(missing->readable.empty());
    CHECK(missing->highest_incarnation == incarnation(0));
  }

  TEST_CASE("the newest is that of the highest epoch, whatever the names and the pointer say") {
    fixture on;
    on.publish(9);
    on.publish(10);
    for (const char* name : {"7", "007", "7.tmp", "step_0011", "step_99x", "step_", "weights"})
      REQUIRE(on.storage.make_directory(on.path(name)));
    REQUIRE(replace_symlink(on.storage, "nowhere", on.path("latest")));
    REQUIRE(on.storage.make_symlink("step_9", on.path("step_50")));
    CHECK(on.chosen().chosen.name == bundle_name{10});
    CHECK(on.chosen().passed_over.empty());
    // A later history at an earlier step: epoch 11 captured step 2.
    auto writer = bundle_writer::begin(on.storage, crash_directory, crash_epoch(11));
    REQUIRE(writer);
    REQUIRE(writer->publish(test::publication_of(2)));
    CHECK(on.chosen().chosen.name == bundle_name{2});
    CHECK(on.survey().readable.size() == 3);
  }

  TEST_CASE("the pointer may lack") {
    fixture on;
    on.publish(1);
    REQUIRE(on.storage.unlink(on.path("latest")));
    CHECK(on.chosen().chosen.name == bundle_name{1});
  }

  TEST_CASE("a broken newer bundle is passed over with its reason") {
    fixture on;
    on.publish(1);
    on.publish(2);
    const std::string manifest_path = on.path("step_2/MANIFEST");
    SUBCASE("its manifest is damaged") {
      on.storage.damage(manifest_path, 20, 3);
      const auto choice = on.chosen();
      CHECK(choice.chosen.name == bundle_name{1});
      REQUIRE(choice.passed_over.size() == 1);
      CHECK(choice.passed_over[0].name == bundle_name{2});
      CHECK(choice.passed_over[0].reason.text.starts_with(manifest_path + ": checksum differs"));
    }
    SUBCASE("its manifest is missing") {
      REQUIRE(on.storage.unlink(manifest_path));
      CHECK(on.chosen().passed_over[0].reason.text == manifest_path + ": missing");
    }
    SUBCASE("a file is damaged") {
      on.storage.damage(on.path("step_2/") + segment, 0, 0);
      const auto choice = on.chosen();
      CHECK(choice.chosen.name == bundle_name{1});
      REQUIRE(choice.passed_over.size() == 1);
      CHECK(choice.passed_over[0].epoch == crash_epoch(2));
      CHECK(choice.passed_over[0].reason.text.starts_with(on.path("step_2/") + segment));
    }
    SUBCASE("a file is missing") {
      REQUIRE(on.storage.unlink(on.path("step_2/") + segment));
      CHECK(on.chosen().passed_over[0].reason.text == on.path("step_2/") + segment + ": missing");
    }
  }

  TEST_CASE("a broken older bundle is nobody's concern") {
    fixture on;
    on.publish(1);
    on.publish(2);
    on.storage.damage(on.path("step_1/MANIFEST"), 20, 3);
    CHECK(on.chosen().chosen.name == bundle_name{2});
    CHECK(on.chosen().passed_over.empty());
  }

  TEST_CASE("with only broken bundles a run does not start over") {
    fixture on;
    on.publish(1);
    on.publish(2);
    on.storage.damage(on.path("step_1/training_info.json"), 0, 0);
    REQUIRE(on.storage.unlink(on.path("step_2/MANIFEST")));
    const auto choice = on.choose();
    REQUIRE(!choice);
    CHECK(choice.error().code == errc::corrupt);
    CHECK(choice.error().text.find("step_1/training_info.json: checksum") != std::string::npos);
    CHECK(choice.error().text.find("step_2/MANIFEST: missing") != std::string::npos);
  }

  TEST_CASE("a newer format is refused, not passed over") {
    fixture on;
    on.publish(1);
    on.publish(2);
    SUBCASE("when it is the newest") {
      on.put("step_2/MANIFEST", of_next_format(on.get("step_2/MANIFEST")));
      const auto choice = on.choose();
      REQUIRE(!choice);
      CHECK(choice.error().code == errc::unsupported);
      CHECK(choice.error().text.starts_with(
          on.path("step_2/MANIFEST: format 2, and this program reads format 1; use")));
    }
    SUBCASE("but an old one is in nobody's way") {
      on.put("step_1/MANIFEST", of_next_format(on.get("step_1/MANIFEST")));
      CHECK(on.chosen().chosen.name == bundle_name{2});
    }
  }

  TEST_CASE("a renamed bundle is not taken for another step") {
    fixture on;
    on.publish(1);
    REQUIRE(on.storage.rename(on.path("step_1"), on.path("step_9")));
    const auto opened = open_bundle(on.storage, crash_directory, {9});
    REQUIRE(!opened);
    CHECK(opened.error().text == on.path("step_9: was renamed: its manifest is of step 1"));
  }

  TEST_CASE("a file is read whole and verified") {
    fixture on;
    const bundle first = on.publish(1);
    const auto bytes = read_bundle_file(on.storage, crash_directory, first, segment);
    REQUIRE(bytes);
    CHECK(*bytes == on.get(std::string("step_1/") + segment));
    CHECK(read_bundle_file(on.storage, crash_directory, first, "no").error().code ==
          errc::not_found);
    const std::string full = on.path("step_1/") + segment;
    SUBCASE("damage") {
      on.storage.damage(full, 4, 1);
    }
    SUBCASE("a longer file") {
      auto longer = *bytes;
      longer.push_back(std::byte{0});
      on.put(std::string("step_1/") + segment, longer);
    }
    SUBCASE("a shorter file") {
      on.put(std::string("step_1/") + segment, {});
    }
    SUBCASE("no file") {
      REQUIRE(on.storage.unlink(full));
    }
    const auto damaged = read_bundle_file(on.storage, crash_directory, first, segment);
    REQUIRE(!damaged);
    CHECK(damaged.error().code == errc::corrupt);
    CHECK(damaged.error().text.starts_with(full + ": "));
  }

  TEST_CASE("verification finds one flipped bit anywhere in a bundle") {
    fixture on;
    on.publish(1);
    CHECK(verify_bundle(on.storage, on.path("step_1")).empty());
    for (const std::string& file : {std::string("MANIFEST"), std::string("training_info.json"),
                                    std::string("data_plane/index.fb"), std::string(segment)}) {
      const std::string path = on.path("step_1/" + file);
      const std::size_t bits = 8 * on.get("step_1/" + file).size();
      for (std::size_t bit = 0; bit < bits; ++bit) {
        on.storage.damage(path, bit / 8, bit % 8);
        const auto problems = verify_bundle(on.storage, on.path("step_1"));
        REQUIRE(problems.size() == 1);
        CHECK(problems[0].file == file);
        CHECK(problems[0].reason.code == errc::corrupt);
        on.storage.damage(path, bit / 8, bit % 8);
      }
    }
  }

  TEST_CASE("verification names what is missing, cut, additional or newer") {
    fixture on;
    on.publish(1);
    SUBCASE("missing") {
      REQUIRE(on.storage.unlink(on.path("step_1/") + segment));
      CHECK(on.problem("step_1").file == segment);
      CHECK(on.problem("step_1").reason.text == on.path("step_1/") + segment + ": missing");
    }
    SUBCASE("cut") {
      on.put(std::string("step_1/") + segment, {});
      CHECK(on.problem("step_1").reason.text ==
            on.path("step_1/") + segment + ": has 0 bytes, and the manifest says 28");
    }
    SUBCASE("additional") {
      on.put("step_1/data_plane/core", {});
      CHECK(on.problem("step_1").file == "data_plane/core");
      CHECK(on.problem("step_1").reason.text ==
            on.path("step_1/data_plane/core: the manifest does not name it"));
    }
    SUBCASE("newer") {
      on.put("step_1/MANIFEST", of_next_format(on.get("step_1/MANIFEST")));
      CHECK(on.problem("step_1").file == "MANIFEST");
      CHECK(on.problem("step_1").reason.code == errc::unsupported);
    }
    SUBCASE("truncated manifest") {
      auto bytes = on.get("step_1/MANIFEST");
      bytes.resize(bytes.size() / 2);
      on.put("step_1/MANIFEST", bytes);
      CHECK(on.problem("step_1").reason.code == errc::corrupt);
    }
    SUBCASE("no bundle") {
      CHECK(verify_bundle(on.storage, on.path("step_8"))[0].reason.code == errc::not_found);
    }
  }

  TEST_CASE("one bad sector is reported with every bundle that shares it") {
    fixture on;
    const bundle first = on.publish(1);
    on.publish(2, first);
    on.publish(3, first);
    on.publish(4);
    on.storage.damage(on.path("step_2/") + segment, 0, 0);
    CHECK(on.problem("step_2").reason.text.ends_with("; shared with step_1, step_3"));
    CHECK(verify_bundle(on.storage, on.path("step_4")).empty());
  }

  TEST_CASE("newer bundles are set aside, twice under one name too") {
    fixture on;
    const bundle first = on.publish(1);
    on.publish(2);
    on.publish(3);
    REQUIRE(on.storage.unlink(on.path("step_3/MANIFEST")));
    const auto once = abandon_newer(on.storage, crash_directory, on.survey(), first);
    REQUIRE(once);
    CHECK(*once == std::vector<std::string>{".abandoned-step_3", ".abandoned-step_2"});
    on.publish(2);
    const auto twice = abandon_newer(on.storage, crash_directory, on.survey(), first);
    REQUIRE(twice);
    CHECK(*twice == std::vector<std::string>{".abandoned-step_2-2"});
    CHECK(on.chosen().chosen == first);
    CHECK(abandon_newer(on.storage, crash_directory, on.survey(), first)->empty());
    // Set aside, not removed: they still hold the numbers of their incarnations.
    CHECK(*remove_leftovers(on.storage, crash_directory) == 0);
    CHECK(verify_bundle(on.storage, on.path(".abandoned-step_2")).empty());
  }

  TEST_CASE("the highest incarnation is found in every corner") {
    fixture on;
    on.publish(1);
    CHECK(on.survey().highest_incarnation == incarnation(1));
    REQUIRE(bundle_writer::begin(on.storage, crash_directory, {5, 1, 1}));
    CHECK(on.survey().highest_incarnation == incarnation(5));
    REQUIRE(on.storage.rename(on.path("step_1"), on.path(".abandoned-step_1")));
    CHECK(*remove_leftovers(on.storage, crash_directory) == 1);
    CHECK(on.survey().highest_incarnation == incarnation(1));
  }

  TEST_CASE("leftovers go, and nothing else does") {
    fixture on;
    on.publish(1);
    for (const char* name : {".tmp-1-1.2", ".retired-step_7", ".abandoned-step_8", ".tmp-mine"})
      REQUIRE(make_directories(on.storage, on.path(name) + "/inner"));
    CHECK(*remove_leftovers(on.storage, crash_directory) == 2);
    std::string names;
    const auto entries = on.storage.list(crash_directory);
    REQUIRE(entries);
    for (const directory_entry& entry : *entries)
      names += entry.name + " ";
    CHECK(names == ".abandoned-step_8 .tmp-mine latest step_1 ");
    CHECK(*remove_leftovers(on.storage, "/nowhere") == 0);
  }

  TEST_CASE("the same on a real disk") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const std::string checkpoints = directory.file("checkpoints");
    REQUIRE(make_directories(*storage, checkpoints));
    auto writer = bundle_writer::begin(*storage, checkpoints, {1, 1, 1});
    REQUIRE(writer);
    REQUIRE(test::write_sections(*writer, "content", std::nullopt));
    const auto outcome = writer->publish(test::publication_of(4));
    REQUIRE(outcome);
    CHECK(!outcome->pointer_failure);
    const auto survey = survey_bundles(*storage, checkpoints);
    REQUIRE(survey);
    const auto choice = newest_valid_bundle(*storage, checkpoints, *survey);
    REQUIRE(choice);
    REQUIRE(*choice);
    CHECK((*choice)->chosen == outcome->published);
    CHECK(verify_bundle(*storage, checkpoints + "/latest").empty());
    CHECK(verify_bundle(*storage, checkpoints + "/step_4").empty());
  }
}

} // namespace weir::dataplane
