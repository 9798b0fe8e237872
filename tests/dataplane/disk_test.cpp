/// One list of facts for all disks: what the crash tests prove on `crash_disk` holds on a real one
/// only as far as they behave alike.
#include "dataplane/disk.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/uring_disk.hpp"
#include "tests/support/crash_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

/// A real directory, removed at the end.
struct posix_fixture {
  test::temp_dir directory;
  std::unique_ptr<disk> owned = make_posix_disk();
  disk& storage = *owned;
  std::string path(const std::string& name) const { return directory.file(name); }
};

/// The same through io_uring, where the kernel allows it.
struct uring_fixture {
  test::temp_dir directory;
  std::unique_ptr<disk> owned = std::move(choose_disk(disk_kind::automatic)->storage);
  disk& storage = *owned;
  std::string path(const std::string& name) const { return directory.file(name); }
};

struct crash_fixture {
  test::crash_disk owned;
  disk& storage = owned;
  std::string path(const std::string& name) const { return "/" + name; }
};

auto bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void put_file(disk& storage, const std::string& path, const std::string& text) {
  auto opened = storage.create(path);
  REQUIRE(opened);
  REQUIRE((*opened)->append(bytes_of(text)));
  REQUIRE((*opened)->sync());
  REQUIRE((*opened)->close());
}

std::string get_file(disk& storage, const std::string& path) {
  const auto bytes = read_file(storage, path, 1 << 20);
  if (!bytes) return to_string(bytes.error().code) == "not found" ? "(missing)" : "(error)";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

template <class T>
errc code_of(const result<T>& outcome) {
  REQUIRE(!outcome);
  return outcome.error().code;
}

} // namespace

