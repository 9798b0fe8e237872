#include "tests/simulation/sweep.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace weir::sim {

namespace {

/// What a worker tells of one seed, in one write.
struct told {
  std::uint64_t seed = 0;
  std::uint64_t crashes = 0;
  std::uint64_t lives = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  bool begun = false; ///< Only that it begins this seed.
  bool clean = true;
};

struct totals {
  std::uint64_t seeds = 0;
  std::uint64_t crashes = 0;
  std::uint64_t lives = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  std::vector<std::uint64_t> failing;
};

struct worker {
  pid_t process = -1;
  int from = -1;
  std::uint64_t at = 0;   ///< The seed under way.
  std::uint64_t next = 0; ///< The one after it.
};

void tell(int to, const told& what) {
  if (::write(to, &what, sizeof(what)) != static_cast<ssize_t>(sizeof(what))) std::_Exit(3);
}

/// The life of a worker: every `stride`-th seed from `first` on.
[[noreturn]] void work(int to, const sweep_options& options, std::uint64_t first,
                       std::uint64_t stride) {
  constexpr int described_max = 2;
  run_options run = options.run;
  int described = 0;
  for (std::uint64_t seed = first; seed <= options.last; seed += stride) {
    run.seed = seed;
    told what;
    what.seed = seed;
    what.begun = true;
    tell(to, what);
    const run_report report = run_seed(run);
    tell(to, {seed, report.crashes, report.lives, report.steps, report.messages, false,
              report.clean()});
    if (!report.clean() && described++ < described_max)
      std::fprintf(stderr, "%s\n", describe(report).c_str());
  }
  std::_Exit(0);
}

worker start(const sweep_options& options, std::uint64_t first) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process < 0) std::abort();
  if (process == 0) {
    ::close(ends[0]);
    work(ends[1], options, first, options.jobs);
  }
  ::close(ends[1]);
  return {process, ends[0], 0, first};
}

void note(totals& sum, const told& what) {
  ++sum.seeds;
  sum.crashes += what.crashes;
  sum.lives += what.lives;
  sum.steps += what.steps;
  sum.messages += what.messages;
  if (!what.clean) sum.failing.push_back(what.seed);
}

/// Reads one report; false once the worker has no seed left. One that died goes on after the seed
/// that it died of.
bool attend(worker& attended, const sweep_options& options, totals& sum) {
  told what;
  if (::read(attended.from, &what, sizeof(what)) == static_cast<ssize_t>(sizeof(what))) {
    if (what.begun) {
      attended.at = what.seed;
      attended.next = what.seed + options.jobs;
    } else {
      attended.at = 0;
      note(sum, what);
    }
    return true;
  }
  ::close(attended.from);
  int status = 0;
  ::waitpid(attended.process, &status, 0);
  if (attended.at == 0) return false;
  std::fprintf(stderr, "seed %" PRIu64 ": an invariant does not hold (signal %d)\n\n", attended.at,
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  ++sum.seeds;
  sum.failing.push_back(attended.at);
  if (attended.next > options.last) return false;
  attended = start(options, attended.next);
  return true;
}

/// A rule was noticed: the other workers have nothing to add.
void end(const worker& ended) {
  ::close(ended.from);
  ::kill(ended.process, SIGKILL);
  ::waitpid(ended.process, nullptr, 0);
}

bool noticed(const totals& sum, const sweep_options& options) {
  return sum.failing.size() >= options.until;
}

int summarize(const totals& sum, const sweep_options& options) {
  std::printf("%" PRIu64 " seeds: %" PRIu64 " lives, %" PRIu64 " crashes (%.1f a seed), %" PRIu64
              " steps, %" PRIu64 " messages; %zu violations\n",
              sum.seeds, sum.lives, sum.crashes,
              static_cast<double>(sum.crashes) / static_cast<double>(sum.seeds), sum.steps,
              sum.messages, sum.failing.size());
  const bool expected = !options.run.without.empty();
  if (sum.failing.empty()) return expected ? 1 : 0;
  std::printf("failing seeds:");
  for (const std::uint64_t seed : sum.failing)
    std::printf(" %" PRIu64, seed);
  std::printf("\n");
  return expected == noticed(sum, options) ? 0 : 1;
}

} // namespace

int run_one(const sweep_options& options) {
  run_options run = options.run;
  run.seed = options.first;
  run_report report = run_seed(run);
  if (!report.clean()) {
    report = shrink(run, report);
    std::printf("%s\n", describe(report).c_str());
    return run.without.empty() ? 1 : 0;
  }
  std::printf("seed %" PRIu64 ": %s\n%" PRIu64 " lives, %" PRIu64 " crashes, %" PRIu64
              " steps, %" PRIu64 " messages\ntrace %016" PRIx64 "\n",
              run.seed, to_string(report.plan).c_str(), report.lives, report.crashes, report.steps,
              report.messages, report.trace_hash);
  return run.without.empty() ? 0 : 1;
}

int run_sweep(const sweep_options& options) {
  std::vector<worker> workers;
  for (unsigned i = 0; i < options.jobs && options.first + i <= options.last; ++i)
    workers.push_back(start(options, options.first + i));
  totals sum;
  const bool expected = !options.run.without.empty();
  while (!workers.empty() && !(expected && noticed(sum, options))) {
    std::vector<pollfd> polled;
    for (const worker& each : workers)
      polled.push_back({each.from, POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0) continue; // Interrupted.
    for (std::size_t i = polled.size(); i-- > 0;)
      if (polled[i].revents != 0 && !attend(workers[i], options, sum))
        workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const worker& each : workers)
    end(each);
  return summarize(sum, options);
}

} // namespace weir::sim
