/// Even splits against exhaustive search, and their bound on random weights.
#include "dataplane/token_split.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

using namespace weir::dataplane;

namespace {

using weight_list = std::vector<std::uint64_t>;

weight_list sums_of(const weight_list& weights,
                    const std::vector<std::vector<std::size_t>>& parts) {
  weight_list sums;
  for (const auto& part : parts) {
    sums.push_back(0);
    for (const std::size_t at : part)
      sums.back() += weights[at];
  }
  return sums;
}

std::uint64_t heaviest_of(const weight_list& weights,
                          const std::vector<std::vector<std::size_t>>& parts) {
  const weight_list sums = sums_of(weights, parts);
  return *std::ranges::max_element(sums);
}

/// The lightest heaviest part of all splits into equally many.
std::uint64_t best_heaviest(const weight_list& weights, std::size_t parts) {
  weight_list sums(parts);
  std::vector<std::size_t> counts(parts);
  std::uint64_t best = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  const auto place = [&](const auto& self, std::size_t at) -> void {
    if (at == weights.size()) {
      best = std::min(best, *std::ranges::max_element(sums));
      return;
    }
    for (std::size_t part = 0; part < parts; ++part) {
      if (counts[part] == weights.size() / parts) continue;
      sums[part] += weights[at];
      ++counts[part];
      self(self, at + 1);
      sums[part] -= weights[at];
      --counts[part];
    }
  };
  place(place, 0);
  return best;
}

weight_list draw_weights(std::mt19937_64& random, std::size_t count, std::uint64_t most) {
  weight_list weights(count);
  for (std::uint64_t& one : weights)
    one = random() % (most + 1);
  return weights;
}

} // namespace

TEST_SUITE("dataplane/token_split") {
  TEST_CASE("every position is in one part, every part has equally many") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 200; ++round) {
      const std::size_t parts = 1 + random() % 9;
      const weight_list weights = draw_weights(random, parts * (random() % 8), 5000);
      const auto lists = split_evenly(weights, parts);
      REQUIRE(lists.size() == parts);
      std::vector<std::size_t> all;
      for (const auto& list : lists) {
        CHECK(list.size() == weights.size() / parts);
        CHECK(std::ranges::is_sorted(list));
        all.insert(all.end(), list.begin(), list.end());
      }
      std::ranges::sort(all);
      std::vector<std::size_t> wanted(weights.size());
      std::iota(wanted.begin(), wanted.end(), std::size_t{0});
      CHECK(all == wanted);
      CHECK(lists == split_evenly(weights, parts));
    }
  }

  TEST_CASE("parts differ by no more than the heaviest and the lightest weight do") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 500; ++round) {
      const std::size_t parts = 1 + random() % 16;
      const weight_list weights = draw_weights(random, parts * (1 + random() % 12), 8192);
      const weight_list sums = sums_of(weights, split_evenly(weights, parts));
      const auto [light, heavy] = std::ranges::minmax(sums);
      const auto [least, most] = std::ranges::minmax(weights);
      CHECK(heavy - light <= most - least);
    }
  }

  TEST_CASE("with two weights to a part no split is better, with three none by more than a third") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 60; ++round) {
      const weight_list pairs = draw_weights(random, 8, 100);
      CHECK(heaviest_of(pairs, split_evenly(pairs, 4)) == best_heaviest(pairs, 4));
      const weight_list triples = draw_weights(random, 9, 100);
      CHECK(3 * heaviest_of(triples, split_evenly(triples, 3)) <= 4 * best_heaviest(triples, 3));
    }
  }

  TEST_CASE("equal weights make equal parts, and one part takes all") {
    CHECK(sums_of({7, 7, 7, 7, 7, 7}, split_evenly(weight_list{7, 7, 7, 7, 7, 7}, 3)) ==
          weight_list{14, 14, 14});
    CHECK(split_evenly(weight_list{3, 1, 2}, 1) ==
          std::vector<std::vector<std::size_t>>{{0, 1, 2}});
    CHECK(split_evenly({}, 2) == std::vector<std::vector<std::size_t>>{{}, {}});
  }
}
