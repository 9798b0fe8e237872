/// A small file system of its own, on a loop device: ENOSPC from a real journal, at whatever call
/// it comes, and what a device has been given when a bundle gets its name. Skipped, with a message,
/// where nothing can be mounted.
#include "dataplane/direct_file.hpp"
#include "dataplane/uring_disk.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// The disk is filled with the largest first.
constexpr std::array<std::size_t, 3> pieces = {std::size_t{512} << 10, 65536, 1024};
static_assert(pieces.front() >= dataplane::direct_bytes_min);

/// ext4 of 4 MiB, seen by this process and its children only.
class loop_disk {
public:
  explicit loop_disk(const std::string& format = "") {
    fs::create_directories(root());
    fs::create_directories(copied_root());
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               run("truncate -s 4M " + image()) && run("mkfs.ext4 -q -F " + format + image()) &&
               run("mount -o loop " + image() + " " + root());
    if (!mounted_) MESSAGE("skipped: a loop device can be mounted by root only");
  }
  ~loop_disk() {
    if (copied_) ::umount2(copied_root().c_str(), MNT_DETACH);
    if (mounted_) ::umount2(root().c_str(), MNT_DETACH);
  }
  loop_disk(const loop_disk&) = delete;
  loop_disk& operator=(const loop_disk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string root() const { return dir_.file("mounted"); }

  /// Damages what says which blocks are free, so that none can be allocated any more, and goes on.
  /// False: this machine cannot. @pre no file or folder of it has a block
  [[nodiscard]] bool lose_free_blocks() {
    ::umount2(root().c_str(), MNT_DETACH);
    const std::string bitmaps = "dumpe2fs " + image() + " | grep -oE 'Block bitmap at [0-9]+'";
    const std::string damage = "dd if=/dev/urandom of=" + image() + " bs=4096 count=1 conv=notrunc";
    mounted_ = run("(" + bitmaps + " | while read a b c at; do " + damage + " seek=$at; done)") &&
               run("mount -o loop,errors=continue " + image() + " " + root());
    return mounted_;
  }

  /// Mounts a copy of all that the device has been given so far, as after power loss.
  void copy() {
    const std::string copied = dir_.file("copied_image");
    REQUIRE(run("cp " + image() + " " + copied));
    std::ignore = run("fsck.ext4 -fy " + copied); // Says that it mended something.
    copied_ = run("mount -o loop " + copied + " " + copied_root());
    REQUIRE(copied_);
  }
  [[nodiscard]] std::string copied_root() const { return dir_.file("copied"); }

private:
  [[nodiscard]] std::string image() const { return dir_.file("image"); }
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  temp_dir dir_;
  bool mounted_ = false;
  bool copied_ = false;
};

/// Appends pieces to a new file, each synced, until one does not fit; returns what the disk said.
error fill(dataplane::disk& storage, const std::string& path, std::size_t piece) {
  const auto made = storage.create(path);
  if (!made) return made.error();
  const std::vector<std::byte> bytes(piece);
  for (int count = 0; count < 10'000; ++count) {
    auto written = (*made)->append(bytes);
    if (written) written = (*made)->sync();
    if (!written) return written.error();
  }
  return {errc::conflict, "the disk is never full"};
}

/// A full disk said so, and of what; a large piece of the posix disk met it past the cache.
void check_told(const error& said, const std::string& root, bool directly) {
  CHECK_MESSAGE(said.code == errc::no_space, to_string(said));
  CHECK(said.text.starts_with(root));
  if (directly) CHECK(said.text.ends_with(": cannot write directly: No space left on device"));
}

void check_full(dataplane::disk_kind kind) {
  const loop_disk loop;
  if (!loop.mounted()) return;
  const auto storage = std::move(dataplane::choose_disk(kind)->storage);
  const std::string directory = loop.root() + "/checkpoints";
  REQUIRE(dataplane::make_directories(*storage, directory));
  const auto publish = [&](std::uint64_t step) -> result<void> {
    auto writer = dataplane::bundle_writer::begin(*storage, directory, crash_epoch(step));
    if (!writer) return failure(writer.error());
    const std::string content(std::size_t{300} << 10, static_cast<char>('a' + step));
    if (auto written = write_sections(*writer, content, std::nullopt); !written) {
      writer->discard();
      return written;
    }
    const auto done = writer->publish(publication_of(step, "loop"));
    return done ? result<void>() : failure(done.error());
  };
  const auto newest = [&]() -> std::uint64_t {
    const auto survey = dataplane::survey_bundles(*storage, directory);
    REQUIRE(survey.has_value());
    const auto choice = dataplane::newest_valid_bundle(*storage, directory, *survey);
    REQUIRE(choice.has_value());
    return *choice ? (*choice)->chosen.content.step : no_bundle;
  };
  const auto filler = [&](std::size_t piece) {
    return loop.root() + "/filler_" + std::to_string(piece);
  };
  REQUIRE(publish(1).has_value());
  // A large piece leaves room for a bundle's names and for some of its bytes; the others take it.
  for (const std::size_t piece : pieces) {
    CAPTURE(piece);
    const bool directly = kind == dataplane::disk_kind::posix && piece == pieces.front();
    check_told(fill(*storage, filler(piece), piece), loop.root(), directly);
    const auto full = publish(2);
    REQUIRE_FALSE(full.has_value());
    check_told(full.error(), loop.root(), directly);
    CHECK(newest() == 1);
    REQUIRE(dataplane::remove_leftovers(*storage, directory).has_value());
  }
  for (const std::size_t piece : pieces)
    REQUIRE(storage->unlink(filler(piece)).has_value());
  REQUIRE(publish(3).has_value());
  CHECK(newest() == 3);
}

void check_durable_before_named(dataplane::disk_kind kind, const std::string& format) {
  loop_disk loop(format);
  if (!loop.mounted()) return;
  const auto storage = std::move(dataplane::choose_disk(kind)->storage);
  const std::string directory = loop.root() + "/checkpoints";
  REQUIRE(dataplane::make_directories(*storage, directory));
  auto writer = dataplane::bundle_writer::begin(*storage, directory, crash_epoch(1));
  REQUIRE(writer);
  const std::string unfinished = fs::path(writer->directory()).filename();
  const std::string content(std::size_t{300} << 10, 'c');
  REQUIRE(write_sections(*writer, content, std::nullopt));
  dataplane::publication what;
  what.run_id = "loop";
  what.step = 1;
  what.still_current = [&loop]() -> result<void> {
    loop.copy();
    return {};
  };
  REQUIRE(writer->publish(std::move(what)));

  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory + "/step_1")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const auto name = fs::relative(entry.path(), directory + "/step_1");
    CAPTURE(name);
    const auto copy = loop.copied_root() + "/checkpoints/" + unfinished + "/" + name.string();
    const auto told = dataplane::read_file(*storage, copy, content.size() * 2);
    const auto meant = dataplane::read_file(*storage, entry.path(), content.size() * 2);
    REQUIRE(told);
    REQUIRE(meant);
    CHECK(*told == *meant);
  }
  CHECK(files == 4); // MANIFEST, and three sections.
}

