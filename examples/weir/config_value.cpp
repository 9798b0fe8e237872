#include "examples/weir/config_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace weir {

namespace {

template <class... Handlers>
struct overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
overloaded(Handlers...) -> overloaded<Handlers...>;

/// 2^64 as a double: the first number that a whole number cannot be.
constexpr double whole_limit = 18446744073709551616.0;

template <class T>
std::optional<T> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "64 MiB" and the like; a plain number is bytes.
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  struct unit {
    std::string_view name;
    unsigned shift;
  };
  constexpr std::array<unit, 4> units = {{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  unsigned shift = 0;
  for (const auto& [name, bits] : units) {
    if (!text.ends_with(name)) continue;
    text.remove_suffix(name.size());
    if (text.ends_with(' ')) text.remove_suffix(1);
    shift = bits;
    break;
  }
  const auto number = number_of<std::uint64_t>(text);
  if (!number || *number > (std::numeric_limits<std::uint64_t>::max() >> shift))
    return std::nullopt;
  return *number << shift;
}

std::optional<bool> boolean_of(std::string_view text) {
  // What YAML 1.1 readers, and so most users' files, take for booleans.
  for (const std::string_view word :
       {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == word) return true;
  for (const std::string_view word :
       {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == word) return false;
  return std::nullopt;
}

bool contains(const number_range& range, double value) {
  if (!std::isfinite(value)) return false;
  const bool high_enough = range.above_low ? value > range.low : value >= range.low;
  return high_enough && (range.below_high ? value < range.high : value <= range.high);
}

std::string shown(const raw_value& value) {
  constexpr std::size_t shown_bytes_max = 60;
  switch (value.form) {
  case raw_value::shape::null:
    return "null";
  case raw_value::shape::list:
    return "a list";
  case raw_value::shape::mapping:
    return "a mapping";
  case raw_value::shape::scalar:
    break;
  }
  std::string text = value.text.substr(0, shown_bytes_max);
  if (value.text.size() > shown_bytes_max) text += "...";
  return value.quoted ? "the string " + in_quotes(text) : text;
}

/// What keeps a list from being one of texts; nothing where the value itself is no list.
std::string wrong_item(const raw_value& value) {
  for (std::size_t at = 0; at < value.items.size(); ++at) {
    const raw_value& item = value.items[at];
    if (item.form == raw_value::shape::scalar && !item.text.empty()) continue;
    return "; item " + std::to_string(at + 1) + " is " + shown(item);
  }
  return {};
}

tl::unexpected<error> refused(const config_key& key, const raw_value& value) {
  std::string text = shown(value) + " is not " + expectation(key);
  if (std::holds_alternative<config_field<std::vector<std::string>>>(key.field))
    text += wrong_item(value);
  const bool number =
      std::holds_alternative<config_field<std::uint64_t>>(key.field) ||
      std::holds_alternative<config_field<double>>(key.field) ||
      std::holds_alternative<config_field<std::optional<std::uint64_t>>>(key.field) ||
      std::holds_alternative<config_field<std::optional<double>>>(key.field);
  if (value.quoted && number && number_of<double>(value.text)) text += "; remove the quotes";
  return failure(errc::invalid_argument, std::move(text));
}

/// Reads one value of a type; knows nothing of null.
struct scalar_reader {
  const config_key& key;
  const raw_value& value;

  [[nodiscard]] bool plain() const {
    return value.form == raw_value::shape::scalar && !value.quoted;
  }
  bool operator()(bool& out) const {
    const auto read = plain() ? boolean_of(value.text) : std::nullopt;
    if (read) out = *read;
    return read.has_value();
  }
  bool operator()(std::uint64_t& out) const {
    if (!plain() && !(key.role == text_role::bytes && value.quoted)) return false;
    const auto read =
        key.role == text_role::bytes ? bytes_of(value.text) : number_of<std::uint64_t>(value.text);
    if (!read || !contains(key.range, static_cast<double>(*read))) return false;
    out = *read;
    return true;
  }
  bool operator()(double& out) const {
    const auto read = plain() ? number_of<double>(value.text) : std::nullopt;
    if (!read || !contains(key.range, *read)) return false;
    out = *read;
    return true;
  }
  bool operator()(std::string& out) const {
    if (value.form != raw_value::shape::scalar || value.text.empty()) return false;
    out = value.text;
    return true;
  }
};

bool read_list(const raw_value& value, std::vector<std::string>& out) {
  if (value.form != raw_value::shape::list) return false;
  std::vector<std::string> words;
  for (const raw_value& item : value.items) {
    if (item.form != raw_value::shape::scalar || item.text.empty()) return false;
    words.push_back(item.text);
  }
  out = std::move(words);
  return true;
}

std::string format_number(std::uint64_t number) {
  return std::to_string(number);
}

/// The shortest text that reads back to the same number, and that every YAML reader takes for a
/// number (some take "3e-04" for a string: it has no point).
std::string format_number(double number) {
  std::array<char, 64> buffer{};
  constexpr double fixed_low = 1e-9;
  constexpr double fixed_high = 1e15;
  const double size = std::fabs(number);
  const bool fixed = size == 0 || (size >= fixed_low && size < fixed_high);
  const auto done = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                  fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), done.ptr);
  if (text.find('.') == std::string::npos) {
    const auto exponent = std::min(text.find('e'), text.size());
    text.insert(exponent, ".0");
  }
  return text;
}

struct formatter {
  const run_config& config;

  std::string operator()(const config_field<bool>& field) const {
    return field.read(config) ? "true" : "false";
  }
  template <class T>
    requires std::same_as<T, std::uint64_t> || std::same_as<T, double>
  std::string operator()(const config_field<T>& field) const {
    return format_number(field.read(config));
  }
  std::string operator()(const config_field<std::string>& field) const {
    return in_quotes(field.read(config));
  }
  template <class T>
  std::string operator()(const config_field<std::optional<T>>& field) const {
    const std::optional<T>& value = field.read(config);
    if (!value) return "null";
    if constexpr (std::same_as<T, std::string>)
      return in_quotes(*value);
    else
      return format_number(*value);
  }
  std::string operator()(const config_field<std::vector<std::string>>& field) const {
    std::string text = "[";
    for (const std::string& word : field.read(config)) {
      if (text.size() > 1) text += ", ";
      text += in_quotes(word);
    }
    return text + "]";
  }
  std::string operator()(const choice_field& field) const {
    return std::string(field.names[field.read(config)]);
  }
};

std::string bound_text(const config_key& key, double bound) {
  const bool whole = std::holds_alternative<config_field<std::uint64_t>>(key.field) ||
                     std::holds_alternative<config_field<std::optional<std::uint64_t>>>(key.field);
  if (whole && bound >= 0 && bound < whole_limit)
    return std::to_string(static_cast<std::uint64_t>(bound));
  std::string text = format_number(bound);
  if (text.ends_with(".0")) text.erase(text.size() - 2);
  return text;
}

} // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (letter == '\n') {
      quoted += "\\n";
    } else if (letter == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += "\\x";
      quoted += digits[byte >> 4U];
      quoted += digits[byte & 15U];
    } else {
      quoted += letter;
    }
  }
  quoted += '"';
  return quoted;
}

