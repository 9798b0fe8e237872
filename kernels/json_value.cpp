#include "kernels/json_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weir::kernels {

// -- values ---------------------------------------------------------------------------------------

std::optional<bool> json_value::as_boolean() const noexcept {
  return kind_ == kind::boolean ? std::optional<bool>(flag_) : std::nullopt;
}

std::optional<std::uint64_t> json_value::as_unsigned() const noexcept {
  std::uint64_t value = 0;
  const char* last = text_.data() + text_.size();
  if (kind_ != kind::number) return std::nullopt;
  const auto [end, code] = std::from_chars(text_.data(), last, value);
  return code == std::errc{} && end == last ? std::optional<std::uint64_t>(value) : std::nullopt;
}

std::optional<double> json_value::as_double() const noexcept {
  double value = 0.0;
  const char* last = text_.data() + text_.size();
  if (kind_ != kind::number) return std::nullopt;
  const auto [end, code] = std::from_chars(text_.data(), last, value);
  const bool whole = code == std::errc{} && end == last && std::isfinite(value);
  return whole ? std::optional<double>(value) : std::nullopt;
}

const std::string* json_value::as_string() const noexcept {
  return kind_ == kind::string ? &text_ : nullptr;
}

const json_value* json_value::find(std::string_view key) const noexcept {
  for (std::size_t index = 0; index < keys_.size(); ++index)
    if (keys_[index] == key) return &items_[index];
  return nullptr;
}

// -- reading --------------------------------------------------------------------------------------

/// A recursive descent over the text; stops at the first error.
class json_reader {
public:
  explicit json_reader(std::string_view text) : text_(text) {}

  result<json_value> document() {
    json_value value;
    if (is_utf8(text_) ? read(value, 0) : refuse("the text is not UTF-8")) {
      skip_space();
      if (at_ == text_.size()) return value;
      refuse("more text follows the value");
    }
    return failure(errc::corrupt, "JSON, byte " + std::to_string(at_) + ": " + why_);
  }

private:
  bool refuse(const char* why) {
    why_ = why;
    return false;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char expected) {
    if (peek() != expected) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  bool read(json_value& value, int depth);
  bool read_word(json_value& value, std::string_view word, json_value::kind kind, bool flag);
  bool read_number(json_value& value);
  bool read_digits();
  bool read_string(std::string& into);
  bool read_escape(std::string& into);
  bool read_code_unit(std::uint32_t& unit);
  bool read_array(json_value& value, int depth);
  bool read_object(json_value& value, int depth);

  std::string_view text_;
  std::size_t at_ = 0;
  const char* why_ = "";
};

bool json_reader::read(json_value& value, int depth) {
  if (depth > json_depth_max) return refuse("values lie too deep in each other");
  skip_space();
  switch (peek()) {
  case '{':
    return read_object(value, depth);
  case '[':
    return read_array(value, depth);
  case '"':
    value.kind_ = json_value::kind::string;
    return read_string(value.text_);
  case 't':
    return read_word(value, "true", json_value::kind::boolean, true);
  case 'f':
    return read_word(value, "false", json_value::kind::boolean, false);
  case 'n':
    return read_word(value, "null", json_value::kind::null, false);
  default:
    return read_number(value);
  }
}

bool json_reader::read_word(json_value& value, std::string_view word, json_value::kind kind,
                            bool flag) {
  if (text_.substr(at_, word.size()) != word) return refuse("a value is expected");
  at_ += word.size();
  value.kind_ = kind;
  value.flag_ = flag;
  return true;
}

bool json_reader::read_digits() {
  const std::size_t first = at_;
  while (peek() >= '0' && peek() <= '9')
    ++at_;
  return at_ > first;
}

bool json_reader::read_number(json_value& value) {
  const std::size_t first = at_;
  take('-');
  const bool leading_zero = peek() == '0';
  const std::size_t digits = at_;
  if (!read_digits()) return refuse("a value is expected");
  if (leading_zero && at_ - digits > 1) return refuse("a number begins with zero");
  if (take('.') && !read_digits()) return refuse("digits are expected after the point");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (!read_digits()) return refuse("digits are expected in the exponent");
  }
  value.kind_ = json_value::kind::number;
  value.text_ = text_.substr(first, at_ - first);
  return true;
}

