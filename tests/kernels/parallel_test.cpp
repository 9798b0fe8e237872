#include "kernels/parallel.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

using namespace weir::kernels;

TEST_SUITE("kernels/parallel") {
  TEST_CASE("every task runs once, on a thread below the limit, for any number of tasks") {
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      thread_pool pool({.threads = threads, .niceness = 1});
      CHECK(pool.threads() == threads);
      for (const std::size_t count : {0U, 1U, 2U, 7U, 100U}) {
        std::vector<int> runs(count, 0);
        std::atomic<std::size_t> beyond{0};
        auto task = [&](std::size_t index, std::size_t thread) {
          ++runs[index];
          beyond += thread >= threads ? 1U : 0U;
        };
        pool.run(count, task);
        CHECK(runs == std::vector<int>(count, 1));
        CHECK(beyond == 0);
      }
    }
  }

  TEST_CASE("what the tasks wrote is visible after run, thousands of times") {
    thread_pool pool({.threads = 3});
    std::vector<std::size_t> values(5, 0);
    auto task = [&](std::size_t index, std::size_t) { values[index] += index; };
    for (std::size_t round = 1; round <= 2000; ++round)
      pool.run(values.size(), task);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] == 2000 * i);
  }

  TEST_CASE("zero threads mean the calling one") {
    thread_pool pool({.threads = 0});
    CHECK(pool.threads() == 1);
    std::size_t total = 0;
    auto task = [&](std::size_t index, std::size_t) { total += index; };
    pool.run(4, task);
    CHECK(total == 6);
  }
}
