#include "kernels/philox.hpp"

#include <doctest/doctest.h>

#include <set>

namespace {

using namespace weir::kernels;

TEST_SUITE("kernels/philox") {
  // The three vectors published with the generator (Random123, kat_vectors, philox4x32 10).
  TEST_CASE("the generator gives the published known answers") {
    constexpr std::uint32_t ones = 0xffffffff;
    CHECK(philox4x32({{0, 0, 0, 0}}, {{0, 0}}) ==
          philox_block{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
    CHECK(philox4x32({{ones, ones, ones, ones}}, {{ones, ones}}) ==
          philox_block{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
    CHECK(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                     {{0xa4093822, 0x299f31d0}}) ==
          philox_block{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
  }

  TEST_CASE("the generator can run in the compiler, and so on any device") {
    static_assert(philox4x32({{0, 0, 0, 0}}, {{0, 0}}).words[0] == 0x6627e8d5);
    static_assert(uniform_double({{0xffffffff, 0xffffffff, 0, 0}}) < 1.0);
    static_assert(uniform_double({{0, 0, 0, 0}}) == 0.0);
    static_assert(uniform_double({{0x80000000, 0, 0, 0}}) == 0.5);
  }

  TEST_CASE("each part of the key changes the number") {
    std::set<double> seen;
    std::size_t expected = 0;
    for (const std::uint64_t value : {0ULL, 1ULL, 2ULL, 1ULL << 32, 1ULL << 63}) {
      for (int part = 0; part < 4; ++part) {
        sampling_key key{7, 8, 9, 10};
        (part == 0   ? key.seed
         : part == 1 ? key.epoch
         : part == 2 ? key.position
                     : key.attempt) = value;
        seen.insert(sampling_stream(key).uniform(3, 4));
        ++expected;
      }
    }
    const sampling_stream stream(sampling_key{7, 8, 9, 10});
    for (std::uint32_t sibling = 0; sibling < 16; ++sibling)
      for (std::uint32_t position = 0; position < 64; ++position) {
        seen.insert(stream.uniform(sibling, position));
        ++expected;
      }
    CHECK(seen.size() == expected);
  }

  TEST_CASE("numbers are spread evenly") {
    int counts[10] = {};
    double sum = 0.0;
    constexpr int samples = 100'000;
    for (int index = 0; index < samples; ++index) {
      const sampling_key key{1, 0, static_cast<std::uint64_t>(index) / 100, 0};
      const double value = sampling_stream(key).uniform(0, static_cast<std::uint32_t>(index % 100));
      REQUIRE(value >= 0.0);
      REQUIRE(value < 1.0);
      ++counts[static_cast<int>(value * 10.0)];
      sum += value;
    }
    CHECK(sum / samples == doctest::Approx(0.5).epsilon(0.01));
    for (const int count : counts)
      CHECK(count == doctest::Approx(samples / 10).epsilon(0.05));
  }
}

} // namespace
