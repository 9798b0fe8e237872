#include "dataplane/bundle_name.hpp"

#include <algorithm>
#include <charconv>

namespace weir::dataplane {

namespace {

constexpr std::string_view step_prefix = "step_";
constexpr std::size_t path_length_max = 1024;
constexpr std::ptrdiff_t path_folders_max = 8;

/// A decimal number in its only spelling; takes it from the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (problem != std::errc{} || (text.front() == '0' && length > 1)) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

} // namespace

std::string to_string(bundle_name name) {
  std::string text = std::string(step_prefix) + std::to_string(name.step);
  if (name.repetition != 0) text.append(".").append(std::to_string(name.repetition));
  return text;
}

std::optional<bundle_name> parse_bundle_name(std::string_view text) {
  if (!take(text, step_prefix)) return std::nullopt;
  const auto step = take_number(text);
  if (!step) return std::nullopt;
  if (text.empty()) return bundle_name{*step, 0};
  if (!take(text, ".")) return std::nullopt;
  const auto repetition = take_number(text);
  if (!repetition || *repetition == 0 || !text.empty()) return std::nullopt;
  return bundle_name{*step, *repetition};
}

std::string temporary_name(epoch_id epoch) {
  return std::string(temporary_prefix) + std::to_string(epoch.incarnation) + "-" +
         std::to_string(epoch.life) + "." + std::to_string(epoch.number);
}

std::optional<epoch_id> parse_temporary_name(std::string_view text) {
  if (!take(text, temporary_prefix)) return std::nullopt;
  const auto incarnation = take_number(text);
  if (!incarnation || !take(text, "-")) return std::nullopt;
  const auto life = take_number(text);
  if (!life || !take(text, ".")) return std::nullopt;
  const auto number = take_number(text);
  if (!number || !text.empty()) return std::nullopt;
  return epoch_id{*incarnation, *life, *number};
}

bool is_bundle_path(std::string_view path) {
  if (path.empty() || path.size() > path_length_max || path == manifest_name) return false;
  if (path.front() == '.' || path.front() == '/' || path.back() == '/') return false;
  if (!std::ranges::all_of(path, is_path_character)) return false;
  if (path.find("/.") != std::string_view::npos || path.find("//") != std::string_view::npos)
    return false;
  return std::ranges::count(path, '/') <= path_folders_max;
}

} // namespace weir::dataplane
