/// Source text as the style rules see it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tidy {

/// One file of the tree. The path is relative to the root, with '/'.
struct source_file {
  std::string path;
  std::string text;
};

/// Null if there is no file of this path.
[[nodiscard]] const source_file* find_file(const std::vector<source_file>& files,
                                           std::string_view path);

/// One violation: where, and what to do.
struct finding {
  std::string path;
  std::size_t line = 0; ///< 1-based; 0 = the file as a whole.
  std::string advice;

  friend bool operator==(const finding&, const finding&) = default;
};

/// "actors/graph.cpp:17: a line of 104 columns; break it at 100".
[[nodiscard]] std::string to_string(const finding& one);

/// The text with comments, and the inside of string and character literals, blanked out: the same
/// length, the same lines. Rules about code look here.
[[nodiscard]] std::string code_of(std::string_view text);

/// 1-based line of an offset.
[[nodiscard]] std::size_t line_of(std::string_view text, std::size_t offset);

/// Lines without their newline.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);

[[nodiscard]] constexpr bool is_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_';
}

/// The offset of `word` as a whole word at or after `from`; npos if there is none.
[[nodiscard]] std::size_t find_word(std::string_view code, std::string_view word,
                                    std::size_t from = 0);

} // namespace weir::tidy
