#include "dataplane/compression.hpp"

#include "dataplane/wire.hpp"

#include <lz4.h>
#include <lz4frame.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#if defined(__SSE2__)
#  include <emmintrin.h>
#endif

namespace weir::dataplane {

namespace {

constexpr std::size_t sample_pieces = 16;
constexpr std::size_t sample_piece_bytes = 4096;

LZ4F_preferences_t preferences(std::size_t content_bytes) {
  LZ4F_preferences_t chosen{};
  chosen.frameInfo.blockSizeID = LZ4F_max4MB;
  chosen.frameInfo.blockMode = LZ4F_blockIndependent;
  chosen.frameInfo.contentSize = content_bytes;
  return chosen;
}

/// The frame descriptor's code for blocks of 64 KiB, 256 KiB, 1 MiB or 4 MiB.
std::uint8_t block_size_code(std::size_t content_bytes) {
  std::uint8_t code = 4;
  for (std::size_t bytes = std::size_t{64} * 1024; bytes < content_bytes; bytes *= 4)
    ++code;
  return static_cast<std::uint8_t>(code << 4U);
}

/// With a constant element size the compiler unrolls the inner loop; 4 KiB at a time stays in the
/// first-level cache while it is walked once per byte plane.
template <std::size_t ElementBytes>
void shuffle(const std::byte* source, std::size_t elements, std::byte* target) {
  constexpr std::size_t step = 4096 / ElementBytes;
  for (std::size_t first = 0; first < elements; first += step) {
    const std::size_t last = std::min(elements, first + step);
    for (std::size_t plane = 0; plane < ElementBytes; ++plane)
      for (std::size_t at = first; at < last; ++at)
        target[plane * elements + at] = source[at * ElementBytes + plane];
  }
}

template <std::size_t ElementBytes>
void unshuffle(const std::byte* source, std::size_t elements, std::byte* target) {
  constexpr std::size_t step = 4096 / ElementBytes;
  for (std::size_t first = 0; first < elements; first += step) {
    const std::size_t last = std::min(elements, first + step);
    for (std::size_t plane = 0; plane < ElementBytes; ++plane)
      for (std::size_t at = first; at < last; ++at)
        target[at * ElementBytes + plane] = source[plane * elements + at];
  }
}

#if defined(__SSE2__)

/// Sixteen elements of four bytes: a transposition within registers.
void unshuffle_sixteen(const std::byte* source, std::size_t elements, std::byte* target) {
  const auto plane = [&](std::size_t number) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + number * elements));
  };
  const __m128i first = plane(0);
  const __m128i second = plane(1);
  const __m128i third = plane(2);
  const __m128i fourth = plane(3);
  const __m128i low = _mm_unpacklo_epi8(first, second);
  const __m128i high = _mm_unpackhi_epi8(first, second);
  const __m128i low_rest = _mm_unpacklo_epi8(third, fourth);
  const __m128i high_rest = _mm_unpackhi_epi8(third, fourth);
  auto* to = reinterpret_cast<__m128i*>(target);
  _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low_rest));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, low_rest));
  _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high, high_rest));
  _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high, high_rest));
}

/// As many elements as come in sixteens; returns how many.
std::size_t unshuffle_sixteens(const std::byte* source, std::size_t elements, std::byte* target) {
  std::size_t at = 0;
  for (; at + 16 <= elements; at += 16)
    unshuffle_sixteen(source + at, elements, target + 4 * at);
  return at;
}

#else

std::size_t unshuffle_sixteens(const std::byte*, std::size_t, std::byte*) {
  return 0;
}

#endif

void unshuffle_words(const std::byte* source, std::size_t elements, std::byte* target) {
  for (std::size_t at = unshuffle_sixteens(source, elements, target); at < elements; ++at)
    for (std::size_t plane = 0; plane < 4; ++plane)
      target[at * 4 + plane] = source[plane * elements + at];
}

void check_shuffle(std::size_t source, std::size_t target, std::size_t element_bytes) {
  ensure(source == target, "a shuffle keeps the size");
  ensure(element_bytes == 1 || element_bytes == 2 || element_bytes == 4,
         "a shuffle is of elements of 1, 2 or 4 bytes");
  ensure(source % element_bytes == 0, "a shuffle is of whole elements");
}

} // namespace

std::size_t frame_bytes_max(std::size_t content_bytes) noexcept {
  const LZ4F_preferences_t chosen = preferences(content_bytes);
  return LZ4F_compressFrameBound(content_bytes, &chosen);
}

void compress_frame(std::span<const std::byte> content, std::vector<std::byte>& target) {
  ensure(content.size() <= frame_content_max, "a frame has one block");
  const LZ4F_preferences_t chosen = preferences(content.size());
  target.resize(LZ4F_compressFrameBound(content.size(), &chosen));
  const std::size_t bytes =
      LZ4F_compressFrame(target.data(), target.size(), content.data(), content.size(), &chosen);
  ensure(LZ4F_isError(bytes) == 0, "LZ4 compresses into a buffer of the size that it asked for");
  target.resize(bytes);
}

std::array<std::byte, 19> stored_frame_head(std::size_t content_bytes) {
  ensure(content_bytes > 0 && content_bytes <= frame_content_max, "a frame has one block");
  std::vector<std::byte> head;
  detail::put(head, std::uint32_t{0x184D2204});
  // Version 1, independent blocks, content size present; then the largest size of a block, as small
  // as the content allows: a decoder takes memory for it.
  detail::put(head, std::uint8_t{0x68});
  detail::put(head, block_size_code(content_bytes));
  detail::put(head, std::uint64_t{content_bytes});
  detail::put(head, static_cast<std::uint8_t>(XXH32(head.data() + 4, 10, 0) >> 8));
  // The highest bit of a block's size says that it is stored as it is.
  detail::put(head, static_cast<std::uint32_t>(content_bytes) | 0x80000000U);
  std::array<std::byte, 19> fixed{};
  ensure(head.size() == fixed.size(), "the head of a stored frame has its size");
  std::copy(head.begin(), head.end(), fixed.begin());
  return fixed;
}

