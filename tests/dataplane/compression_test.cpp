/// LZ4 frames against the library's own decoder, the shuffle against its definition.
#include "dataplane/compression.hpp"

#include <doctest/doctest.h>
#include <lz4frame.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& one : made)
    one = static_cast<std::byte>(random());
  return made;
}

/// Token ids below 5000, as 4-byte integers.
std::vector<std::byte> tokens(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> ids(count);
  for (std::uint32_t& id : ids)
    id = static_cast<std::uint32_t>(random() % 5000);
  std::vector<std::byte> made(count * 4);
  if (count > 0) std::memcpy(made.data(), ids.data(), made.size());
  return made;
}

std::vector<std::byte> stored(const std::vector<std::byte>& content) {
  const auto head = stored_frame_head(content.size());
  std::vector<std::byte> frame(head.begin(), head.end());
  frame.insert(frame.end(), content.begin(), content.end());
  frame.insert(frame.end(), stored_frame_tail.begin(), stored_frame_tail.end());
  return frame;
}

std::vector<std::byte> shuffled(const std::vector<std::byte>& content, std::size_t element_bytes) {
  std::vector<std::byte> target(content.size());
  shuffle_bytes(content, element_bytes, target);
  return target;
}

/// One whole frame of so many bytes of content, or nothing.
std::optional<std::vector<std::byte>> decoded_by_library(const std::vector<std::byte>& frame,
                                                         std::size_t bytes) {
  LZ4F_dctx* context = nullptr;
  REQUIRE(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) == 0);
  std::vector<std::byte> out(bytes);
  std::size_t in = frame.size();
  std::size_t made = out.size();
  const auto left = LZ4F_decompress(context, out.data(), &made, frame.data(), &in, nullptr);
  LZ4F_freeDecompressionContext(context);
  if (left != 0 || in != frame.size() || made != bytes) return std::nullopt;
  // A frame that is to be skipped is one for the library.
  if ((std::to_integer<unsigned>(frame[0]) & 0xf0U) == 0x50U) return std::nullopt;
  return out;
}

} // namespace

TEST_SUITE("dataplane/compression") {
  TEST_CASE("both kinds of frame give their content back, at every edge of sizes") {
    for (const std::size_t count : {0UL, 1UL, 15UL, 16UL, 16385UL, frame_content_max / 4}) {
      CAPTURE(count);
      const auto content = tokens(count, count);
      std::vector<std::byte> frame;
      std::vector<std::byte> decoded(content.size());
      compress_frame(content, frame);
      CHECK(frame.size() <= frame_bytes_max(content.size()));
      CHECK(decompress_frame(frame, decoded).has_value());
      CHECK(decoded == content);
      if (content.empty()) continue;
      decoded.assign(content.size(), std::byte{0});
      frame = stored(content);
      CHECK(frame.size() <= content.size() + 23);
      CHECK(decompress_frame(frame, decoded).has_value());
      CHECK(decoded == content);
    }
  }

  TEST_CASE("a frame decodes into its own size only, and no prefix or extension of it decodes") {
    const auto content = tokens(100, 1);
    std::vector<std::byte> frame;
    compress_frame(content, frame);
    std::vector<std::byte> decoded(content.size() + 1);
    const std::span<std::byte> target(decoded);
    CHECK(decompress_frame(frame, target.first(content.size())).has_value());
    CHECK(decompress_frame(frame, target).error().code == errc::corrupt);
    CHECK(decompress_frame(frame, target.first(content.size() - 1)).error().code == errc::corrupt);
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes)
      CHECK_FALSE(decompress_frame(std::span(frame).first(bytes), target.first(content.size()))
                      .has_value());
    frame.push_back(std::byte{0});
    CHECK_FALSE(decompress_frame(frame, target.first(content.size())).has_value());
  }

  TEST_CASE("a frame with any flipped bit decodes as the library's own decoder has it") {
    const auto content = tokens(100, 1);
    std::vector<std::byte> frame;
    compress_frame(content, frame);
    std::vector<std::byte> ours(content.size());
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      frame[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      CAPTURE(bit);
      const auto done = decompress_frame(frame, ours);
      const auto expected = decoded_by_library(frame, content.size());
      CHECK(done.has_value() == expected.has_value());
      if (expected) CHECK(ours == *expected);
      frame[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
  }

  TEST_CASE("a skippable frame is not taken for content") {
    std::vector<std::byte> frame;
    append_skippable_frame(frame, noise(40, 3));
    std::vector<std::byte> decoded;
    CHECK(decompress_frame(frame, decoded).error().code == errc::corrupt);
  }

  TEST_CASE("the shuffle puts equal byte positions together") {
    std::vector<std::byte> content;
    for (const int value : {1, 2, 3, 4, 5, 6, 7, 8})
      content.push_back(static_cast<std::byte>(value));
    const auto values = [](std::initializer_list<int> list) {
      std::vector<std::byte> made;
      for (const int value : list)
        made.push_back(static_cast<std::byte>(value));
      return made;
    };
    CHECK(shuffled(content, 4) == values({1, 5, 2, 6, 3, 7, 4, 8}));
    CHECK(shuffled(content, 2) == values({1, 3, 5, 7, 2, 4, 6, 8}));
    CHECK(shuffled(content, 1) == content);
  }

  TEST_CASE("the shuffle and its inverse cancel out") {
    for (const std::size_t element_bytes : {1UL, 2UL, 4UL})
      for (const std::size_t elements : {0UL, 1UL, 1023UL, 1024UL, 5000UL}) {
        const auto content = noise(elements * element_bytes, elements);
        std::vector<std::byte> back(content.size());
        unshuffle_bytes(shuffled(content, element_bytes), element_bytes, back);
        CHECK(back == content);
      }
  }

  TEST_CASE("the probe tells tokens from noise, short and long") {
    CHECK(compresses(tokens(1000, 1), 4));
    CHECK(compresses(tokens(1'000'000, 1), 4));
    CHECK_FALSE(compresses(noise(4000, 1), 4));
    CHECK_FALSE(compresses(noise(4'000'000, 1), 4));
    CHECK_FALSE(compresses({}, 4));
  }

  TEST_CASE("shuffled tokens compress to less than unshuffled ones") {
    const auto content = tokens(500'000, 7);
    std::vector<std::byte> plain;
    std::vector<std::byte> better;
    compress_frame(content, plain);
    compress_frame(shuffled(content, 4), better);
    CHECK(better.size() < plain.size());
    CHECK(better.size() < content.size() * 11 / 20); // One byte of four is noise, one half so.
  }
}
