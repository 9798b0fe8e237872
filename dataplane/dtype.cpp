#include "dataplane/dtype.hpp"

namespace weir::dataplane {

namespace {

/// What a first byte says: how many bytes follow, and the least code point of that length.
struct utf8_head {
  unsigned following = 0;
  std::uint32_t bits = 0;
  std::uint32_t least = 0;
};

std::optional<utf8_head> head_of(unsigned byte) noexcept {
  if (byte < 0x80) return utf8_head{0, byte, 0};
  if ((byte & 0xe0U) == 0xc0) return utf8_head{1, byte & 0x1fU, 0x80};
  if ((byte & 0xf0U) == 0xe0) return utf8_head{2, byte & 0x0fU, 0x800};
  if ((byte & 0xf8U) == 0xf0) return utf8_head{3, byte & 0x07U, 0x10000};
  return std::nullopt;
}

} // namespace

bool is_utf8(std::span<const std::byte> text) noexcept {
  constexpr std::uint32_t code_point_max = 0x10ffff;
  for (std::size_t at = 0; at < text.size();) {
    const auto head = head_of(std::to_integer<unsigned>(text[at++]));
    if (!head || head->following > text.size() - at) return false;
    std::uint32_t point = head->bits;
    for (unsigned more = 0; more < head->following; ++more) {
      const auto byte = std::to_integer<unsigned>(text[at++]);
      if ((byte & 0xc0U) != 0x80) return false;
      point = point << 6U | (byte & 0x3fU);
    }
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (point < head->least || point > code_point_max || surrogate) return false;
  }
  return true;
}

} // namespace weir::dataplane