result<void> assign(const config_key& key, const raw_value& value, run_config& config) {
  const scalar_reader reader{.key = key, .value = value};
  const bool done =
      std::visit(overloaded{
                     [&](const config_field<std::vector<std::string>>& field) {
                       return read_list(value, field.write(config));
                     },
                     [&](const choice_field& field) {
                       const auto found =
                           std::find(field.names.begin(), field.names.end(), value.text);
                       if (value.form != raw_value::shape::scalar || found == field.names.end())
                         return false;
                       field.write(config, static_cast<std::size_t>(found - field.names.begin()));
                       return true;
                     },
                     [&]<class T>(const config_field<std::optional<T>>& field) {
                       if (value.form == raw_value::shape::null) {
                         field.write(config) = std::nullopt;
                         return true;
                       }
                       T read{};
                       if (!reader(read)) return false;
                       field.write(config) = std::move(read);
                       return true;
                     },
                     [&](const auto& field) { return reader(field.write(config)); },
                 },
                 key.field);
  if (!done) return refused(key, value);
  return {};
}

std::string format(const config_key& key, const run_config& config) {
  return std::visit(formatter{config}, key.field);
}

std::string range_name(const config_key& key) {
  const auto& [low, high, above_low, below_high] = key.range;
  const bool whole = std::holds_alternative<config_field<std::uint64_t>>(key.field) ||
                     std::holds_alternative<config_field<std::optional<std::uint64_t>>>(key.field);
  const double floor = whole ? std::max(low, 0.0) : low;
  if (!std::isfinite(floor) && !std::isfinite(high)) return "";
  const std::string at_most = (below_high ? "< " : "<= ") + bound_text(key, high);
  const std::string at_least = (above_low ? "> " : ">= ") + bound_text(key, floor);
  if (!std::isfinite(floor)) return at_most;
  if (!std::isfinite(high)) return at_least;
  if (above_low || below_high) return at_least + ", " + at_most;
  return bound_text(key, floor) + " to " + bound_text(key, high);
}

std::string type_name(const config_key& key) {
  const std::string whole = key.role == text_role::bytes ? "bytes" : "whole number";
  const std::string text = key.role == text_role::path ? "path" : "text";
  return std::visit(
      overloaded{
          [](const config_field<bool>&) -> std::string { return "true or false"; },
          [&](const config_field<std::uint64_t>&) { return whole; },
          [](const config_field<double>&) -> std::string { return "number"; },
          [&](const config_field<std::string>&) { return text; },
          [&](const config_field<std::optional<std::uint64_t>>&) { return whole + " or null"; },
          [](const config_field<std::optional<double>>&) -> std::string {
            return "number or null";
          },
          [&](const config_field<std::optional<std::string>>&) { return text + " or null"; },
          [](const config_field<std::vector<std::string>>&) -> std::string {
            return "list of texts";
          },
          [](const choice_field& field) {
            std::string names;
            for (const std::string_view name : field.names) {
              if (!names.empty()) names += ", ";
              names += name;
            }
            return names;
          },
      },
      key.field);
}

std::string expectation(const config_key& key) {
  if (std::holds_alternative<choice_field>(key.field)) return "one of " + type_name(key);
  std::string type = type_name(key);
  const bool nullable = type.ends_with(" or null");
  if (nullable) type.erase(type.size() - std::string_view(" or null").size());
  std::string text = type;
  if (type == "bytes") text = "a number of bytes such as 1048576 or 64 MiB";
  if (type == "whole number" || type == "number" || type == "path" || type == "list of texts")
    text = "a " + type;
  if (const std::string range = range_name(key); !range.empty()) text += " (" + range + ")";
  if (nullable) text += ", or null";
  return text;
}

} // namespace weir
