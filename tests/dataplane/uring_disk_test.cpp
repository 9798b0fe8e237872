/// What only the io_uring disk does: appends that are queued, syncs in the background, and a kernel
/// that does not allow it. `disk_test.cpp` has what all disks do alike.
#include "dataplane/uring_disk.hpp"
#include "tests/dataplane/pattern.hpp"
#include "tests/support/child_check.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr std::size_t kibi = 1024;

/// A disk that queues; null, with a message, where the kernel does not allow it.
std::unique_ptr<disk> uring_or_null() {
  auto made = make_uring_disk();
  if (made) return std::move(*made);
  MESSAGE("skipped: ", made.error().text);
  return nullptr;
}

} // namespace

TEST_SUITE("dataplane/uring_disk") {
  TEST_CASE("appends of any size stand in their order, and are read in parallel") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    const auto expected = test::pattern(9 * kibi * kibi + 77, 1);
    auto made = storage->create(directory.file("a"));
    REQUIRE(made);
    std::span<const std::byte> left(expected);
    for (std::size_t size = 1; !left.empty(); size = size * 3 + 1) {
      const auto piece = left.first(std::min(left.size(), size % (3 * kibi * kibi)));
      REQUIRE((*made)->append(piece));
      left = left.subspan(piece.size());
    }
    CHECK((*made)->size() == expected.size()); // Waits for what was queued.
    (*made)->start_sync();
    REQUIRE((*made)->sync());
    REQUIRE((*made)->append(test::pattern(5, 2))); // After a sync it goes on.
    REQUIRE((*made)->close());
    auto opened = storage->open(directory.file("a"));
    REQUIRE(opened);
    std::vector<std::byte> read(expected.size() + 1000);
    CHECK((*opened)->read_at(0, read) == expected.size() + 5);
    CHECK(std::equal(expected.begin(), expected.end(), read.begin()));
    std::vector<std::byte> middle(2 * kibi * kibi);
    CHECK((*opened)->read_at(1234567, middle) == middle.size());
    CHECK(std::equal(middle.begin(), middle.end(), expected.begin() + 1234567));
  }

  TEST_CASE("more files than there are rings are written at the same time") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    constexpr unsigned count = 20;
    std::vector<std::unique_ptr<file>> files;
    for (unsigned at = 0; at < count; ++at) {
      auto made = storage->create(directory.file(std::to_string(at)));
      REQUIRE(made);
      files.push_back(std::move(*made));
    }
    for (int round = 0; round < 3; ++round)
      for (unsigned at = 0; at < count; ++at)
        REQUIRE(files[at]->append(test::pattern(700 * kibi, at)));
    for (const auto& one : files)
      one->start_sync();
    for (const auto& one : files) {
      REQUIRE(one->sync());
      REQUIRE(one->close());
    }
    for (unsigned at = 0; at < count; ++at) {
      const auto read = read_file(*storage, directory.file(std::to_string(at)), 4 * kibi * kibi);
      REQUIRE(read);
      REQUIRE(read->size() == 3 * 700 * kibi);
      const auto expected = test::pattern(700 * kibi, at);
      for (std::size_t round = 0; round < 3; ++round)
        CHECK(std::equal(expected.begin(), expected.end(),
                         read->begin() + static_cast<std::ptrdiff_t>(round * 700 * kibi)));
    }
  }

  TEST_CASE("a file that is dropped without a close has what was appended") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    const auto expected = test::pattern(100 * kibi, 3);
    REQUIRE((*storage->create(directory.file("a")))->append(expected));
    const auto read = read_file(*storage, directory.file("a"), kibi * kibi);
    REQUIRE(read);
    CHECK(*read == expected);
  }

  TEST_CASE("a short write is written on, and the error behind it stays with the file") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    CHECK(test::holds_in_child([&] {
      if (!test::limit_files_to(700 * kibi + 13)) return false;
      auto made = storage->create(directory.file("a"));
      auto other = storage->create(directory.file("b"));
      if (!made || !other) return false;
      const auto bytes = test::pattern(2 * kibi * kibi, 4);
      auto done = (*made)->append(bytes);
      if (done) done = (*made)->sync();
      const std::string expected = directory.file("a") + ": cannot write: File too large";
      const auto again = (*made)->sync();
      const auto closed = (*made)->close();
      return !done && done.error().text == expected && !again && again.error().text == expected &&
             !closed && (*other)->append(std::span(bytes).first(100)) && (*other)->sync();
    }));
    const auto read = read_file(*storage, directory.file("a"), 2 * kibi * kibi);
    REQUIRE(read);
    CHECK(read->size() == 700 * kibi + 13);
    const auto expected = test::pattern(read->size(), 4);
    CHECK(*read == expected);
  }

  TEST_CASE("where no ring is free, the error of an append stays with the file as well") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    CHECK(test::holds_in_child([&] {
      if (!test::limit_files_to(7 * kibi)) return false;
      if (!test::refuse_calls(SYS_io_uring_setup, ENOMEM)) return false;
      auto made = storage->create(directory.file("a"));
      const auto bytes = test::pattern(5 * kibi, 5);
      if (!made || !(*made)->append(bytes)) return false;
      const auto fails = [&](const result<void>& done) {
        return !done && done.error().text == directory.file("a") + ": cannot write: File too large";
      };
      return fails((*made)->append(bytes)) && fails((*made)->sync()) &&
             fails((*made)->append(std::span(bytes).first(1))) && fails((*made)->close());
    }));
  }

  TEST_CASE("directories are synced at once, and the one that fails is named") {
    const auto storage = uring_or_null();
    if (!storage) return;
    const test::temp_dir directory;
    std::vector<std::string> paths;
    for (int at = 0; at < 40; ++at) {
      paths.push_back(directory.file(std::to_string(at)));
      REQUIRE(storage->make_directory(paths.back()));
    }
    CHECK(storage->sync_directories(paths));
    REQUIRE(storage->remove_directory(paths[30]));
    const auto failed = storage->sync_directories(paths);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == errc::not_found);
    CHECK(failed.error().text.starts_with(paths[30] + ": "));
  }

  TEST_CASE("a kernel that refuses is said: an error if it was asked for, a notice if not") {
    for (const int number : {ENOSYS, EPERM, ENOMEM}) {
      CAPTURE(number);
      CHECK(test::holds_in_child([number] {
        if (!test::refuse_calls(SYS_io_uring_setup, number)) return false;
        const auto asked = choose_disk(disk_kind::io_uring);
        const auto fallen_back = choose_disk(disk_kind::automatic);
        const auto posix = choose_disk(disk_kind::posix);
        return !asked && asked.error().code == errc::unsupported &&
               asked.error().text.starts_with("io_uring: ") && fallen_back &&
               fallen_back->storage && fallen_back->notice.starts_with("io_uring: ") &&
               fallen_back->notice.ends_with("; files are written by posix calls") && posix &&
               posix->notice.empty();
      }));
    }
  }
}

} // namespace weir::dataplane
