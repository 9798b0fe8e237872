/// Which files wait for the sync of their tree, and that nothing is held longer. That a tree is
/// durable afterwards is the kernel's promise; that all of it is synced, tests/crash shows.
#include "dataplane/deferred_syncs.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/posix_file.hpp"
#include "tests/support/open_descriptors.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace weir::dataplane {

namespace {

using test::open_descriptors;

std::unique_ptr<posix_file> written_file(const std::string& path) {
  auto made = create_posix_file(path);
  REQUIRE(made);
  REQUIRE((*made)->append(std::as_bytes(std::span(path))));
  return std::move(*made);
}

/// Two folders, the name of one beginning as the other's.
struct fixture {
  test::temp_dir directory;
  std::unique_ptr<disk> storage = make_posix_disk();
  std::string tree = directory.file("tree");
  std::string other = directory.file("tree2");

  fixture() {
    for (const std::string& path : {tree, tree + "/inner", other})
      REQUIRE(storage->make_directory(path));
  }
  /// Whether the file system of the tests is one whose files can wait.
  [[nodiscard]] bool can_wait() const {
    return is_on_known_file_system(*written_file(directory.file("probe")));
  }
};

constexpr std::uint64_t never_together = 0;
constexpr std::uint64_t always_together = UINT64_MAX;

} // namespace

TEST_SUITE("dataplane/deferred_syncs") {
  TEST_CASE("the files of a tree are let go of when it is synced, and no others") {
    for (const std::uint64_t others : {never_together, always_together}) {
      const fixture at;
      if (!at.can_wait()) return;
      deferred_syncs syncs(others);
      const std::size_t before = open_descriptors();
      REQUIRE(syncs.take(*written_file(at.tree + "/a")) == true);
      REQUIRE(syncs.take(*written_file(at.tree + "/inner/b")) == true);
      REQUIRE(syncs.take(*written_file(at.other + "/c")) == true);
      CHECK(open_descriptors() == before + 3);
      CHECK(syncs.sync_tree(*at.storage, at.tree));
      CHECK(open_descriptors() == before + 1);
      CHECK(syncs.sync_tree(*at.storage, at.other));
      CHECK(open_descriptors() == before);
      CHECK(syncs.sync_tree(*at.storage, at.tree)); // Nothing waits there.
    }
  }

  TEST_CASE("a removed file gives its room back at once") {
    const fixture at;
    if (!at.can_wait()) return;
    const std::size_t before = open_descriptors();
    auto made = at.storage->create(at.tree + "/a");
    REQUIRE(made);
    REQUIRE((*made)->close_for_tree());
    made->reset();
    CHECK(open_descriptors() == before + 1);
    REQUIRE(remove_tree(*at.storage, at.tree));
    CHECK(open_descriptors() == before);
  }

  TEST_CASE("a file that was removed before it is closed syncs itself") {
    const fixture at;
    if (!at.can_wait()) return;
    const std::size_t before = open_descriptors();
    auto made = at.storage->create(at.tree + "/a");
    REQUIRE(made);
    REQUIRE(remove_tree(*at.storage, at.tree));
    CHECK((*made)->close_for_tree());
    made->reset();
    CHECK(open_descriptors() == before);
  }

  TEST_CASE("a process with few descriptors keeps some for itself") {
    const fixture at;
    if (!at.can_wait()) return;
    rlimit usual{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
    rlimit few = usual;
    few.rlim_cur = 40;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    deferred_syncs syncs;
    std::size_t taken = 0;
    for (int file = 0; file < 10; ++file)
      taken += syncs.take(*written_file(at.tree + "/" + std::to_string(file))) == true ? 1 : 0;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK(taken == 5);
  }

  TEST_CASE("descriptors are bounded") {
    const fixture at;
    if (!at.can_wait()) return;
    deferred_syncs syncs;
    const std::size_t before = open_descriptors();
    for (std::size_t file = 0; file < deferred_syncs::taken_max + 3; ++file) {
      const auto made = written_file(at.tree + "/" + std::to_string(file));
      CHECK(syncs.take(*made) == (file < deferred_syncs::taken_max));
    }
    CHECK(open_descriptors() == before + deferred_syncs::taken_max);
    CHECK(syncs.sync_tree(*at.storage, at.tree));
    CHECK(open_descriptors() == before);
  }

  TEST_CASE("a file of another file system syncs itself") {
    if (!std::filesystem::is_directory("/dev/shm")) return;
    const std::string path = "/dev/shm/weir_deferred_syncs_test";
    std::filesystem::remove(path);
    const auto made = written_file(path);
    if (is_on_known_file_system(*made)) return;
    deferred_syncs syncs;
    CHECK(syncs.take(*made) == false);
    CHECK(made->close());
    std::filesystem::remove(path);
  }

  TEST_CASE("a tree that is gone is an error, and nothing of it is held") {
    const fixture at;
    const std::size_t before = open_descriptors();
    auto made = at.storage->create(at.tree + "/a");
    REQUIRE(made);
    REQUIRE((*made)->close_for_tree());
    std::filesystem::remove_all(at.tree);
    const auto synced = at.storage->sync_tree(at.tree);
    REQUIRE(!synced);
    CHECK(synced.error().text.find(at.tree) != std::string::npos);
    made->reset();
    CHECK(open_descriptors() == before);
  }
}

} // namespace weir::dataplane
