#include "examples/weir/drill_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

namespace weir {

namespace {

namespace fs = std::filesystem;

/// A number without superfluous zeros, taken from the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || (text.front() == '0' && end != text.data() + 1)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

result<std::set<std::string>> files_of(const std::string& directory) {
  std::set<std::string> names;
  std::error_code broken;
  for (fs::recursive_directory_iterator at(directory, broken), end; !broken && at != end;
       at.increment(broken))
    if (at->is_regular_file(broken)) names.insert(fs::relative(at->path(), directory).string());
  if (broken) return failure(errc::not_found, directory + ": " + broken.message());
  if (names.empty()) return failure(errc::not_found, directory + ": holds no file");
  return names;
}

/// The offset of the first byte that differs; nothing if the files are equal.
result<std::optional<std::uint64_t>> first_difference(const fs::path& left, const fs::path& right,
                                                      std::uint64_t& bytes) {
  std::ifstream one(left, std::ios::binary);
  std::ifstream two(right, std::ios::binary);
  constexpr std::size_t block = 1 << 16;
  std::array<char, block> from_one{};
  std::array<char, block> from_two{};
  std::uint64_t offset = 0;
  while (one && two) {
    one.read(from_one.data(), block);
    two.read(from_two.data(), block);
    const auto common = static_cast<std::size_t>(std::min(one.gcount(), two.gcount()));
    const auto end = from_one.begin() + static_cast<std::ptrdiff_t>(common);
    const auto differs = std::mismatch(from_one.begin(), end, from_two.begin()).first;
    if (differs != end || one.gcount() != two.gcount())
      return offset + static_cast<std::uint64_t>(differs - from_one.begin());
    offset += common;
  }
  if (one.bad() || two.bad() || !one.eof() || !two.eof())
    return failure(errc::io_failed, left.string() + " or " + right.string() + " cannot be read");
  bytes += offset;
  return std::nullopt;
}

} // namespace

std::string to_string(bundle_name name) {
  std::string text("step_");
  text += std::to_string(name.step);
  if (name.further > 0) text.append(".").append(std::to_string(name.further));
  return text;
}

std::optional<bundle_name> parse_bundle_name(std::string_view text) {
  constexpr std::string_view head = "step_";
  if (!text.starts_with(head) || text.size() == head.size()) return std::nullopt;
  text.remove_prefix(head.size());
  const auto step = take_number(text);
  if (!step) return std::nullopt;
  if (text.empty()) return bundle_name{.step = *step};
  if (text.size() < 2 || text.front() != '.') return std::nullopt;
  text.remove_prefix(1);
  const auto further = take_number(text);
  if (!further || *further == 0 || !text.empty()) return std::nullopt;
  return bundle_name{.step = *step, .further = *further};
}

std::optional<bundle_name> newest_bundle(const std::string& checkpoint_directory) {
  std::optional<bundle_name> newest;
  std::error_code broken;
  for (fs::directory_iterator at(checkpoint_directory, broken), end; !broken && at != end;
       at.increment(broken))
    if (const auto name = parse_bundle_name(at->path().filename().string()); name > newest)
      newest = name;
  return newest;
}

result<weights_comparison> compare_weights(const std::string& left, const std::string& right) {
  const auto names = files_of(left);
  if (!names) return failure(names.error());
  const auto others = files_of(right);
  if (!others) return failure(others.error());
  weights_comparison found;
  for (const std::string& name : *others)
    if (!names->contains(name)) found.difference = name + " is only in " + right;
  for (const std::string& name : *names) {
    if (!found.difference.empty()) break;
    if (!others->contains(name)) {
      found.difference = name + " is only in " + left;
      break;
    }
    const auto offset =
        first_difference(fs::path(left) / name, fs::path(right) / name, found.bytes);
    if (!offset) return failure(offset.error());
    if (*offset) found.difference = name + " differs at byte " + std::to_string(**offset);
    ++found.files;
  }
  return found;
}

} // namespace weir