namespace {

/// Decodes a frame as `compress_frame` makes them, with one compressed block: no context, and no
/// buffer of its own. False if it is anything else.
bool decompress_block(std::span<const std::byte> frame, std::span<std::byte> target) {
  constexpr std::size_t head_bytes = 15;
  constexpr std::size_t around_bytes = stored_frame_bytes(0);
  if (target.empty() || target.size() > frame_content_max || frame.size() <= around_bytes)
    return false;
  const auto expected = stored_frame_head(target.size());
  const std::size_t block = frame.size() - around_bytes;
  // A stored block has the highest bit of its size set, and is none of this size.
  if (!std::equal(expected.begin(), expected.begin() + head_bytes, frame.begin()) ||
      detail::wire_reader(frame.subspan(head_bytes)).take<std::uint32_t>() != block ||
      !std::ranges::equal(frame.last(stored_frame_tail.size()), stored_frame_tail))
    return false;
  const int made =
      LZ4_decompress_safe(reinterpret_cast<const char*>(frame.data() + expected.size()),
                          reinterpret_cast<char*>(target.data()), static_cast<int>(block),
                          static_cast<int>(target.size()));
  return made >= 0 && static_cast<std::size_t>(made) == target.size();
}

} // namespace

result<void> decompress_frame(std::span<const std::byte> frame, std::span<std::byte> target) {
  if (decompress_block(frame, target)) return {};
  LZ4F_dctx* made = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0)
    return failure(errc::internal, "LZ4 has no memory for a decompression context");
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(
      made, &LZ4F_freeDecompressionContext);
  if (frame.size() < 4 || detail::wire_reader(frame).take<std::uint32_t>() != 0x184D2204)
    return failure(errc::corrupt, "no LZ4 frame starts here");

  std::size_t taken = 0;
  std::size_t made_bytes = 0;
  std::size_t expected = 1;
  // Each round takes or makes bytes, so that the loop ends.
  while (expected != 0) {
    std::size_t in = frame.size() - taken;
    std::size_t out = target.size() - made_bytes;
    expected = LZ4F_decompress(context.get(), target.data() + made_bytes, &out,
                               frame.data() + taken, &in, nullptr);
    if (LZ4F_isError(expected) != 0)
      return failure(errc::corrupt,
                     std::string("LZ4 frame does not decode: ") + LZ4F_getErrorName(expected));
    taken += in;
    made_bytes += out;
    if (in == 0 && out == 0) break;
  }
  if (expected != 0 || taken != frame.size() || made_bytes != target.size())
    return failure(errc::corrupt, "LZ4 frame has " + std::to_string(made_bytes) + " bytes of " +
                                      std::to_string(target.size()) + " expected, " +
                                      std::to_string(frame.size() - taken) + " left over");
  return {};
}

bool compresses(std::span<const std::byte> content, std::size_t element_bytes) {
  constexpr std::size_t sample_bytes = sample_pieces * sample_piece_bytes;
  std::array<std::byte, sample_bytes> sample;
  std::size_t bytes = content.size();
  if (bytes <= sample_bytes) {
    std::copy(content.begin(), content.end(), sample.begin());
  } else {
    bytes = sample_bytes;
    // Pieces start at multiples of 8, which every element size divides.
    const std::size_t stride = (content.size() - sample_piece_bytes) / (sample_pieces - 1) / 8 * 8;
    for (std::size_t piece = 0; piece < sample_pieces; ++piece)
      std::memcpy(sample.data() + piece * sample_piece_bytes, content.data() + piece * stride,
                  sample_piece_bytes);
  }
  std::array<std::byte, sample_bytes> shuffled;
  shuffle_bytes(std::span(sample).first(bytes), element_bytes, std::span(shuffled).first(bytes));
  std::array<char, LZ4_COMPRESSBOUND(sample_bytes)> compressed;
  const int size =
      LZ4_compress_default(reinterpret_cast<const char*>(shuffled.data()), compressed.data(),
                           static_cast<int>(bytes), static_cast<int>(compressed.size()));
  return size > 0 && static_cast<std::size_t>(size) <= bytes - bytes / 16;
}

void shuffle_bytes(std::span<const std::byte> source, std::size_t element_bytes,
                   std::span<std::byte> target) {
  check_shuffle(source.size(), target.size(), element_bytes);
  if (element_bytes == 4)
    shuffle<4>(source.data(), source.size() / 4, target.data());
  else if (element_bytes == 2)
    shuffle<2>(source.data(), source.size() / 2, target.data());
  else
    std::copy(source.begin(), source.end(), target.begin());
}

void unshuffle_bytes(std::span<const std::byte> source, std::size_t element_bytes,
                     std::span<std::byte> target) {
  check_shuffle(source.size(), target.size(), element_bytes);
  if (element_bytes == 4)
    unshuffle_words(source.data(), source.size() / 4, target.data());
  else if (element_bytes == 2)
    unshuffle<2>(source.data(), source.size() / 2, target.data());
  else
    std::copy(source.begin(), source.end(), target.begin());
}

void append_skippable_frame(std::vector<std::byte>& target, std::span<const std::byte> payload) {
  ensure(payload.size() <= frame_content_max, "a skippable frame is small");
  detail::put(target, skippable_magic);
  detail::put(target, static_cast<std::uint32_t>(payload.size()));
  target.insert(target.end(), payload.begin(), payload.end());
}

} // namespace weir::dataplane
