/// A small file system of its own, on a loop device: ENOSPC from a real journal, at whatever call
/// it comes. Skipped, with a message, where nothing can be mounted.
#include "dataplane/uring_disk.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// ext4 of 4 MiB, seen by this process and its children only.
class loop_disk {
public:
  loop_disk() {
    fs::create_directories(root());
    const std::string image = dir_.file("image");
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               run("truncate -s 4M " + image) && run("mkfs.ext4 -q -F " + image) &&
               run("mount -o loop " + image + " " + root());
    if (!mounted_) MESSAGE("skipped: a loop device can be mounted by root only");
  }
  ~loop_disk() {
    if (mounted_) ::umount2(root().c_str(), MNT_DETACH);
  }
  loop_disk(const loop_disk&) = delete;
  loop_disk& operator=(const loop_disk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string root() const { return dir_.file("mounted"); }

private:
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  temp_dir dir_;
  bool mounted_ = false;
};

/// Writes until nothing more fits, and returns whether the disk said why.
bool fill(dataplane::disk& storage, const std::string& path) {
  const auto made = storage.create(path);
  if (!made) return made.error().code == errc::no_space;
  for (const std::size_t size : {std::size_t{65536}, std::size_t{1024}}) {
    const std::vector<std::byte> bytes(size);
    for (int count = 0; count < 10'000; ++count) {
      auto written = (*made)->append(bytes);
      if (written) written = (*made)->sync();
      if (written) continue;
      if (written.error().code != errc::no_space) return false;
      break;
    }
  }
  return true;
}

} // namespace

namespace {

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
    dataplane::publication what;
    what.run_id = "loop";
    what.step = step;
    what.still_current = [] { return result<void>(); };
    const auto done = writer->publish(std::move(what));
    return done ? result<void>() : failure(done.error());
  };
  const auto newest = [&]() -> std::uint64_t {
    const auto survey = dataplane::survey_bundles(*storage, directory);
    REQUIRE(survey.has_value());
    const auto choice = dataplane::newest_valid_bundle(*storage, directory, *survey);
    REQUIRE(choice.has_value());
    return *choice ? (*choice)->chosen.content.step : no_bundle;
  };
  REQUIRE(publish(1).has_value());
  REQUIRE(fill(*storage, loop.root() + "/filler"));
  const auto full = publish(2);
  REQUIRE_FALSE(full.has_value());
  CHECK_MESSAGE(full.error().code == errc::no_space, to_string(full.error()));
  CHECK(full.error().text.starts_with(loop.root()));
  CHECK(newest() == 1);
  REQUIRE(storage->unlink(loop.root() + "/filler").has_value());
  REQUIRE(dataplane::remove_leftovers(*storage, directory).has_value());
  REQUIRE(publish(3).has_value());
  CHECK(newest() == 3);
}

} // namespace

TEST_SUITE("crash/loop_disk") {
  TEST_CASE("a full file system costs the new bundle only, and is told as such") {
    check_full(dataplane::disk_kind::posix);
    check_full(dataplane::disk_kind::automatic); // io_uring, where the kernel allows it.
  }
}

} // namespace weir::test
