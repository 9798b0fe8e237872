#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/spare_tree.hpp"
#include "dataplane/uring_disk.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/forwarding_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

namespace fs = std::filesystem;

epoch_id epoch_at(std::uint64_t step) {
  return {1, 1, step};
}

/// Bundles on a real disk, each written over a retired one.
struct fixture {
  explicit fixture(std::unique_ptr<disk> used = make_posix_disk()) : owned(std::move(used)) {}

  bundle_writer begin(std::uint64_t step) {
    auto writer = bundle_writer::begin(storage, directory.path(), epoch_at(step));
    REQUIRE(writer);
    return std::move(*writer);
  }
  void add(bundle_writer& writer, const std::string& path, const std::string& text) {
    auto section = write_section(storage, writer.directory(), path, writer.epoch(),
                                 std::as_bytes(std::span(text)));
    REQUIRE(section);
    REQUIRE(writer.add(*section));
  }
  result<bundle> publish(bundle_writer& writer, std::uint64_t step) {
    auto published = writer.publish(test::publication_of(step, "run"));
    if (!published) return failure(published.error());
    return published->published;
  }
  bundle publish(std::uint64_t step, const std::vector<std::string>& paths,
                 const std::string& text = "some text") {
    bundle_writer writer = begin(step);
    for (const std::string& path : paths)
      add(writer, path, text);
    auto published = publish(writer, step);
    REQUIRE(published);
    CHECK(verify_bundle(storage, of(step)).empty());
    return *published;
  }
  void retire(std::uint64_t step) {
    REQUIRE(retire_bundles(storage, directory.path(), std::array{bundle_name{step}},
                           retired_files::kept_for_next));
  }
  [[nodiscard]] std::string of(std::uint64_t step) const {
    return directory.file("step_" + std::to_string(step));
  }
  /// Everything below, relative to it.
  [[nodiscard]] static std::set<std::string> tree(const fs::path& top) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(top))
      names.insert(entry.path().lexically_relative(top));
    return names;
  }
  /// False where temporary files lie on a file system without this.
  [[nodiscard]] bool works() {
    const bool works = storage.writes_over(directory.path());
    if (!works) MESSAGE("skipped: temporary files are not on ext4 or XFS");
    return works;
  }
  [[nodiscard]] bool has_spare() const { return fs::exists(directory.file(".retired-spare")); }

  test::temp_dir directory;
  std::unique_ptr<disk> owned;
  disk& storage = *owned;
};

using names = std::set<std::string>;

/// Refuses to remove or rename what ends with a name, as a file that was made immutable.
class stubborn_disk final : public test::forwarding_disk {
public:
  stubborn_disk(disk& inner, std::string name)
      : forwarding_disk(inner), inner_(inner), name_(std::move(name)) {}

  file_result create_over(const std::string& spare, const std::string& path) override {
    return inner_.create_over(spare, path);
  }
  bool writes_over(const std::string& directory) override { return inner_.writes_over(directory); }
  result<void> unlink(const std::string& path) override {
    return path.ends_with(name_) ? refused(path) : inner_.unlink(path);
  }
  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    return source.ends_with(name_) ? refused(source) : inner_.rename_exclusive(source, target);
  }

private:
  static result<void> refused(const std::string& path) {
    return failure(errc::io_failed, path + ": cannot be removed");
  }

  disk& inner_;
  std::string name_;
};

} // namespace

