#include "actors/runtime/offload.hpp"
#include "actors/runtime/simulation.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// Asks a keeper so often, with a pause now and then; the last one to end finishes the run.
class asker : public actor {
public:
  using protocol = weir::protocol<>;
  asker(context ctx, handle<keeper_protocol> asked, int rounds, int* left)
      : actor(std::move(ctx)), asked_(std::move(asked)), rounds_(rounds), left_(left) {}

private:
  task<void> run() override {
    random_source random = env().random(name());
    for (int round = 0; round < rounds_; ++round) {
      const auto answer = co_await asked_.ask(probe(), within(1s));
      if (!answer) co_return fail(answer.error());
      const std::chrono::microseconds pause(random.below(50));
      co_await clock().after(pause);
    }
    if (--*left_ == 0) finish_run();
  }

  handle<keeper_protocol> asked_;
  int rounds_;
  int* left_;
};

simulated_run four_askers(std::uint64_t seed) {
  int left = 4;
  return simulate(seed, [&left](graph& system) {
    const auto asked = system.add<keeper>("keeper");
    for (const char* name : {"a", "b", "c", "d"})
      system.add<asker>(name, asked, 25, &left);
  });
}

/// Runs a piece of work on the pool, then finishes.
class worker : public actor {
public:
  using protocol = weir::protocol<>;
  explicit worker(context ctx, int* runs) : actor(std::move(ctx)), runs_(runs) {}

private:
  task<void> run() override {
    const auto work = [runs = runs_] { return ++*runs; };
    const int given = co_await offload(work);
    if (given == 1) finish_run();
  }
  int* runs_;
};

TEST_SUITE_BEGIN("runtime/simulation");

TEST_CASE("a seed is a schedule: the same one gives the same trace, another one another") {
  const auto first = four_askers(1);
  CHECK(first.outcome.has_value());
  // 100 requests and 100 answers at least; pauses are messages too.
  CHECK(first.messages >= 200);
  std::set<std::uint64_t> hashes;
  for (int again = 0; again < 100; ++again)
    hashes.insert(four_askers(1).trace_hash);
  CHECK(hashes == std::set<std::uint64_t>{first.trace_hash});
  CHECK(four_askers(2).trace_hash != first.trace_hash);
}

TEST_CASE("the trace of a seed is the same on every compiler") {
  CHECK(four_askers(1).trace_hash == 11721982209697978165ULL);
}

TEST_CASE("the newest messages are told, in the order of time") {
  simulation around({.seed = 1, .trace_depth = 16});
  int left = 1;
  graph system(around.env());
  const auto asked = system.add<keeper>("keeper");
  system.add<asker>("a", asked, 1000, &left);
  REQUIRE(system.start().has_value());
  CHECK(around.run(250) == 250);
  std::istringstream told(around.describe_trace());
  std::vector<long> times;
  for (std::string line; std::getline(told, line);)
    times.push_back(std::stol(line));
  CHECK(times.size() == 16);
  CHECK(std::ranges::is_sorted(times));
  CHECK(times.back() * 1000 + 1000 >= around.elapsed().count());
  system.kill();
}

TEST_CASE("time is virtual: an hour passes at once") {
  class sleeper : public actor {
  public:
    using protocol = weir::protocol<>;
    explicit sleeper(context ctx) : actor(std::move(ctx)) {}

  private:
    task<void> run() override {
      co_await clock().after(1h);
      finish_run();
    }
  };
  const auto ended = simulate(1, [](graph& system) { system.add<sleeper>("sleeper"); });
  CHECK(ended.outcome.has_value());
  CHECK(ended.elapsed >= 1h);
  CHECK(ended.elapsed < 1h + 1s);
}

TEST_CASE("blocking work is a step of the schedule") {
  int runs = 0;
  const auto ended = simulate(1, [&runs](graph& system) { system.add<worker>("worker", &runs); });
  CHECK(ended.outcome.has_value());
  CHECK(runs == 1);
}

TEST_CASE("a deadline passes when the answer does not come") {
  simulation around({.seed = 3});
  graph system(around.env());
  const auto asked = system.add<keeper>("keeper");
  REQUIRE(system.start().has_value());
  const auto answer = system.ask_blocking(asked, pack(StartGroupT()), within(10s));
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == errc::timed_out);
  CHECK(around.elapsed() >= 10s);
}

TEST_CASE("a graph in which nobody can go on says who waits for what") {
  simulation around({.seed = 3});
  graph system(around.env());
  system.add<keeper>("keeper");
  REQUIRE(system.start().has_value());
  const auto ended = system.wait_blocking();
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().text.find("nobody can go on") != std::string::npos);
}

TEST_CASE("a crash ends every actor where it stands, and leaves nothing behind") {
  simulation around({.seed = 5});
  int left = 4;
  for (int life = 0; life < 3; ++life) {
    graph system(around.env());
    const auto asked = system.add<keeper>("keeper");
    for (const char* name : {"a", "b", "c", "d"})
      system.add<asker>(name, asked, 1000, &left);
    REQUIRE(system.start().has_value());
    CHECK(around.run(100) == 100);
    CHECK(system.counters().pending_asks > 0);
    system.kill();
    CHECK_FALSE(around.step());
    CHECK(system.counters().live_coroutines == 0);
  }
  CHECK(left == 4);
}

TEST_CASE("blocking work that a crash overtook never runs") {
  simulation around({.seed = 5, .job_delay_max = 1s});
  int runs = 0;
  graph system(around.env());
  system.add<worker>("worker", &runs);
  REQUIRE(system.start().has_value());
  CHECK(around.run(2) == 2); // of the driver and of the worker, which submits
  system.kill();
  CHECK_FALSE(around.step());
  CHECK(runs == 0);
}

TEST_SUITE_END();

} // namespace
} // namespace weir::test
