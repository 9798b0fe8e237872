/// Rests of a pool's threads: when they are due, and what ends them.
#include "actors/runtime/blocking_pool.hpp"
#include "actors/runtime/processor_share.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t ms = 1'000'000;

/// A pool with a thread that rests for an hour, and then tells.
class resting_pool {
public:
  resting_pool() : pool_(make_blocking_pool({.threads = 1, .crowded_share = 0.5})) {}

  void rest() {
    ended_ = std::promise<bool>();
    ends_ = ended_.get_future();
    REQUIRE(pool_->submit([this] { ended_.set_value(give_way(1h)); }));
  }
  /// For a moment it certainly does.
  [[nodiscard]] bool is_resting() { return ends_.wait_for(50ms) == std::future_status::timeout; }
  [[nodiscard]] bool was_cut_short() {
    return ends_.wait_for(10s) == std::future_status::ready && !ends_.get();
  }
  [[nodiscard]] blocking_pool& pool() { return *pool_; }

private:
  std::promise<bool> ended_;
  std::future<bool> ends_;
  std::unique_ptr<blocking_pool> pool_;
};

} // namespace

TEST_SUITE("runtime/blocking_pool") {
  TEST_CASE("a rest ends when somebody waits, and nobody rests until they do no more") {
    resting_pool resting;
    resting.rest();
    CHECK(resting.is_resting());
    resting.pool().hurry(true);
    CHECK(resting.was_cut_short());
    resting.rest();
    CHECK(resting.was_cut_short());
    resting.pool().hurry(false);
    resting.rest();
    CHECK(resting.is_resting());
    resting.pool().hurry(true);
    resting.pool().hurry(false); // Before the thread has looked.
    CHECK(resting.was_cut_short());
  }

  TEST_CASE("a pool that is stopped ends its rests") {
    resting_pool resting;
    resting.rest();
    CHECK(resting.is_resting());
    resting.pool().stop();
    CHECK(resting.was_cut_short());
  }

  TEST_CASE("a thread of no pool does not rest") {
    CHECK_FALSE(give_way(1h));
    CHECK(give_way());
  }

  TEST_CASE("a rest that nothing ends lasts") {
    const auto pool = make_blocking_pool({.threads = 1});
    std::promise<bool> ended;
    REQUIRE(pool->submit([&] { ended.set_value(give_way(1ms)); }));
    CHECK(ended.get_future().get());
  }
}

TEST_SUITE("runtime/processor_share") {
  TEST_CASE("an undisturbed thread owes no rest, however long it runs") {
    processor_share share(0.04);
    for (std::int64_t at = ms; at < 1000 * ms; at += ms)
      CHECK(share.rest_due(at, {.ran = at, .waited = 0}) == 0);
  }

  TEST_CASE(
      "where others want the processor, a short job runs at once and a long one keeps to it") {
    processor_share share(0.04);
    processor_times totals;
    std::int64_t now = 0;
    const auto run = [&] { // A millisecond, and as long it is kept waiting.
      now += 2 * ms;
      totals.ran += ms;
      totals.waited += ms;
      const std::int64_t rest = share.rest_due(now, totals);
      now += rest;
      return rest;
    };
    for (int i = 0; i < 11; ++i)
      CHECK(run() == 0); // Ten are saved up, and one may be owed.
    const processor_times before = totals;
    const std::int64_t began = now;
    std::int64_t longest = 0;
    for (int i = 0; i < 1000; ++i)
      longest = std::max(longest, run());
    const double part =
        static_cast<double>(totals.ran - before.ran) / static_cast<double>(now - began);
    CHECK(part == doctest::Approx(0.04).epsilon(0.01));
    CHECK(longest < 60 * ms);
    now += 1000 * ms; // Away for a second: forty milliseconds, of which ten are kept.
    for (int i = 0; i < 9; ++i)
      CHECK(run() == 0);
  }

  TEST_CASE("who was hardly disturbed hardly rests") {
    processor_share share(0.04);
    processor_times totals;
    std::int64_t now = 0;
    for (int i = 0; i < 1000; ++i) {
      now += ms; // A message of 2 us in each millisecond: a thirtieth of a crowd.
      totals.ran += ms;
      totals.waited += ms / 500;
      CHECK(share.rest_due(now, totals) == 0);
    }
  }

  TEST_CASE("a rest is bounded, and who has all of it needs none") {
    const processor_times long_job{.ran = 1000 * ms, .waited = 1000 * ms};
    CHECK(processor_share(0.001).rest_due(2000 * ms, long_job) == 250 * ms);
    CHECK(processor_share(0.1).rest_due(2000 * ms, long_job) == 250 * ms);
    CHECK(processor_share(1.0).rest_due(2000 * ms, long_job) == 0);
  }
}

} // namespace weir
