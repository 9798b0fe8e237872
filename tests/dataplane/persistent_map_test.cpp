/// The persistent map against std::map under seeded random operations, with copies that must not
/// change while the original does, and a reader thread that sanitizers watch.
#include "dataplane/persistent_map.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

using weir::dataplane::persistent_map;
using model = std::map<std::uint64_t, int>;

static_assert(std::is_nothrow_move_constructible_v<persistent_map<int>>);
static_assert(std::is_copy_constructible_v<persistent_map<int>>);

model contents_of(const persistent_map<int>& map) {
  model seen;
  map.for_each(
      [&seen](std::uint64_t key, int value) { seen.emplace_hint(seen.end(), key, value); });
  return seen;
}

/// Dense keys, sparse ones, and the edges of the key space, by seed.
std::uint64_t draw_key(std::mt19937_64& random, std::uint64_t seed) {
  const std::uint64_t raw = random();
  switch (seed % 4) {
  case 0:
    return raw % 200;
  case 1:
    return (raw % 64) << ((raw >> 32) % 59);
  case 2:
    return raw % 5 == 0 ? ~(raw % 7) : raw % 3000;
  default:
    return raw & 0xf0f0'0000'0000'00ffULL;
  }
}

void mutate_once(persistent_map<int>& map, model& expected, std::mt19937_64& random,
                 std::uint64_t seed) {
  const std::uint64_t key = draw_key(random, seed);
  const int value = static_cast<int>(random() % 1000);
  switch (random() % 5) {
  case 0:
    CHECK(map.insert(key, value) == expected.emplace(key, value).second);
    break;
  case 1:
    CHECK(map.insert_or_assign(key, value) == expected.insert_or_assign(key, value).second);
    break;
  case 2:
  case 3:
    CHECK(map.erase(key) == (expected.erase(key) == 1));
    break;
  default:
    if (int* present = map.mutate(key)) {
      *present += 1;
      expected.at(key) += 1;
    } else {
      CHECK(expected.count(key) == 0);
    }
  }
}

} // namespace

TEST_SUITE("dataplane/persistent_map") {
  TEST_CASE("an empty map finds, erases and visits nothing") {
    persistent_map<int> map;
    CHECK(map.empty());
    CHECK(map.find(0) == nullptr);
    CHECK(map.mutate(7) == nullptr);
    CHECK_FALSE(map.erase(~std::uint64_t{0}));
    CHECK_FALSE(map.lower_bound(0).has_value());
    CHECK_FALSE(map.last_key().has_value());
    map.for_each([](std::uint64_t, int) { FAIL("nothing to visit"); });
    map.check_invariants();
  }

  TEST_CASE("random operations agree with std::map, and copies never change") {
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      persistent_map<int> map;
      model expected;
      std::vector<std::pair<persistent_map<int>, model>> captured;
      for (int step = 0; step < 1500; ++step) {
        mutate_once(map, expected, random, seed);
        if (random() % 97 == 0) captured.emplace_back(map, expected);
        if (captured.size() > 6)
          captured.erase(captured.begin() + static_cast<std::ptrdiff_t>(random() % 6));
      }
      CHECK(map.size() == expected.size());
      CHECK(contents_of(map) == expected);
      map.check_invariants();
      for (const auto& [copy, then] : captured) {
        CHECK(contents_of(copy) == then);
        copy.check_invariants();
      }
    }
  }

  TEST_CASE("ordered access agrees with std::map from any key") {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      persistent_map<int> map;
      model expected;
      for (int step = 0; step < 400; ++step)
        mutate_once(map, expected, random, seed);
      for (int probe = 0; probe < 200; ++probe) {
        const std::uint64_t key = draw_key(random, seed);
        const auto at = expected.lower_bound(key);
        const auto found = map.lower_bound(key);
        REQUIRE(found.has_value() == (at != expected.end()));
        if (found) CHECK(*found == at->first);
      }
      REQUIRE(map.last_key().has_value() == !expected.empty());
      if (!expected.empty()) CHECK(map.last_key() == expected.rbegin()->first);
    }
  }

  TEST_CASE("a visitor that returns false stops the walk") {
    persistent_map<int> map;
    for (std::uint64_t key = 0; key < 1000; ++key)
      map.insert(key * 3, 1);
    int visited = 0;
    map.for_each_from(900, [&visited](std::uint64_t key, int) {
      CHECK(key == 900 + 3 * static_cast<std::uint64_t>(visited));
      return ++visited < 5;
    });
    CHECK(visited == 5);
  }

  TEST_CASE("a mutation copies no value that nobody else shares") {
    persistent_map<std::shared_ptr<int>> map;
    const auto token = std::make_shared<int>(1);
    for (std::uint64_t key = 0; key < 100; ++key)
      map.insert(key, token);
    CHECK(token.use_count() == 101);
    {
      const persistent_map<std::shared_ptr<int>> copy = map;
      CHECK(token.use_count() == 101); // The capture itself copies nothing.
      map.erase(40);                   // Copies the leaf of 32..63 and nothing else.
      CHECK(token.use_count() == 101 + 31);
      map.erase(41); // The same leaf, now our own: changed in place.
      CHECK(token.use_count() == 101 + 30);
      CHECK(copy.size() == 100);
    }
    CHECK(token.use_count() == 1 + 98);
  }

  TEST_CASE("a moved-from map is empty") {
    persistent_map<int> map;
    map.insert(5, 5);
    const persistent_map<int> target = std::move(map);
    CHECK(target.size() == 1);
    map = persistent_map<int>();
    CHECK(map.empty());
    map.check_invariants();
  }

  TEST_CASE("another thread reads and drops captures while the owner mutates") {
    constexpr std::uint64_t keys = 2000;
    persistent_map<std::uint64_t> map;
    for (std::uint64_t key = 0; key < keys; ++key)
      map.insert(key, 0);
    std::atomic<persistent_map<std::uint64_t>*> handed{nullptr};
    std::atomic<bool> stop{false};
    std::atomic<bool> torn{false};
    std::thread reader([&] {
      while (!stop.load()) {
        const std::unique_ptr<persistent_map<std::uint64_t>> capture(handed.exchange(nullptr));
        if (!capture) continue;
        // Every value of one capture is of the same round.
        const std::uint64_t round = *capture->find(0);
        capture->for_each([&](std::uint64_t, std::uint64_t value) {
          if (value != round) torn = true;
        });
      }
    });
    for (std::uint64_t round = 1; round <= 60; ++round) {
      for (std::uint64_t key = 0; key < keys; ++key)
        *map.mutate(key) = round;
      delete handed.exchange(new persistent_map<std::uint64_t>(map));
    }
    stop = true;
    reader.join();
    delete handed.exchange(nullptr);
    CHECK_FALSE(torn.load());
  }
}