bool json_reader::read_string(std::string& into) {
  if (!take('"')) return refuse("a string is expected");
  while (at_ < text_.size()) {
    const char next = text_[at_];
    if (static_cast<unsigned char>(next) < 0x20)
      return refuse("a control character stands in a string");
    ++at_;
    if (next == '"') return true;
    if (next != '\\')
      into.push_back(next);
    else if (!read_escape(into))
      return false;
  }
  return refuse("a string does not end");
}

bool json_reader::read_escape(std::string& into) {
  constexpr std::string_view names = "\"\\/bfnrt";
  constexpr std::string_view values = "\"\\/\b\f\n\r\t";
  const char name = peek();
  if (const std::size_t index = names.find(name); name != '\0' && index != names.npos) {
    ++at_;
    into.push_back(values[index]);
    return true;
  }
  std::uint32_t code = 0;
  if (!take('u') || !read_code_unit(code)) return refuse("an escape is not one of JSON's");
  if (code >= 0xD800 && code < 0xE000) {
    std::uint32_t low = 0;
    const bool pair = code < 0xDC00 && take('\\') && take('u') && read_code_unit(low);
    if (!pair || low < 0xDC00 || low > 0xDFFF) return refuse("half of a surrogate pair is missing");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  const auto push = [&](std::uint32_t byte) { into.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | (code >> 6));
    push(0x80 | (code & 0x3F));
  } else {
    if (code < 0x10000) {
      push(0xE0 | (code >> 12));
    } else {
      push(0xF0 | (code >> 18));
      push(0x80 | ((code >> 12) & 0x3F));
    }
    push(0x80 | ((code >> 6) & 0x3F));
    push(0x80 | (code & 0x3F));
  }
  return true;
}

bool json_reader::read_code_unit(std::uint32_t& unit) {
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  at_ += digits.size();
  return code == std::errc{} && digits.size() == 4 && end == digits.data() + 4;
}

bool json_reader::read_array(json_value& value, int depth) {
  value.kind_ = json_value::kind::array;
  take('[');
  skip_space();
  if (take(']')) return true;
  do {
    if (!read(value.items_.emplace_back(), depth + 1)) return false;
    skip_space();
  } while (take(','));
  return take(']') || refuse("a comma or ] is expected");
}

bool json_reader::read_object(json_value& value, int depth) {
  value.kind_ = json_value::kind::object;
  take('{');
  skip_space();
  if (take('}')) return true;
  do {
    skip_space();
    if (!read_string(value.keys_.emplace_back())) return false;
    skip_space();
    if (!take(':')) return refuse("a colon is expected");
    if (!read(value.items_.emplace_back(), depth + 1)) return false;
    skip_space();
  } while (take(','));
  if (!take('}')) return refuse("a comma or } is expected");
  std::vector<std::string_view> sorted(value.keys_.begin(), value.keys_.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return refuse("a key of this object comes twice");
  return true;
}

result<json_value> parse_json(std::string_view text) {
  return json_reader(text).document();
}

// -- text -----------------------------------------------------------------------------------------

std::string json_quoted(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char next : text) {
    if (const auto byte = static_cast<unsigned char>(next); byte < 0x20) {
      quoted += "\\u00";
      quoted += digits[byte >> 4];
      quoted += digits[byte & 15];
      continue;
    }
    if (next == '"' || next == '\\') quoted += '\\';
    quoted += next;
  }
  return quoted + '"';
}

bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t index) -> std::uint32_t {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0;
  };
  for (std::size_t index = 0; index < text.size();) {
    const std::uint32_t first = byte(index);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first >= 0x80 && (first < 0xC2 || first > 0xF4)) return false;
    for (std::size_t next = 1; next < length; ++next)
      if ((byte(index + next) & 0xC0) != 0x80) return false;
    // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
    const std::uint32_t second = byte(index + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
      return false;
    index += length;
  }
  return true;
}

} // namespace weir::kernels