TEST_SUITE("dataplane/spare_tree") {
  TEST_CASE("files whose names differ by numbers are of one kind") {
    CHECK(spare_path("a/b/MANIFEST") == "a/b/.spare-MANIFEST");
    CHECK(spare_path("17.seg") == ".spare-0.seg");
    CHECK(spare_path("s/000000000000001f.seg") == "s/.spare-0.seg");
    CHECK(spare_path("s/00000000000000a0.seg") == "s/.spare-0.seg");
    CHECK(spare_path("model-00001-of-00012.safetensors") == ".spare-model-0-of-0.safetensors");
    CHECK(spare_path("weights_11/config.json") == "weights_11/.spare-config.json");
    CHECK(is_spare(".spare-MANIFEST"));
    CHECK_FALSE(is_spare("spare-MANIFEST"));
    CHECK_FALSE(
        is_bundle_path("policy/.spare-0.seg")); // None of a bundle's own can be taken for one.
  }

  TEST_CASE("the next bundle takes over files and folders, and nothing of the former bytes") {
    for (const bool queued : {false, true}) {
      auto chosen = choose_disk(queued ? disk_kind::automatic : disk_kind::posix);
      REQUIRE(chosen);
      fixture on(std::move(chosen->storage));
      if (!on.works()) return;
      const std::vector<std::string> first{"policy/weights/model.safetensors", "s/01.seg", "info"};
      on.publish(1, first, std::string(600'000, 'x'));
      const auto inode = on.storage.stat(on.of(1) + "/s/01.seg")->inode;
      const auto manifest = on.storage.stat(on.of(1) + "/MANIFEST")->inode;
      on.retire(1);
      CHECK(fixture::tree(on.directory.file(".retired-spare")) ==
            names{"policy", "policy/weights", "policy/weights/.spare-model.safetensors", "s",
                  "s/.spare-0.seg", ".spare-info", ".spare-MANIFEST"});
      const std::vector<std::string> second{"policy/weights/model.safetensors", "s/1e.seg", "info"};
      on.publish(2, second, std::string(4321, 'y'));
      CHECK_FALSE(on.has_spare());
      CHECK(fixture::tree(on.of(2)) ==
            names{"policy", "policy/weights", second[0], "s", second[1], second[2], "MANIFEST"});
      CHECK(on.storage.stat(on.of(2) + "/s/1e.seg")->inode == inode);
      CHECK(on.storage.stat(on.of(2) + "/MANIFEST")->inode == manifest);
      const auto bytes = read_file(on.storage, on.of(2) + "/info", 1 << 20);
      REQUIRE(bytes);
      const auto payload = section_payload(*bytes, epoch_at(2));
      REQUIRE(payload);
      CHECK(std::string(reinterpret_cast<const char*>(payload->data()), payload->size()) ==
            std::string(4321, 'y'));
    }
  }

  TEST_CASE("what the next bundle does not use is removed before it is published") {
    fixture on;
    if (!on.works()) return;
    on.publish(1, {"policy/weights_1/a", "policy/weights_1/b", "policy/b", "info"});
    on.retire(1);
    on.publish(2, {"policy/b", "policy/weights_2/a"});
    CHECK(fixture::tree(on.of(2)) ==
          names{"policy", "policy/b", "policy/weights_2", "policy/weights_2/a", "MANIFEST"});
    CHECK_FALSE(on.has_spare());
    on.retire(2);
    on.publish(3, {"policy/weights_22/a"}); // A folder's name is no beginning of another's.
    CHECK(fixture::tree(on.of(3)) ==
          names{"policy", "policy/weights_22", "policy/weights_22/a", "MANIFEST"});
  }

  TEST_CASE("a bundle is not published with what cannot be removed of a former one") {
    const auto inner = make_posix_disk();
    fixture on(std::make_unique<stubborn_disk>(*inner, ".spare-info"));
    if (!on.works()) return;
    on.publish(1, {"policy/a", "info"});
    on.retire(1);
    bundle_writer writer = on.begin(2);
    on.add(writer, "policy/a", "text");
    const auto published = on.publish(writer, 2);
    REQUIRE(!published);
    CHECK(published.error().text.ends_with(".spare-info: cannot be removed"));
    CHECK_FALSE(fs::exists(on.of(2)));
    on.publish(3, {"policy/a", "info"});
  }

  TEST_CASE("a tree that cannot be made a spare one is told of, and is none") {
    const auto inner = make_posix_disk();
    fixture on(std::make_unique<stubborn_disk>(*inner, "/info"));
    if (!on.works()) return;
    on.publish(1, {"policy/a", "info"});
    const auto retired = retire_bundles(on.storage, on.directory.path(), std::array{bundle_name{1}},
                                        retired_files::kept_for_next);
    REQUIRE(!retired);
    CHECK(retired.error().text.ends_with("/info: cannot be removed"));
    CHECK_FALSE(on.has_spare());
    on.publish(2, {"policy/a", "info"});
  }

  TEST_CASE("a section that was begun and not added is seen in any folder of the spare tree") {
    fixture on;
    if (!on.works()) return;
    on.publish(1, {"policy/a", "info"});
    on.retire(1);
    bundle_writer writer = on.begin(2);
    on.add(writer, "info", "text");
    auto begun = writer.create("policy/a");
    REQUIRE(begun);
    REQUIRE(begun->finish());
    const auto published = on.publish(writer, 2);
    REQUIRE(!published);
    CHECK(published.error().text.ends_with("policy/a: was begun and not finished"));
    CHECK(fixture::tree(on.directory.path()) == names{"latest"});
  }

  TEST_CASE("one tree is kept, and a discarded bundle takes it along") {
    fixture on;
    if (!on.works()) return;
    for (const std::uint64_t step : {1U, 2U, 3U})
      on.publish(step, {"info"});
    on.retire(1);
    on.retire(2);
    CHECK(fixture::tree(on.directory.path()) ==
          names{".retired-spare", ".retired-spare/.spare-MANIFEST", ".retired-spare/.spare-info",
                "latest", "step_3", "step_3/MANIFEST", "step_3/info"});
    on.begin(4).discard();
    CHECK_FALSE(on.has_spare());
    on.publish(5, {"info"});
    on.retire(3);
    REQUIRE(remove_spare_tree(on.storage, on.directory.path()));
    REQUIRE(remove_spare_tree(on.storage, on.directory.path())); // A missing one is no error.
    CHECK(fixture::tree(on.directory.path()) ==
          names{"latest", "step_5", "step_5/MANIFEST", "step_5/info"});
  }

  TEST_CASE("a restore removes the tree that a run left, and reads nothing of it") {
    fixture on;
    if (!on.works()) return;
    on.publish(1, {"info"});
    on.publish(2, {"info"});
    on.retire(1);
    const auto survey = survey_bundles(on.storage, on.directory.path());
    REQUIRE(survey);
    CHECK(survey->readable.size() == 1);
    CHECK(survey->broken.empty());
    CHECK(remove_leftovers(on.storage, on.directory.path()) == std::size_t{1});
    CHECK_FALSE(on.has_spare());
  }

  TEST_CASE("a file that another bundle has, or that is large, is not written over") {
    fixture on;
    if (!on.works()) return;
    const bundle first = on.publish(1, {"s/1.seg", "large", "half.a", "half.b", "info"});
    bundle_writer writer = on.begin(2);
    REQUIRE(writer.link_file(first, "s/1.seg"));
    REQUIRE(on.publish(writer, 2));
    fs::resize_file(on.of(1) + "/large", spare_bytes_max + 1);
    for (const char* half : {"/half.a", "/half.b"}) // Together too much.
      fs::resize_file(on.of(1) + half, spare_bytes_max * 2 / 3);
    on.retire(1);
    CHECK(fixture::tree(on.directory.file(".retired-spare")) ==
          names{"s", ".spare-half.a", ".spare-info", ".spare-MANIFEST"});
    on.publish(3, {"s/1.seg", "info"});
    CHECK(verify_bundle(on.storage, on.of(2)).empty());
  }

  TEST_CASE("a link or a file with the name of the spare tree is left alone") {
    fixture on;
    if (!on.works()) return;
    const std::string name = on.directory.file(".retired-spare");
    const std::string precious = on.directory.file("precious");
    REQUIRE(on.storage.make_directory(precious));
    fs::create_symlink(precious, name);
    fs::create_symlink(precious, precious + "/inner");
    for (const std::uint64_t step : {1U, 2U})
      on.publish(step, {"info"});
    on.retire(1);
    CHECK_FALSE(remove_spare_tree(on.storage, on.directory.path()));
    CHECK(fixture::tree(precious) == names{"inner"});
    fs::remove(name);
    REQUIRE(on.storage.create(name));
    on.publish(3, {"info"});
    on.retire(2);
    CHECK(fixture::tree(on.directory.path()) == names{".retired-spare", "latest", "precious",
                                                      "precious/inner", "step_3", "step_3/MANIFEST",
                                                      "step_3/info"});
  }

  TEST_CASE("who reads a file of a retired bundle reads it to the end") {
    fixture on;
    if (!on.works()) return;
    on.publish(1, {"info"}, std::string(100'000, 'x'));
    auto reader = on.storage.open(on.of(1) + "/info");
    REQUIRE(reader);
    on.retire(1);
    // A second name, given behind our back.
    fs::create_hard_link(on.directory.file(".retired-spare/.spare-MANIFEST"),
                         on.directory.file("copy"));
    const auto copied = read_file(on.storage, on.directory.file("copy"), 1 << 20);
    on.publish(2, {"info"}, std::string(100'000, 'y'));
    std::vector<std::byte> read(100'000);
    CHECK((*reader)->read_at(section_header_bytes, read) == read.size());
    CHECK(read == std::vector<std::byte>(read.size(), std::byte{'x'}));
    CHECK(read_file(on.storage, on.directory.file("copy"), 1 << 20) == copied);
  }
}

} // namespace weir::dataplane
