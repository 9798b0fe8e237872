#include "actors/audit/line_reader.hpp"

#include <charconv>
#include <limits>

namespace weir::detail {

bool line_reader::take(std::string_view text) {
  if (!mistake_.empty() || !rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

void line_reader::literal(std::string_view text) {
  if (!take(text)) require(false, text);
}

void line_reader::key(std::string_view name) {
  if (!has_key(name)) require(false, "key \"" + std::string(name) + "\"");
}

bool line_reader::has_key(std::string_view name) {
  const std::string_view next = rest();
  const std::size_t length = name.size() + 4;
  if (!mistake_.empty() || next.size() < length) return false;
  if (next[0] != ',' || next[1] != '"' || next.substr(2, name.size()) != name) return false;
  if (next[length - 2] != '"' || next[length - 1] != ':') return false;
  at_ += length;
  return true;
}

std::uint64_t line_reader::number() {
  if (!mistake_.empty()) return 0;
  std::uint64_t value = 0;
  const std::string_view next = rest();
  const auto [end, failed] = std::from_chars(next.data(), next.data() + next.size(), value);
  const auto length = static_cast<std::size_t>(end - next.data());
  const bool is_canonical = length == 1 || (length > 1 && next[0] != '0');
  require(failed == std::errc{} && is_canonical, "a number of 64 bits");
  if (!mistake_.empty()) return 0;
  at_ += length;
  return value;
}

std::int64_t line_reader::step() {
  const std::uint64_t value = number();
  require(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
          "a number of 63 bits");
  return mistake_.empty() ? static_cast<std::int64_t>(value) : 0;
}

std::optional<char> line_reader::escaped() {
  if (take("\\\"")) return '"';
  if (take("\\\\")) return '\\';
  unsigned byte = 0;
  if (take("\\u00")) {
    for (int nibble = 0; nibble < 2; ++nibble) {
      const std::size_t digit = rest().empty()
                                    ? std::string_view::npos
                                    : std::string_view("0123456789abcdef").find(rest()[0]);
      if (digit == std::string_view::npos) return std::nullopt;
      byte = byte * 16 + static_cast<unsigned>(digit);
      ++at_;
    }
    // What can stand for itself is never escaped: there is one way to write a string.
    if (byte < 0x20 || byte > 0x7e) return static_cast<char>(byte);
  }
  return std::nullopt;
}

std::string line_reader::text() {
  std::string value;
  literal("\"");
  while (mistake_.empty() && !take("\"")) {
    const unsigned char next = rest().empty() ? 0 : static_cast<unsigned char>(rest()[0]);
    if (next == '\\') {
      const auto letter = escaped();
      require(letter.has_value(), "an escape \\\", \\\\ or \\u00xx");
      value += letter.value_or(' ');
    } else if (next < 0x20 || next > 0x7e) {
      require(false, "printable text and a closing quote");
    } else {
      value += static_cast<char>(next);
      ++at_;
    }
  }
  return value;
}

std::size_t line_reader::word(std::span<const std::string_view> words) {
  literal("\"");
  for (std::size_t index = 0; index < words.size() && mistake_.empty(); ++index) {
    const std::string_view next = rest();
    const std::string_view candidate = words[index];
    if (!next.starts_with(candidate) || next.size() <= candidate.size()) continue;
    if (next[candidate.size()] != '"') continue;
    at_ += candidate.size() + 1;
    return index;
  }
  if (mistake_.empty()) {
    std::string expected = "one of";
    for (const std::string_view candidate : words)
      expected.append(" ").append(candidate);
    require(false, expected);
  }
  return 0;
}

void line_reader::open_object() {
  literal("{");
  is_first_member_ = true;
}

bool line_reader::has_member() {
  if (!mistake_.empty() || take("}")) return false;
  if (!is_first_member_) literal(",");
  is_first_member_ = false;
  return mistake_.empty();
}

std::string line_reader::member_name() {
  std::string name = text();
  literal(":");
  return name;
}

void line_reader::end() {
  require(rest().empty(), "the end of the line");
}

void line_reader::require(bool holds, std::string_view expected) {
  if (holds || !mistake_.empty()) return;
  mistake_ = "column " + std::to_string(at_ + 1) + ": expected ";
  mistake_ += expected;
}

std::optional<std::string> line_reader::mistake() const {
  if (mistake_.empty()) return std::nullopt;
  return mistake_;
}

} // namespace weir::detail