void check_lost_at_write_back(dataplane::disk_kind kind) {
  // Small folders lie in their inodes, so that only the bytes of files need blocks.
  loop_disk loop("-b 4096 -I 256 -O inline_data,metadata_csum,^uninit_bg,^has_journal "
                 "-E lazy_itable_init=0 ");
  if (!loop.mounted()) return;
  const std::string directory = loop.root() + "/ck";
  REQUIRE(fs::create_directory(directory));
  fs::remove(loop.root() + "/lost+found");
  if (!loop.lose_free_blocks()) return;
  const auto storage = std::move(dataplane::choose_disk(kind)->storage);
  auto writer = dataplane::bundle_writer::begin(*storage, directory, crash_epoch(1));
  REQUIRE(writer);
  const std::vector<std::byte> content(5000);
  auto section =
      dataplane::write_section(*storage, writer->directory(), "policy/0", crash_epoch(1), content);
  if (!section) { // Told as early as that.
    CHECK(section.error().text.starts_with(loop.root()));
    return;
  }
  REQUIRE(writer->add(std::move(*section)));
  CHECK_FALSE(writer->publish(publication_of(1)).has_value());
}

} // namespace

TEST_SUITE("crash/loop_disk") {
  TEST_CASE("bytes that find no block when they are written back cost the bundle") {
    ::sync(); // Files are synced together only while little is dirty.
    check_lost_at_write_back(dataplane::disk_kind::posix);
    check_lost_at_write_back(dataplane::disk_kind::automatic);
  }

  TEST_CASE("the device has all of a bundle before the bundle gets its name") {
    ::sync(); // Files are synced together only while little is dirty.
    for (const auto kind : {dataplane::disk_kind::posix, dataplane::disk_kind::automatic})
      for (const char* format : {"", "-O ^has_journal "})
        check_durable_before_named(kind, format);
  }

  TEST_CASE("a full file system costs the new bundle only, and is told as such") {
    check_full(dataplane::disk_kind::posix);
    check_full(dataplane::disk_kind::automatic); // io_uring, where the kernel allows it.
  }
}

} // namespace weir::test
