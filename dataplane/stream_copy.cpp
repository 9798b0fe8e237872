#include "dataplane/stream_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#  include <emmintrin.h>
#endif

namespace weir::dataplane {

#if defined(__SSE2__)

namespace {

constexpr std::size_t line_bytes = 64;
/// A shorter value is not worth its two ends.
constexpr std::size_t value_bytes_min = 1024;
/// Pages that are copied side by side, and what is taken of each in turn: memory answers several
/// streams at once, and no hardware fetches ahead beyond the end of a page.
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t streams = 4;
constexpr std::size_t turn_bytes = 8 * line_bytes;
/// How far ahead of the copy lines are asked for, into the nearest cache alone.
constexpr std::size_t ahead_bytes = 4 * line_bytes;

void copy_line(std::byte* target, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(target);
  const __m128i first = _mm_loadu_si128(from);
  const __m128i second = _mm_loadu_si128(from + 1);
  const __m128i third = _mm_loadu_si128(from + 2);
  const __m128i fourth = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, first);
  _mm_stream_si128(to + 1, second);
  _mm_stream_si128(to + 2, third);
  _mm_stream_si128(to + 3, fourth);
}

void copy_pages(std::byte* target, const std::byte* source) {
  for (std::size_t turn = 0; turn < page_bytes; turn += turn_bytes)
    for (std::size_t page = 0; page < streams * page_bytes; page += page_bytes)
      for (std::size_t line = 0; line < turn_bytes; line += line_bytes) {
        const std::byte* from = source + page + turn + line;
        // What lies behind the last page is asked for too: that cannot fail.
        _mm_prefetch(reinterpret_cast<const char*>(from) + ahead_bytes, _MM_HINT_NTA);
        copy_line(target + page + turn + line, from);
      }
}

} // namespace

stream_copy::~stream_copy() {
  if (streams_) _mm_sfence();
}

void stream_copy::copy(std::byte* target, std::span<const std::byte> source) const {
  if (!streams_ || source.size() < value_bytes_min) {
    std::memcpy(target, source.data(), source.size());
    return;
  }
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(target) % line_bytes;
  if (misplaced != 0) {
    const std::size_t head = line_bytes - misplaced;
    std::memcpy(target, source.data(), head);
    target += head;
    source = source.subspan(head);
  }
  for (; source.size() >= streams * page_bytes; source = source.subspan(streams * page_bytes)) {
    copy_pages(target, source.data());
    target += streams * page_bytes;
  }
  while (source.size() >= line_bytes) {
    copy_line(target, source.data());
    target += line_bytes;
    source = source.subspan(line_bytes);
  }
  if (!source.empty()) std::memcpy(target, source.data(), source.size());
}

#else

stream_copy::~stream_copy() = default;

void stream_copy::copy(std::byte* target, std::span<const std::byte> source) const {
  std::memcpy(target, source.data(), source.size());
}

#endif

} // namespace weir::dataplane