TEST_SUITE("dataplane/disk") {

  TEST_CASE_TEMPLATE("bytes are read as they were appended", Fixture, posix_fixture, uring_fixture,
                     crash_fixture) {
    Fixture on;
    auto opened = on.storage.create(on.path("a"));
    REQUIRE(opened);
    REQUIRE((*opened)->append(bytes_of("first ")));
    REQUIRE((*opened)->append(bytes_of("second")));
    CHECK((*opened)->size() == 12U);
    std::array<std::byte, 100> target{};
    CHECK((*opened)->read_at(6, target) == 6U);
    CHECK(target[0] == std::byte{'s'});
    CHECK((*opened)->read_at(12, target) == 0U);
    REQUIRE((*opened)->close());
    CHECK(get_file(on.storage, on.path("a")) == "first second");
  }

  TEST_CASE_TEMPLATE("a file is written anywhere, and grows", Fixture, posix_fixture, uring_fixture,
                     crash_fixture) {
    Fixture on;
    auto opened = on.storage.open_or_create(on.path("a"));
    REQUIRE(opened);
    REQUIRE((*opened)->write_at(2, bytes_of("cd")));
    REQUIRE((*opened)->write_at(0, bytes_of("ab")));
    CHECK(get_file(on.storage, on.path("a")) == "abcd");
    auto again = on.storage.open_or_create(on.path("a"));
    REQUIRE(again);
    REQUIRE((*again)->append(bytes_of("ef")));
    CHECK(get_file(on.storage, on.path("a")) == "abcdef");
  }

  TEST_CASE_TEMPLATE("names that are taken or missing are told apart", Fixture, posix_fixture,
                     uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("a"), "x");
    CHECK(code_of(on.storage.create(on.path("a"))) == errc::already_exists);
    CHECK(code_of(on.storage.make_directory(on.path("a"))) == errc::already_exists);
    CHECK(code_of(on.storage.make_symlink("b", on.path("a"))) == errc::already_exists);
    CHECK(code_of(on.storage.open(on.path("b"))) == errc::not_found);
    CHECK(code_of(on.storage.unlink(on.path("b"))) == errc::not_found);
    CHECK(code_of(on.storage.stat(on.path("b"))) == errc::not_found);
    CHECK(code_of(on.storage.list(on.path("b"))) == errc::not_found);
    CHECK(code_of(on.storage.rename(on.path("b"), on.path("c"))) == errc::not_found);
    CHECK(code_of(on.storage.sync_directory(on.path("b"))) == errc::not_found);
    CHECK(on.storage.open(on.path("b")).error().text.starts_with(on.path("b") + ": "));
  }

  TEST_CASE_TEMPLATE("a rename replaces, an exclusive one does not", Fixture, posix_fixture,
                     uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("a"), "a");
    put_file(on.storage, on.path("b"), "b");
    CHECK(code_of(on.storage.rename_exclusive(on.path("a"), on.path("b"))) == errc::already_exists);
    CHECK(get_file(on.storage, on.path("b")) == "b");
    REQUIRE(on.storage.rename(on.path("a"), on.path("b")));
    CHECK(get_file(on.storage, on.path("b")) == "a");
    CHECK(get_file(on.storage, on.path("a")) == "(missing)");
    // An empty directory would be replaced silently by a plain rename.
    REQUIRE(on.storage.make_directory(on.path("d")));
    REQUIRE(on.storage.make_directory(on.path("e")));
    CHECK(code_of(on.storage.rename_exclusive(on.path("d"), on.path("e"))) == errc::already_exists);
  }

  TEST_CASE_TEMPLATE("links share bytes and inode, and outlive the first name", Fixture,
                     posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("a"), "shared");
    REQUIRE(on.storage.link(on.path("a"), on.path("b")));
    const auto first = on.storage.stat(on.path("a"));
    const auto second = on.storage.stat(on.path("b"));
    REQUIRE(first);
    REQUIRE(second);
    CHECK(first->inode == second->inode);
    CHECK(second->bytes == 6);
    REQUIRE(on.storage.unlink(on.path("a")));
    CHECK(get_file(on.storage, on.path("b")) == "shared");
  }

  TEST_CASE_TEMPLATE("a file that is made over another has its room, and none of its bytes",
                     Fixture, posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("spare"), std::string(10'000, 'x'));
    const bool over = on.storage.writes_over(parent_of(on.path("a"))); // Else it is made anew.
    const auto inode = on.storage.stat(on.path("spare"))->inode;
    auto opened = on.storage.create_over(on.path("spare"), on.path("a"));
    REQUIRE(opened);
    CHECK(on.storage.stat(on.path("spare")).has_value() == !over);
    REQUIRE((*opened)->append(bytes_of("short")));
    CHECK((*opened)->size() == 5U);
    std::array<std::byte, 100> target{};
    CHECK((*opened)->read_at(3, target) == 2U);
    REQUIRE((*opened)->append(bytes_of("er")));
    REQUIRE((*opened)->close());
    CHECK(get_file(on.storage, on.path("a")) == "shorter");
    CHECK((on.storage.stat(on.path("a"))->inode == inode) == over);
    opened = on.storage.create_over(on.path("a"), on.path("b"));
    REQUIRE(opened);
    REQUIRE((*opened)->sync()); // Nothing was appended.
    CHECK(on.storage.stat(on.path("b"))->bytes == 0);
    opened = on.storage.create_over(on.path("b"), on.path("c"));
    REQUIRE(opened);
    REQUIRE((*opened)->append(bytes_of("text")));
    REQUIRE((*opened)->sync());
    CHECK(on.storage.stat(on.path("c"))->bytes == 4); // Before it is closed.
  }

  TEST_CASE_TEMPLATE("a file is made anew where there is no other, or that has a second name",
                     Fixture, posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    REQUIRE(on.storage.create_over(on.path("nothing"), on.path("a")));
    put_file(on.storage, on.path("spare"), "text");
    CHECK(code_of(on.storage.create_over(on.path("spare"), on.path("a"))) == errc::already_exists);
    REQUIRE(on.storage.link(on.path("spare"), on.path("second")));
    CHECK(on.storage.stat(on.path("spare"))->links == 2);
    auto opened = on.storage.create_over(on.path("spare"), on.path("b"));
    REQUIRE(opened);
    REQUIRE((*opened)->append(bytes_of("other")));
    REQUIRE((*opened)->close());
    CHECK(get_file(on.storage, on.path("b")) == "other");
    CHECK(get_file(on.storage, on.path("spare")) == "text");
    REQUIRE(on.storage.make_directory(on.path("folder")));
    REQUIRE(on.storage.create_over(on.path("folder"), on.path("c")));
    CHECK(on.storage.stat(on.path("folder"))->kind == entry_kind::directory);
    put_file(on.storage, on.path("victim"), "precious");
    REQUIRE(on.storage.make_symlink("victim", on.path("link")));
    opened = on.storage.create_over(on.path("link"), on.path("d"));
    REQUIRE(opened);
    REQUIRE((*opened)->append(bytes_of("other")));
    REQUIRE((*opened)->close());
    CHECK(on.storage.stat(on.path("d"))->kind == entry_kind::file);
    CHECK(get_file(on.storage, on.path("victim")) == "precious");
  }

  TEST_CASE_TEMPLATE("symbolic links are described, replaced, and never followed by open", Fixture,
                     posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("a"), "x");
    REQUIRE(replace_symlink(on.storage, "a", on.path("latest")));
    REQUIRE(replace_symlink(on.storage, "nowhere", on.path("latest")));
    CHECK(on.storage.read_symlink(on.path("latest")) == std::string("nowhere"));
    REQUIRE(replace_symlink(on.storage, "a", on.path("latest")));
    CHECK(on.storage.stat(on.path("latest"))->kind == entry_kind::symlink);
    CHECK(code_of(on.storage.open(on.path("latest"))) == errc::io_failed);
  }

  TEST_CASE_TEMPLATE("a listing is sorted and tells kinds", Fixture, posix_fixture, uring_fixture,
                     crash_fixture) {
    Fixture on;
    REQUIRE(on.storage.make_directory(on.path("top")));
    put_file(on.storage, on.path("top/b"), "");
    REQUIRE(on.storage.make_directory(on.path("top/c")));
    REQUIRE(on.storage.make_symlink("b", on.path("top/a")));
    const auto entries = on.storage.list(on.path("top"));
    REQUIRE(entries);
    CHECK(*entries == std::vector<directory_entry>{{"a", entry_kind::symlink},
                                                   {"b", entry_kind::file},
                                                   {"c", entry_kind::directory}});
    CHECK(code_of(on.storage.remove_directory(on.path("top"))) == errc::already_exists);
  }

  TEST_CASE_TEMPLATE("a link to a tree is not removed as one", Fixture, posix_fixture,
                     uring_fixture, crash_fixture) {
    Fixture on;
    REQUIRE(on.storage.make_directory(on.path("tree")));
    put_file(on.storage, on.path("tree/a"), "text");
    REQUIRE(on.storage.make_symlink(on.path("tree"), on.path("link")));
    CHECK(code_of(remove_tree(on.storage, on.path("link"))) == errc::io_failed);
    CHECK(get_file(on.storage, on.path("tree/a")) == "text");
  }

  TEST_CASE_TEMPLATE("trees are made and removed, links in them not followed", Fixture,
                     posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    REQUIRE(make_directories(on.storage, on.path("a/b/c")));
    REQUIRE(make_directories(on.storage, on.path("a/b/c")));
    put_file(on.storage, on.path("keep"), "kept");
    put_file(on.storage, on.path("a/b/f"), "x");
    REQUIRE(on.storage.make_symlink(on.path("keep"), on.path("a/link")));
    CHECK(code_of(make_directories(on.storage, on.path("keep"))) == errc::already_exists);
    CHECK(code_of(remove_tree(on.storage, on.path("a"), 2)) == errc::exhausted);
    REQUIRE(remove_tree(on.storage, on.path("a")));
    REQUIRE(remove_tree(on.storage, on.path("a")));
    CHECK(code_of(on.storage.stat(on.path("a"))) == errc::not_found);
    CHECK(get_file(on.storage, on.path("keep")) == "kept");
  }

  TEST_CASE_TEMPLATE("a tree is synced with the files that were closed for it", Fixture,
                     posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    REQUIRE(on.storage.make_directory(on.path("tree")));
    REQUIRE(on.storage.make_directory(on.path("tree/inner")));
    for (const char* name : {"tree/a", "tree/inner/b"}) {
      auto made = on.storage.create(on.path(name));
      REQUIRE(made);
      REQUIRE((*made)->append(bytes_of(name)));
      REQUIRE((*made)->close_for_tree());
    }
    CHECK(on.storage.sync_tree(on.path("tree")));
    CHECK(get_file(on.storage, on.path("tree/a")) == "tree/a");
    CHECK(get_file(on.storage, on.path("tree/inner/b")) == "tree/inner/b");
    CHECK(code_of(on.storage.sync_tree(on.path("none"))) == errc::not_found);
  }

  TEST_CASE_TEMPLATE("a small file is replaced whole, over the remains of a crash too", Fixture,
                     posix_fixture, uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("n.tmp"), "torn");
    REQUIRE(replace_file(on.storage, on.path("n"), bytes_of("1")));
    REQUIRE(replace_file(on.storage, on.path("n"), bytes_of("2")));
    CHECK(get_file(on.storage, on.path("n")) == "2");
    CHECK(get_file(on.storage, on.path("n.tmp")) == "(missing)");
  }

  TEST_CASE_TEMPLATE("a file larger than expected is not read", Fixture, posix_fixture,
                     uring_fixture, crash_fixture) {
    Fixture on;
    put_file(on.storage, on.path("a"), "12345");
    CHECK(read_file(on.storage, on.path("a"), 5)->size() == 5);
    CHECK(code_of(read_file(on.storage, on.path("a"), 4)) == errc::exhausted);
  }

  TEST_CASE_TEMPLATE("a lock is exclusive until it is let go", Fixture, posix_fixture,
                     uring_fixture, crash_fixture) {
    Fixture on;
    auto held = on.storage.lock(on.path("lock"));
    REQUIRE(held);
    REQUIRE((*held)->describe("pid 1"));
    CHECK(code_of(on.storage.lock(on.path("lock"))) == errc::already_exists);
    CHECK(get_file(on.storage, on.path("lock")) == "pid 1");
    held->reset();
    CHECK(on.storage.lock(on.path("lock")));
  }

  TEST_CASE("joined paths have one slash") {
    CHECK(join("a", "b") == "a/b");
    CHECK(join("a/", "b") == "a/b");
    CHECK(join("", "b") == "b");
    CHECK(parent_of("a/b") == "a");
    CHECK(parent_of("a/b/") == "a");
    CHECK(parent_of("/a") == "/");
    CHECK(parent_of("a") == ".");
  }

  TEST_CASE_TEMPLATE("a pipe or a directory in place of a file is an error, not a wait", Fixture,
                     posix_fixture, uring_fixture) {
    Fixture on;
    REQUIRE(::mkfifo(on.path("pipe").c_str(), 0600) == 0);
    CHECK(code_of(on.storage.open(on.path("pipe"))) == errc::io_failed);
    REQUIRE(on.storage.make_directory(on.path("d")));
    CHECK(code_of(on.storage.open(on.path("d"))) == errc::io_failed);
  }

  TEST_CASE("a shorter description leaves nothing of a longer one") {
    posix_fixture on;
    put_file(on.storage, on.path("lock"), "pid 123456 of a process that died long ago");
    auto held = on.storage.lock(on.path("lock"));
    REQUIRE(held);
    REQUIRE((*held)->describe("pid 1"));
    CHECK(get_file(on.storage, on.path("lock")) == "pid 1");
  }

  TEST_CASE_TEMPLATE("a full device is no space, with the system's words", Fixture, posix_fixture,
                     uring_fixture) {
    Fixture on;
    auto opened = on.storage.open_or_create("/dev/full");
    REQUIRE(opened);
    const auto written = (*opened)->append(bytes_of("x"));
    REQUIRE(!written);
    CHECK(written.error().code == errc::no_space);
    CHECK(written.error().text == "/dev/full: cannot write: No space left on device");
  }

  TEST_CASE("this process has a name") {
    CHECK(this_process().pid > 0);
    CHECK(!this_process().host.empty());
  }
}

} // namespace weir::dataplane
