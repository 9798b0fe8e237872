#include "kernels/chain_schedule.hpp"
#include "kernels/parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

using weir::kernels::chain_schedule;
using weir::kernels::thread_pool;

TEST_SUITE_BEGIN("kernels/chain_schedule");

TEST_CASE("one thread takes all links, the chain that is furthest behind first") {
  chain_schedule schedule(3, 0, 7);
  std::vector<std::size_t> order;
  std::optional<chain_schedule::link> link;
  while ((link = schedule.take(link))) {
    CHECK(link->chain == link->index % 3);
    order.push_back(link->index);
  }
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a chain is never held twice, and one that is held is not waited for") {
  chain_schedule schedule(2, 0, 4);
  const auto one = schedule.take(std::nullopt);
  const auto two = schedule.take(std::nullopt);
  REQUIRE(one.has_value());
  REQUIRE(two.has_value());
  CHECK(one->index == 0);
  CHECK(two->index == 1);
  CHECK_FALSE(schedule.take(std::nullopt).has_value());
  const auto third = schedule.take(one);
  REQUIRE(third.has_value());
  CHECK(third->index == 2);
  CHECK_FALSE(schedule.take(third).has_value()); // Link 3 waits for link 1.
  const auto last = schedule.take(two);
  REQUIRE(last.has_value());
  CHECK(last->index == 3);
  CHECK_FALSE(schedule.take(last).has_value());
}

TEST_CASE("fewer links than chains, and none, come to an end") {
  chain_schedule few(4, 0, 2);
  const auto one = few.take(std::nullopt);
  const auto two = few.take(one);
  REQUIRE(two.has_value());
  CHECK(two->index == 1);
  CHECK_FALSE(few.take(two).has_value());
  chain_schedule none(4, 0, 0);
  CHECK_FALSE(none.take(std::nullopt).has_value());
}

TEST_CASE("links that come later join the chains that earlier ones went to") {
  chain_schedule schedule(4, 6, 11);
  std::vector<std::size_t> order;
  std::optional<chain_schedule::link> link;
  while ((link = schedule.take(link))) {
    CHECK(link->chain == link->index % 4);
    order.push_back(link->index);
  }
  CHECK(order == std::vector<std::size_t>{6, 7, 8, 9, 10});
}

TEST_CASE("with threads every link runs once, in the order of its chain") {
  constexpr std::size_t chains = 4;
  constexpr std::size_t links = 403;
  thread_pool pool({.threads = 4});
  for (int round = 0; round < 20; ++round) {
    chain_schedule schedule(chains, 0, links);
    std::array<std::vector<std::size_t>, chains> done; // Each is written by its holder only.
    auto run = [&](std::size_t, std::size_t) {
      std::optional<chain_schedule::link> link;
      while ((link = schedule.take(link)))
        done[link->chain].push_back(link->index);
    };
    pool.run(chains, run);
    std::size_t total = 0;
    for (std::size_t chain = 0; chain < chains; ++chain) {
      total += done[chain].size();
      CHECK(std::ranges::is_sorted(done[chain]));
    }
    CHECK(total == links);
  }
}

TEST_SUITE_END();
