/// What only the posix disk's new files do: bytes that are collected and written past the page
/// cache, and a file system that refuses. `disk_test.cpp` has what all disks do alike.
#include "dataplane/direct_file.hpp"
#include "dataplane/posix_disk.hpp"
#include "tests/dataplane/pattern.hpp"
#include "tests/support/child_check.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr std::size_t kibi = 1024;
constexpr std::size_t block = direct_blocks::block_bytes;

result<void> append_in_pieces(file& target, std::span<const std::byte> bytes, std::size_t piece) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    if (auto done = target.append(bytes.first(count)); !done) return done;
    bytes = bytes.subspan(count);
  }
  return {};
}

/// Whether a file of these bytes, appended in pieces, is read back as it was.
bool is_kept(disk& storage, const std::string& path, std::span<const std::byte> bytes,
             std::size_t piece) {
  auto made = storage.create(path);
  if (!made || !append_in_pieces(**made, bytes, piece)) return false;
  if ((*made)->size() != bytes.size() || !(*made)->sync() || !(*made)->close()) return false;
  const auto read = read_file(storage, path, bytes.size() + 1);
  return read && std::ranges::equal(*read, bytes) && storage.unlink(path);
}

bool takes_direct_writes(const std::string& path) {
  struct statfs about{};
  return ::statfs(path.c_str(), &about) == 0 &&
         (about.f_type == EXT4_SUPER_MAGIC || about.f_type == XFS_SUPER_MAGIC);
}

std::size_t cached_pages(const std::string& path, std::size_t bytes) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(opened >= 0);
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened, 0);
  ::close(opened);
  REQUIRE(memory != MAP_FAILED);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  REQUIRE(::mincore(memory, bytes, pages.data()) == 0);
  ::munmap(memory, bytes);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
}

} // namespace

