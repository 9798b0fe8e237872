/// What a restore costs beyond reading the bundle, and what a bundle after every step costs a job.
///
/// A restore reads the bundle twice, from the disk to verify it and from the page cache to load it,
/// and decodes ledger, replay index and rows. Its files are read bare, into fresh memory, in the
/// same turn; what is left of the restore's time is the figure. The job is the arithmetic example,
/// without its warm-up, in a process of its own, start and end included.
#include "benchmarks/checkpoint_job_bench.hpp"

#include "actors/checkpoint/pool_jobs.hpp"
#include "actors/checkpoint/restore.hpp"
#include "actors/replay/replay_state.hpp"
#include "actors/sampler/sampler_state.hpp"
#include "benchmarks/checkpoint_graph.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/segment.hpp"
#include "dataplane/store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace weir::benchmarks {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  return files;
}

/// Has the next read of the files be one of the disk.
void forget(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ensure(opened >= 0, "a file of the bundle is there");
    ::posix_fadvise(opened, 0, 0, POSIX_FADV_DONTNEED);
    ::close(opened);
  }
}

double bare_read_seconds(const std::vector<std::string>& files) {
  constexpr std::size_t piece = std::size_t{4} << 20;
  std::vector<std::shared_ptr<dataplane::segment>> kept;
  return seconds_of([&] {
    for (const std::string& path : files) {
      const std::uint64_t bytes = fs::file_size(path);
      kept.push_back(dataplane::segment::allocate(bytes));
      const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      auto target = kept.back()->writable(0, bytes);
      while (!target.empty()) {
        const auto got = ::read(opened, target.data(), std::min(piece, target.size()));
        ensure(got > 0, "a file of the bundle can be read");
        target = target.subspan(static_cast<std::size_t>(got));
      }
      ::close(opened);
    }
  });
}

class restored_run {
public:
  explicit restored_run(std::string directory)
      : graph_({.payload_bytes = 1ULL << 30}, directory + "/saved"),
        storage_(dataplane::make_posix_disk()),
        pool_(make_blocking_pool({.threads = 1, .queue_limit = 4096, .nice = 0})) {
    std::ignore = graph_.publish();
    auto locked = dataplane::run_directory::acquire(*storage_, directory + "/restored",
                                                    {dataplane::this_process(), "now"});
    ensure(locked.has_value(), "the directory is fresh");
    directory_ = std::make_unique<dataplane::run_directory>(std::move(*locked));
    request_.checkpoint_directory = graph_.bundles();
    request_.groups_per_step = checkpoint_graph_groups_per_step;
    auto policy = make_sampler_policy({.name = "windowed"});
    ensure(policy.has_value(), "the sampler has a policy");
    request_.policy = *policy;
    request_.run_jobs = jobs_on(*pool_);
  }

  /// Of a restore, less those of a bare read; both from the disk.
  double seconds_beyond_reading() {
    const auto files = files_below(request_.checkpoint_directory);
    forget(files);
    const double bare = bare_read_seconds(files);
    forget(files);
    return restore_seconds() - bare;
  }

private:
  double restore_seconds() {
    sampler_state ledger(request_.policy, request_.groups_per_step, failure_limits());
    replay_state index(request_.policy, {.groups_buffered_max = 20'000});
    dataplane::store rows;
    return seconds_of([&] {
      const auto begun = begin_life(*storage_, *directory_, request_, "benchmark",
                                    [](const restored_states&) { return result<void>(); });
      if (!begun) std::fprintf(stderr, "checkpoint_bench: %s\n", to_string(begun.error()).c_str());
      ensure(begun.has_value() && begun->states.has_value(), "the bundle is restored");
      ensure(ledger.load(begun->states->sampler).has_value(), "the ledger is loaded");
      ensure(index.load(begun->states->replay).has_value(), "the replay index is loaded");
      rows.restore(begun->states->rows);
    });
  }

  checkpoint_graph graph_;
  std::unique_ptr<dataplane::disk> storage_;
  std::unique_ptr<blocking_pool> pool_; ///< With the caller, both cores.
  std::unique_ptr<dataplane::run_directory> directory_;
  restore_request request_;
};

#if defined(WEIR_PROGRAM)

/// Seconds of `steps` steps of the arithmetic example with a bundle after every `period`th.
double job_seconds(const std::string& directory, int steps, int period) {
  fs::remove_all(directory);
  const std::string command =
      std::string(WEIR_PROGRAM) + " run " + WEIR_SOURCE_ROOT + "/examples/arithmetic/grpo.yaml" +
      " --set grpo.max_num_steps=" + std::to_string(steps) +
      " --set policy.warmup.max_steps=0"
      " --set policy.warmup.stop_at_reward=null --set checkpointing.save_period=" +
      std::to_string(period) + " --set checkpointing.checkpoint_dir=" + directory +
      "/checkpoints >" + directory + ".log 2>&1";
  int status = 0;
  const double seconds = seconds_of([&] { status = std::system(command.c_str()); });
  ensure(status == 0, "the job ends well; its output is beside the figures");
  return seconds;
}

#endif

} // namespace

row restore_row(const std::string& directory) {
  restored_run run(directory + "/restore");
  return compare(
      {"restore of 10,000 groups and 1 GiB, beyond reading the files", "s", "target", 1.0,
       better::lower},
      [&] { return run.seconds_beyond_reading(); }, [] { return 2.0; });
}

row every_step_row(const std::string& directory) {
  claim what{"main job with a bundle after every step (24 steps)", "s", "the same without", 1.05,
             better::lower};
#if defined(WEIR_PROGRAM)
  // The speed of a machine that others use, too, drifts within seconds by more than what is
  // measured: many short pairs say more than few long ones (of 60 x 24 steps the median is known
  // to 1 %, of 30 x 48 to 2 %).
  constexpr int steps = 24;
  constexpr std::size_t turns = 60;
  const std::string run = fs::absolute(directory).string() + "/job";
  return compare(
      std::move(what), [&] { return job_seconds(run, steps, 1); },
      [&] { return job_seconds(run, steps, 1'000'000); }, turns);
#else
  return skip(std::move(what), "the program is not built: configure with -Dexamples=enabled");
#endif
}

} // namespace weir::benchmarks
