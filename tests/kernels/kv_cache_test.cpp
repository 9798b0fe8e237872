#include "kernels/kv_cache.hpp"

#include <doctest/doctest.h>

#include <random>

namespace {

using namespace weir;
using namespace weir::kernels;

TEST_SUITE("kernels/kv_cache") {
  TEST_CASE("siblings share the full blocks of their prompt and copy the partial one") {
    kv_cache cache({.blocks = 16, .block_tokens = 4, .sequences = 4, .context = 16});
    const auto slots = cache.admit({.prompt_tokens = 10, .tokens_max = 15, .siblings = 3}).value();
    REQUIRE(slots.size() == 3);
    // Leader: 4 blocks; two siblings: 2 each, because 2 full blocks are shared.
    CHECK(cache.promised_blocks() == 8);
    cache.extend(slots[0], 10);
    CHECK(cache.table(slots[0]).size() == 3);
    const auto copy = cache.fork(slots[0], slots[1], 10);
    REQUIRE(copy.has_value());
    CHECK(copy->from == cache.table(slots[0])[2]);
    CHECK(copy->to == cache.table(slots[1])[2]);
    CHECK(copy->from != copy->to);
    CHECK(cache.table(slots[1])[0] == cache.table(slots[0])[0]);
    CHECK(cache.references(cache.table(slots[0])[1]) == 2);
    cache.check_invariants();
    cache.release(slots[0]);
    CHECK(cache.references(cache.table(slots[1])[1]) == 1);
    cache.release(slots[1]);
    cache.release(slots[2]);
    CHECK(cache.free_blocks() == 16);
    CHECK(cache.promised_blocks() == 0);
    cache.check_invariants();
  }

  TEST_CASE("a prompt of whole blocks is forked without a copy") {
    kv_cache cache({.blocks = 8, .block_tokens = 4, .sequences = 2, .context = 16});
    const auto slots = cache.admit({.prompt_tokens = 8, .tokens_max = 12, .siblings = 2}).value();
    cache.extend(slots[0], 8);
    CHECK_FALSE(cache.fork(slots[0], slots[1], 8).has_value());
    cache.extend(slots[1], 9);
    CHECK(cache.table(slots[1]).size() == 3);
    cache.check_invariants();
  }

  TEST_CASE("a group that does not fit now is refused and takes nothing") {
    kv_cache cache({.blocks = 6, .block_tokens = 4, .sequences = 8, .context = 16});
    const auto first = cache.admit({.prompt_tokens = 4, .tokens_max = 16, .siblings = 1}).value();
    const auto second = cache.admit({.prompt_tokens = 4, .tokens_max = 12, .siblings = 1});
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == errc::exhausted);
    CHECK(cache.live_sequences() == 1);
    CHECK(cache.promised_blocks() == 4);
    cache.release(first[0]);
    CHECK(cache.admit({.prompt_tokens = 4, .tokens_max = 12, .siblings = 1}).has_value());
  }

  TEST_CASE("a group that can never fit is told to raise the limit") {
    kv_cache cache({.blocks = 6, .block_tokens = 4, .sequences = 2, .context = 16});
    const auto wide = cache.admit({.prompt_tokens = 1, .tokens_max = 4, .siblings = 3});
    REQUIRE_FALSE(wide.has_value());
    CHECK(wide.error().code == errc::invalid_argument);
    const auto deep = cache.admit({.prompt_tokens = 1, .tokens_max = 16, .siblings = 2});
    REQUIRE_FALSE(deep.has_value());
    CHECK(deep.error().code == errc::invalid_argument);
    CHECK(deep.error().text ==
          "a group of 2 sequences needs 8 cache blocks, of which there are 6, and 2 slots, of "
          "which there are 2 in all: raise kv_blocks or max_sequences");
  }

  struct live_sequence {
    std::uint32_t slot = 0;
    std::uint32_t tokens = 0;
    std::uint32_t tokens_max = 0;
  };

  TEST_CASE("half a million random admissions, appends and aborts leak no block") {
    std::mt19937 random(20261129);
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
    };
    kv_cache cache({.blocks = 200, .block_tokens = 4, .sequences = 64, .context = 40});
    std::vector<live_sequence> live;
    std::uint64_t admitted = 0;
    std::uint64_t refused = 0;
    for (int operation = 0; operation < 500'000; ++operation) {
      const std::uint32_t choice = draw(0, 9);
      if (choice == 0) {
        const std::uint32_t prompt = draw(1, 20);
        const kv_group group{prompt, draw(prompt, 40), draw(1, 8)};
        const auto slots = cache.admit(group);
        if (!slots) {
          ++refused;
          continue;
        }
        ++admitted;
        cache.extend((*slots)[0], prompt);
        for (std::size_t index = 0; index < slots->size(); ++index) {
          if (index > 0) std::ignore = cache.fork((*slots)[0], (*slots)[index], prompt);
          live.push_back({(*slots)[index], prompt, group.tokens_max});
        }
      } else if (!live.empty()) {
        const std::uint32_t index = draw(0, static_cast<std::uint32_t>(live.size() - 1));
        live_sequence& one = live[index];
        if (choice < 9 && one.tokens < one.tokens_max) {
          cache.extend(one.slot, ++one.tokens);
        } else {
          cache.release(one.slot);
          live[index] = live.back();
          live.pop_back();
        }
      }
      if (operation % 500 == 0) cache.check_invariants();
      REQUIRE(cache.live_sequences() == live.size());
    }
    CHECK(admitted > 1'000);
    CHECK(refused > 1'000);
    for (const live_sequence& one : live)
      cache.release(one.slot);
    cache.check_invariants();
    CHECK(cache.free_blocks() == 200);
    CHECK(cache.promised_blocks() == 0);
    CHECK(cache.live_sequences() == 0);
  }
}

} // namespace