TEST_SUITE("dataplane/direct_file") {
  TEST_CASE("a file of any length, in pieces of any size, is read back as it was appended") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto bytes = test::pattern(2 * block + 5000);
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{1}, std::size_t{4096}, direct_bytes_min - 1, direct_bytes_min,
          direct_bytes_min + 1, block - 1, block, block + 1, 2 * block + 4096, bytes.size()})
      for (const std::size_t piece : {4 * kibi, std::size_t{65'537}, 3 * block}) {
        CAPTURE(length);
        CAPTURE(piece);
        CHECK(is_kept(*storage, directory.file("a"), std::span(bytes).first(length), piece));
      }
  }

  TEST_CASE("over a former file of any length, too") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto bytes = test::pattern(2 * block + 5000);
    const std::array lengths{std::size_t{0}, std::size_t{4097}, direct_bytes_min + 1, block,
                             2 * block + 4096};
    for (const std::size_t former : lengths)
      for (const std::size_t length : lengths)
        for (const bool for_tree : {false, true}) {
          CAPTURE(former);
          CAPTURE(length);
          auto made = storage->create(directory.file("former"));
          REQUIRE(made);
          REQUIRE((*made)->append(std::span(bytes).last(former)));
          REQUIRE((*made)->close());
          made = storage->create_over(directory.file("former"), directory.file("a"));
          REQUIRE(made);
          REQUIRE(append_in_pieces(**made, std::span(bytes).first(length), 3 * block));
          REQUIRE((for_tree ? (*made)->close_for_tree() : (*made)->close()));
          const auto read = read_file(*storage, directory.file("a"), bytes.size() + 1);
          REQUIRE(read);
          CHECK(std::ranges::equal(*read, std::span(bytes).first(length)));
          REQUIRE(storage->unlink(directory.file("a")));
          CHECK_FALSE(storage->stat(directory.file("former")));
        }
  }

  TEST_CASE("large memory on a page is written from where it lies") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto memory = segment::allocate(2 * block + 4096);
    const auto bytes = memory->writable(0, memory->capacity());
    std::ranges::copy(test::pattern(bytes.size()), bytes.begin());
    for (const std::size_t shift : {0U, 1U, 512U, 4096U}) {
      CAPTURE(shift);
      CHECK(is_kept(*storage, directory.file("a"), bytes.subspan(shift), bytes.size()));
      CHECK(is_kept(*storage, directory.file("b"), bytes.first(block + shift), bytes.size()));
    }
  }

  TEST_CASE("memory that lies as its place in the file does is not copied, whatever comes before") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto memory = segment::allocate(3 * block);
    const auto bytes = memory->writable(0, memory->capacity());
    std::ranges::copy(test::pattern(bytes.size()), bytes.begin());
    // A header, then buffers that each begin on a page of memory, as a policy's file has them.
    for (const std::size_t header : {0U, 512U, 9216U, 100U, 5'000'000U})
      for (const std::size_t length : {1024 * kibi, 3'545'600UL, block, 4096 * kibi - 64}) {
        CAPTURE(header);
        CAPTURE(length);
        const auto before = bytes.first(header);
        std::vector<std::byte> expected(before.begin(), before.end());
        auto made = storage->create(directory.file("a"));
        REQUIRE(made);
        REQUIRE((*made)->append(expected));
        for (const std::size_t page : {std::size_t{0}, 7 * kibi * 4, block}) {
          const auto piece = bytes.subspan(page, length);
          REQUIRE((*made)->append(piece));
          expected.insert(expected.end(), piece.begin(), piece.end());
        }
        REQUIRE((*made)->sync());
        REQUIRE((*made)->close());
        const auto read = read_file(*storage, directory.file("a"), expected.size() + 1);
        REQUIRE(read);
        CHECK(std::ranges::equal(*read, expected));
        REQUIRE(storage->unlink(directory.file("a")));
      }
  }

  TEST_CASE("only what is large and aligned with its place needs no copy") {
    const auto memory = segment::allocate(block);
    const auto bytes = memory->bytes(0, block);
    CHECK(needs_no_copy(bytes, 0));
    CHECK(needs_no_copy(bytes, 9216));
    CHECK(needs_no_copy(bytes.subspan(100), 100));
    CHECK_FALSE(needs_no_copy(bytes, 100));
    CHECK_FALSE(needs_no_copy(bytes.subspan(64), 0));
    CHECK_FALSE(needs_no_copy(bytes.first(uncopied_bytes_min - 1), 0));
  }

  TEST_CASE("of a long file the page cache has no more than the end") {
    const test::temp_dir directory;
    if (!takes_direct_writes(directory.path())) {
      MESSAGE("skipped: temporary files are not on ext4 or XFS");
      return;
    }
    const auto storage = make_posix_disk();
    const auto bytes = test::pattern(block + 300 * kibi + 77);
    auto made = storage->create(directory.file("a"));
    REQUIRE(made);
    REQUIRE(append_in_pieces(**made, bytes, 100'000));
    REQUIRE((*made)->sync());
    CHECK(cached_pages(directory.file("a"), bytes.size()) <= 1);
  }

  TEST_CASE("a file goes on after a sync, wherever that was") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto bytes = test::pattern(3 * block);
    for (const std::size_t first : {std::size_t{10}, direct_bytes_min, block, block + 4095}) {
      CAPTURE(first);
      auto made = storage->create(directory.file("a"));
      REQUIRE(made);
      REQUIRE((*made)->append(std::span(bytes).first(first)));
      (*made)->start_sync();
      REQUIRE((*made)->sync());
      REQUIRE((*made)->append(std::span(bytes).subspan(first)));
      std::array<std::byte, 100> read{};
      CHECK((*made)->read_at(first - 5, read) == 100U);
      CHECK(std::ranges::equal(read, std::span(bytes).subspan(first - 5, 100)));
      made->reset(); // Dropped without a close, it has what was appended.
      const auto all = read_file(*storage, directory.file("a"), bytes.size() + 1);
      REQUIRE(all);
      CHECK(*all == bytes);
      REQUIRE(storage->unlink(directory.file("a")));
    }
  }

  TEST_CASE("where direct writes are refused, files go through the cache") {
    const test::temp_dir directory;
    const auto bytes = test::pattern(block + 300 * kibi);
    CHECK(test::holds_in_child([&] {
      const auto storage = make_posix_disk();
      return test::refuse_calls(SYS_fcntl, EINVAL) &&
             is_kept(*storage, directory.file("a"), bytes, 100'000);
    }));
  }

  TEST_CASE("an error stays with its file, and no sync of it succeeds") {
    const test::temp_dir directory;
    const std::size_t limit = 700 * kibi + 13;
    const auto bytes = test::pattern(2 * block);
    // The limit is within a page: the direct write before it is refused.
    CHECK(test::holds_in_child([&] {
      if (!test::limit_files_to(limit)) return false;
      const auto storage = make_posix_disk();
      auto made = storage->create(directory.file("a"));
      auto other = storage->create(directory.file("b"));
      if (!made || !other) return false;
      const auto failed = append_in_pieces(**made, bytes, 100'000);
      const std::string expected = directory.file("a") + ": cannot write: File too large";
      const auto synced = (*made)->sync();
      const auto closed = (*made)->close();
      return !failed && failed.error().text == expected && !synced &&
             synced.error().text == expected && !closed &&
             (*other)->append(std::span(bytes).first(100)) && (*other)->sync();
    }));
    const auto read = read_file(*make_posix_disk(), directory.file("a"), bytes.size());
    REQUIRE(read);
    CHECK(read->size() == limit);
    CHECK(std::ranges::equal(*read, std::span(bytes).first(limit)));
  }

  TEST_CASE("a failed write at an offset stays with its file as well") {
    const test::temp_dir directory;
    CHECK(test::holds_in_child([&] {
      if (!test::limit_files_to(7 * kibi)) return false;
      auto made = make_posix_disk()->create(directory.file("a"));
      const auto bytes = test::pattern(5 * kibi);
      if (!made || !(*made)->write_at(0, bytes)) return false;
      return !(*made)->write_at(5 * kibi, bytes) && !(*made)->sync() && !(*made)->close();
    }));
  }

  TEST_CASE("after a failed sync a file is given up") {
    const test::temp_dir directory;
    CHECK(test::holds_in_child([&] {
      const auto storage = make_posix_disk();
      auto made = storage->create(directory.file("a"));
      const auto bytes = test::pattern(300 * kibi);
      return made && (*made)->append(bytes) && test::refuse_calls(SYS_fsync, EIO) &&
             !(*made)->sync() && !(*made)->append(bytes) && !(*made)->close();
    }));
  }

  TEST_CASE("every call on a file sees what was appended") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto bytes = test::pattern(300 * kibi);
    const auto appended = [&](const std::string& name) {
      auto made = storage->create(directory.file(name));
      REQUIRE(made);
      REQUIRE((*made)->append(bytes));
      return std::move(*made);
    };
    std::vector<std::byte> read(bytes.size());
    CHECK(appended("read")->read_at(0, read) == bytes.size());
    CHECK(read == bytes);
    const auto mapping = appended("mapped")->map(bytes.size());
    REQUIRE(mapping);
    CHECK(std::equal(bytes.begin(), bytes.end(), mapping->get()));
    const auto written = appended("written");
    REQUIRE(written->write_at(5, std::span(bytes).first(3)));
    CHECK(written->read_at(0, read) == bytes.size());
    CHECK(std::ranges::equal(std::span(read).subspan(5, 3), std::span(bytes).first(3)));
    CHECK(std::ranges::equal(std::span(read).subspan(8), std::span(bytes).subspan(8)));
    appended("dropped").reset();
    CHECK(*read_file(*storage, directory.file("dropped"), 2 * bytes.size()) == bytes);
  }

  TEST_CASE("large memory on a page stands behind what was collected") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto memory = segment::allocate(2 * block);
    const auto large = memory->writable(0, memory->capacity());
    std::ranges::fill(large, std::byte{7});
    auto made = storage->create(directory.file("a"));
    REQUIRE(made);
    REQUIRE((*made)->append(test::pattern(4096)));
    REQUIRE((*made)->append(large));
    REQUIRE((*made)->close());
    const auto read = read_file(*storage, directory.file("a"), 3 * block);
    REQUIRE(read);
    REQUIRE(read->size() == 4096 + large.size());
    CHECK(std::ranges::equal(std::span(*read).first(4096), test::pattern(4096)));
    CHECK(std::ranges::equal(std::span(*read).subspan(4096), large));
  }

  TEST_CASE("files that are written at the same time have a block each") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const auto first = test::pattern(600'000);
    const std::vector<std::byte> second(first.size(), std::byte{9});
    for (const std::string round : {"1", "2", "3"}) {
      auto one = storage->create(directory.file("a" + round));
      auto other = storage->create(directory.file("b" + round));
      REQUIRE((*one)->append(std::span(first).first(4096)));
      REQUIRE((*one)->sync()); // Gives its block back, and takes one again.
      for (std::size_t at = 4096; at < first.size(); at += 100'000) {
        const std::size_t count = std::min<std::size_t>(100'000, first.size() - at);
        REQUIRE((*one)->append(std::span(first).subspan(at, count)));
        REQUIRE((*other)->append(std::span(second).subspan(at, count)));
      }
      REQUIRE((*one)->close());
      REQUIRE((*other)->close());
      CHECK(*read_file(*storage, directory.file("a" + round), 1 << 20) == first);
      CHECK(std::ranges::equal(*read_file(*storage, directory.file("b" + round), 1 << 20),
                               std::span(second).subspan(4096)));
    }
  }

  TEST_CASE("blocks are used again, and no more are kept than two") {
    direct_blocks blocks;
    auto first = blocks.take();
    auto second = blocks.take();
    auto third = blocks.take();
    const std::weak_ptr<segment> kept = first, dropped = third;
    const segment* const place = first.get();
    blocks.give_back(std::move(second));
    blocks.give_back(std::move(first));
    blocks.give_back(std::move(third));
    CHECK(dropped.expired());
    CHECK_FALSE(kept.expired());
    CHECK(blocks.take().get() == place);
  }
}

} // namespace weir::dataplane
