/// Recycled blocks, counted by what still comes from the heap. Each case uses a size of its own.
#include "messages/block_pool.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace weir::test {
namespace {

std::vector<void*> take_many(std::size_t count, std::size_t bytes) {
  std::vector<void*> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(take_block(bytes));
    std::memset(taken.back(), 0xa5, bytes);
  }
  return taken;
}

void give_all(const std::vector<void*>& taken, std::size_t bytes) {
  for (void* each : taken)
    give_block(each, bytes);
}

} // namespace

TEST_SUITE("messages/block_pool") {
  TEST_CASE("a block that was given back is the next one of its size") {
    void* first = take_block(100);
    give_block(first, 100);
    const std::uint64_t before = blocks_from_heap();
    void* again = take_block(97);
    if (recycles_blocks()) {
      CHECK(again == first);
      CHECK(blocks_from_heap() == before);
    }
    give_block(again, 97);
  }

  TEST_CASE("blocks are apart, and as large as asked for") {
    for (const std::size_t bytes : {0UL, 1UL, 32UL, 33UL, 2047UL, 2048UL, 2049UL, 100'000UL}) {
      CAPTURE(bytes);
      const auto taken = take_many(3, bytes);
      CHECK(taken[0] != taken[1]);
      CHECK(taken[1] != taken[2]);
      give_all(taken, bytes);
    }
  }

  TEST_CASE("what one thread frees, another one takes") {
    constexpr std::size_t bytes = 1000;
    const auto made = take_many(256, bytes);
    // Four magazines; the thread keeps two of them, and frees those when it ends.
    std::thread other([&made] { give_all(made, bytes); });
    other.join();
    const std::uint64_t before = blocks_from_heap();
    const auto taken = take_many(128, bytes);
    if (recycles_blocks()) CHECK(blocks_from_heap() == before);
    give_all(taken, bytes);
  }

  TEST_CASE("a flow from one thread to another needs the heap only to begin with") {
    constexpr std::size_t bytes = 1200;
    for (int round = 0; round < 4; ++round) {
      const auto made = take_many(1000, bytes);
      std::thread other([&made] { give_all(made, bytes); });
      other.join();
    }
    const std::uint64_t before = blocks_from_heap();
    give_all(take_many(800, bytes), bytes);
    if (recycles_blocks()) CHECK(blocks_from_heap() == before);
  }

  TEST_CASE("blocks above the largest size come from the heap each time") {
    const std::uint64_t before = blocks_from_heap();
    give_block(take_block(block_bytes_max + 1), block_bytes_max + 1);
    give_block(take_block(block_bytes_max + 1), block_bytes_max + 1);
    CHECK(blocks_from_heap() == before + 2);
  }
}

} // namespace weir::test
