/// Rollouts that go to disk since memory is short: killed and resumed, with leftovers of the dead,
/// on a disk that is full, may not be written, or belongs to two runs.
#include "messages/block_pool.hpp"
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// Training is slow, and generation runs ahead of it with more rows than memory may hold.
small_job spilling_job() {
  return small_job({"grpo.num_prompts_per_step=8", "grpo.num_generations_per_prompt=8",
                    "policy.generation.max_new_tokens=24", "policy.generation.max_batch_size=64",
                    "async_rl.sampler.max_lookahead_versions=4", "data_plane.segment_bytes=4096",
                    "data_plane.capacity_bytes=65536", "data_plane.spill_bytes=67108864"});
}

fs::path spill_folder(const small_job& job) {
  return job.home() / "spill";
}

std::string spill_setting(const fs::path& folder) {
  return "data_plane.spill_dir=" + folder.string();
}

/// So that generation gets ahead, also where AddressSanitizer slows it down ten times; under that
/// no block is recycled.
const std::string slow_training =
    recycles_blocks() ? "trainer.learned=delay:300ms" : "trainer.learned=delay:3000ms";

void check_clean(const small_job& job) {
  const program_end audited = job.audit();
  INFO(audited.output);
  CHECK(audited.exited_with(0));
  CHECK(audited.says("clean: 0 problems"));
}

bool holds_nothing(const fs::path& folder) {
  return fs::is_directory(folder) && fs::directory_iterator(folder) == fs::directory_iterator();
}

} // namespace

TEST_SUITE("drill/spill") {
  TEST_CASE("a run that spills ends, says so, and leaves nothing in the folder") {
    small_job job = spilling_job();
    job.set(spill_setting(spill_folder(job)));
    const program_end end = job.run_failing(slow_training);
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(end.says("full segments of rollouts went to " + spill_folder(job).string()));
    CHECK(holds_nothing(spill_folder(job)));
    check_clean(job);
  }

  TEST_CASE("killed while rows are on disk, it goes on from the bundle, and the audit is clean") {
    for (const char* const point :
         {"rollout.committing=kill@24", "trainer.learned=kill@3", "trainer.consuming=kill@2",
          "bundle.section=kill@3", "bundle.before_rename=kill@2", "bundle.published=kill@2"}) {
      CAPTURE(std::string(point));
      small_job job = spilling_job();
      job.set(spill_setting(spill_folder(job)));
      const program_end killed =
          job.run_failing(std::string("trainer.consumed=delay:300ms,") + point);
      INFO(killed.output);
      REQUIRE(killed.by_signal);
      REQUIRE(killed.status == SIGKILL);
      // Killed between making a file and taking its name away, it would have left this.
      write_file(spill_folder(job) / "spill-7", "of the dead");
      const program_end resumed = job.run_failing(slow_training);
      INFO(resumed.output);
      CHECK(resumed.exited_with(0));
      CHECK(resumed.says("incarnation 2"));
      CHECK(holds_nothing(spill_folder(job)));
      check_clean(job);
    }
  }

  TEST_CASE("two runs share a folder") {
    small_job one = spilling_job();
    small_job other = spilling_job();
    const fs::path folder = spill_folder(one);
    one.set(spill_setting(folder));
    other.set(spill_setting(folder));
    program first(one.command({"--failpoints", slow_training}));
    program second(other.command({"--failpoints", slow_training}));
    const program_end first_end = first.wait();
    const program_end second_end = second.wait();
    INFO(first_end.output);
    INFO(second_end.output);
    CHECK(first_end.exited_with(0));
    CHECK(second_end.exited_with(0));
    CHECK(first_end.says("full segments of rollouts went to "));
    CHECK(second_end.says("full segments of rollouts went to "));
    CHECK(holds_nothing(folder));
    check_clean(one);
    check_clean(other);
  }

  TEST_CASE("a folder that cannot be used is an error at the start, by the name of its key") {
    small_job job = spilling_job();
    write_file(job.home() / "file", "");
    const program_end a_file = job.run({"--set", spill_setting(job.home() / "file")});
    INFO(a_file.output);
    CHECK(a_file.exited_with(1));
    CHECK(a_file.says("data_plane.spill_dir: "));
    CHECK(a_file.says("file: is a file, and a directory is needed there"));
    if (::getuid() == 0) {
      constexpr uid_t nobody = 65534;
      fs::permissions(job.home(), fs::perms::others_exec | fs::perms::others_read,
                      fs::perm_options::add);
      fs::create_directory(job.home() / "locked");
      const program_end locked =
          run_program(job.command({"--set", spill_setting(job.home() / "locked")}), nobody);
      INFO(locked.output);
      CHECK(locked.exited_with(1));
      CHECK(locked.says("data_plane.spill_dir: " + (job.home() / "locked").string()));
      CHECK(locked.says("Permission denied; make room or give the rights"));
    }
    CHECK_FALSE(fs::exists(job.run_directory()));
  }

  TEST_CASE("a disk that fills up keeps rollouts in memory, and the run waits and ends") {
    small_job job = spilling_job();
    const fs::path folder = spill_folder(job);
    fs::create_directories(folder);
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=72k") == 0;
    if (!mounted) {
      MESSAGE("skipped: a file system can be mounted by root only");
      return;
    }
    write_file(folder / "filler", std::string(std::size_t{4} << 10U, 'x'));
    job.set(spill_setting(folder));
    const program_end end = job.run_failing(slow_training);
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(end.says("rollouts stay in memory, since they cannot be spilled: no space: "));
    CHECK(end.says("spill"));
    check_clean(job);
    CHECK(::umount2(folder.c_str(), MNT_DETACH) == 0);
  }
}

} // namespace weir::test
