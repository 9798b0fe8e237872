/// Reads one line of the event log, strictly: what is expected next is named by the caller, and the
/// first thing that differs is remembered with its column. After a mistake every operation does
/// nothing and returns a value that is safe to use, so that a reader needs one check at its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::detail {

class line_reader {
public:
  /// `line` outlives the reader.
  explicit line_reader(std::string_view line) : line_(line) {}

  /// Exactly this text.
  void literal(std::string_view text);
  /// `,"key":`
  void key(std::string_view name);
  /// The same, when it is there.
  [[nodiscard]] bool has_key(std::string_view name);
  [[nodiscard]] std::uint64_t number();
  /// A number of 63 bits.
  [[nodiscard]] std::int64_t step();
  /// A string with its quotes.
  [[nodiscard]] std::string text();
  /// A string that is one of these; its index.
  [[nodiscard]] std::size_t word(std::span<const std::string_view> words);
  /// `[1,2]`
  template <std::size_t Count>
  [[nodiscard]] std::array<std::uint64_t, Count> list();
  /// `{`, then members while there are any; the last has_member takes the `}`.
  void open_object();
  [[nodiscard]] bool has_member();
  /// `"name":`
  [[nodiscard]] std::string member_name();
  /// Nothing follows.
  void end();

  /// A mistake unless it holds.
  void require(bool holds, std::string_view expected);
  /// "column 17: expected a number".
  [[nodiscard]] std::optional<std::string> mistake() const;

private:
  [[nodiscard]] std::string_view rest() const { return line_.substr(at_); }
  [[nodiscard]] bool take(std::string_view text);
  [[nodiscard]] std::optional<char> escaped();

  std::string_view line_;
  std::size_t at_ = 0;
  bool is_first_member_ = false;
  std::string mistake_;
};

template <std::size_t Count>
std::array<std::uint64_t, Count> line_reader::list() {
  std::array<std::uint64_t, Count> numbers = {};
  for (std::size_t index = 0; index < Count; ++index) {
    literal(index == 0 ? "[" : ",");
    numbers[index] = number();
  }
  literal("]");
  return numbers;
}

} // namespace weir::detail
