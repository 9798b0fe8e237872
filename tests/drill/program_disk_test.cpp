/// A full disk: a small file system of its own, where the system lets a test mount one.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstdint>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// Mounted in the run directory, seen by this process and its children only.
class small_disk {
public:
  small_disk(const fs::path& directory, const char* size) : directory_(directory) {
    fs::create_directories(directory);
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("tmpfs", directory.c_str(), "tmpfs", 0, size) == 0;
    if (!mounted_) MESSAGE("skipped: a file system can be mounted by root only");
  }
  ~small_disk() {
    if (mounted_) ::umount2(directory_.c_str(), MNT_DETACH);
  }
  small_disk(const small_disk&) = delete;
  small_disk& operator=(const small_disk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] fs::path filler() const { return directory_ / "filler"; }
  /// Leaves this many bytes.
  void fill(std::uint64_t left) const {
    struct statvfs state = {};
    REQUIRE(::statvfs(directory_.c_str(), &state) == 0);
    const std::uint64_t available = state.f_bavail * state.f_frsize;
    if (available > left) write_file(filler(), std::string(available - left, 'x'));
  }

private:
  fs::path directory_;
  bool mounted_ = false;
};

} // namespace

TEST_SUITE("drill/disk") {
  TEST_CASE("a disk that fills up costs new bundles only: the run goes on, and says so") {
    const small_job job;
    const small_disk disk(job.run_directory(), "size=8m");
    if (!disk.mounted()) return;
    REQUIRE(job.run({"--set", "grpo.max_num_steps=2"}).exited_with(0));
    const file_tree bundle = tree_of(job.bundle("step_2"));
    disk.fill(std::uint64_t{128} << 10);
    const program_end full = job.run();
    INFO(full.output);
    CHECK(full.says("step 6/6"));
    CHECK(full.says("no bundle: no space: "));
    CHECK(full.says("its last bundle was not published"));
    CHECK(full.exited_with(1)); // The last steps are not saved: this is not done.
    CHECK(tree_of(job.bundle("step_2")) == bundle);
    CHECK(run_program({"verify", job.bundle("step_2").string()}).exited_with(0));
    fs::remove(disk.filler());
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.exited_with(0));
    CHECK(resumed.says("restored step_2"));
    CHECK_FALSE(has_entry(job.checkpoints(), ".tmp-"));
    CHECK(job.audit().exited_with(0));
  }

  TEST_CASE("a disk that is full from the start is an error before anything is written") {
    const small_job job;
    const small_disk disk(job.run_directory(), "size=1m");
    if (!disk.mounted()) return;
    disk.fill(0);
    const file_tree before = tree_of(job.run_directory());
    const program_end full = job.run();
    INFO(full.output);
    CHECK(full.exited_with(1));
    CHECK(full.says("no space: checkpointing.checkpoint_dir: "));
    CHECK(full.says("make room"));
    CHECK(tree_of(job.run_directory()) == before);
  }
}

} // namespace weir::test
