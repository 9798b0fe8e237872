#include "tests/tidy/source.hpp"

#include <algorithm>

namespace weir::tidy {

namespace {

/// Blanks [begin, end), keeping newlines.
void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end && at < text.size(); ++at)
    if (text[at] != '\n') text[at] = ' ';
}

/// The offset after a literal that opens at `at` with `quote`.
std::size_t after_literal(std::string_view text, std::size_t at, char quote) {
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

/// The offset after R"tag( ... )tag" whose quote is at `at`.
std::size_t after_raw_literal(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  if (open == std::string_view::npos) return text.size();
  std::string closing = ")";
  closing += text.substr(at + 1, open - at - 1);
  closing += '"';
  const std::size_t close = text.find(closing, open);
  return close == std::string_view::npos ? text.size() : close + closing.size();
}

/// A quote between digits separates thousands: 1'000'000.
bool separates_digits(std::string_view text, std::size_t at) {
  return at > 0 && is_word(text[at - 1]) && at + 1 < text.size() && is_word(text[at + 1]);
}

} // namespace

const source_file* find_file(const std::vector<source_file>& files, std::string_view path) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [path](const source_file& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::string to_string(const finding& one) {
  std::string text = one.path;
  if (one.line > 0) text.append(":").append(std::to_string(one.line));
  return text.append(": ").append(one.advice);
}

std::string code_of(std::string_view text) {
  std::string code(text);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    std::size_t end = at + 1;
    if (rest.starts_with("//")) {
      end = std::min(text.find('\n', at), text.size());
      blank(code, at, end);
    } else if (rest.starts_with("/*")) {
      const std::size_t close = text.find("*/", at + 2);
      end = close == std::string_view::npos ? text.size() : close + 2;
      blank(code, at, end);
    } else if (text[at] == '"') {
      const bool raw = at > 0 && text[at - 1] == 'R';
      end = raw ? after_raw_literal(text, at) : after_literal(text, at, '"');
      blank(code, at + 1, end - 1);
    } else if (text[at] == '\'' && !separates_digits(text, at)) {
      end = after_literal(text, at, '\'');
      blank(code, at + 1, end - 1);
    }
    at = end;
  }
  return code;
}

std::size_t line_of(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return static_cast<std::size_t>(std::count(text.begin(), end, '\n')) + 1;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::size_t find_word(std::string_view code, std::string_view word, std::size_t from) {
  for (std::size_t at = code.find(word, from); at != std::string_view::npos;
       at = code.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(code[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end >= code.size() || !is_word(code[end]))) return at;
  }
  return std::string_view::npos;
}

} // namespace weir::tidy
