#include "tests/tidy/statements.hpp"

#include <array>

namespace weir::tidy {

namespace {

constexpr std::size_t function_lines_max = 70;

enum class bracket : unsigned char {
  round,  ///< ( or [
  braces, ///< { of an initializer: part of its statement
  block,  ///< { of a scope: holds statements
};

/// What was seen of the statement that a block is in the middle of.
struct statement {
  std::size_t begin = 0;
  std::size_t awaits = 0;
  std::size_t line = 0; ///< Of the first co_await.
  bool braces = false;
  bool lambda = false;
  bool conditional = false;
  bool binding = false;
  /// Open brackets where a lambda began whose body has not been seen yet; 0 = none.
  std::size_t lambda_depth = 0;
};

struct scope {
  bracket kind = bracket::block;
  /// Statements here run: the body of a function, or something within.
  bool in_function = false;
  /// The outermost scope of a function.
  bool is_function = false;
  std::size_t opened = 0;
  statement now = {};
};

/// Walks the code once and reports both kinds of findings.
class walker {
public:
  walker(const source_file& file, std::string_view code) : file_(file), code_(code) {
    scopes_.push_back({});
  }

  void walk() {
    for (at_ = 0; at_ < code_.size(); ++at_)
      step();
  }

  std::vector<finding> long_functions;
  std::vector<finding> awaiting;

private:
  void step();
  void open(char letter);
  void close();
  void word();
  void end_statement();
  [[nodiscard]] scope& block();
  [[nodiscard]] bool opens_block() const;
  [[nodiscard]] bool opens_lambda() const;
  [[nodiscard]] std::size_t before(std::size_t at) const;
  [[nodiscard]] std::string_view word_before(std::size_t at) const;
  [[nodiscard]] bool declares_scope(std::size_t from) const;

  const source_file& file_;
  std::string_view code_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::vector<scope> scopes_;
};

constexpr std::size_t none = std::string_view::npos;

constexpr bool is_blank(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t';
}

/// The offset of the last significant character before `at`.
std::size_t walker::before(std::size_t at) const {
  while (at > 0)
    if (!is_blank(code_[--at])) return at;
  return none;
}

std::string_view walker::word_before(std::size_t at) const {
  const std::size_t last = before(at);
  if (last == none || !is_word(code_[last])) return {};
  std::size_t first = last;
  while (first > 0 && is_word(code_[first - 1]))
    --first;
  return code_.substr(first, last - first + 1);
}

/// True for the head of a namespace, a type or a linkage block.
bool walker::declares_scope(std::size_t from) const {
  const std::string_view head = code_.substr(from, at_ - from);
  if (find_word(head, "TEST_SUITE") != none) return true;
  for (const std::string_view keyword : {"namespace", "struct", "class", "union", "enum", "extern"})
    if (const std::size_t found = find_word(head, keyword); found != none)
      // "struct x make() {" is a function; a parenthesis tells, except after a base or attribute.
      return head.find('(') == none || head.find('(') < found;
  return false;
}

scope& walker::block() {
  for (std::size_t index = scopes_.size(); index-- > 0;)
    if (scopes_[index].kind == bracket::block) return scopes_[index];
  return scopes_.front();
}

/// A brace at `at_` opens a scope, unless what stands before it makes it an initializer.
bool walker::opens_block() const {
  const std::size_t last = before(at_);
  if (last == none) return true;
  const char letter = code_[last];
  const std::string_view keyword = word_before(at_);
  for (const std::string_view qualifier :
       {"const", "noexcept", "override", "final", "mutable", "else", "do", "try"})
    if (keyword == qualifier) return true;
  const scope& top = scopes_.back();
  if (top.kind != bracket::block) return false;
  if (letter == ')' || letter == ';' || letter == '{' || letter == '}' || letter == ':' ||
      letter == ']')
    return true;
  if (letter == '=' || letter == ',' || letter == '(') return false;
  if (!top.in_function) return code_.substr(top.now.begin, at_ - top.now.begin).find('=') == none;
  return declares_scope(top.now.begin);
}

/// A square bracket opens a lambda unless it follows something that can be indexed.
bool walker::opens_lambda() const {
  const std::size_t last = before(at_);
  if (last == none) return true;
  if (code_[last] == '[' || (at_ + 1 < code_.size() && code_[at_ + 1] == '[')) return false;
  const std::string_view keyword = word_before(at_);
  for (const std::string_view operand : {"return", "co_return", "co_await", "co_yield", "case"})
    if (keyword == operand) return true;
  return !is_word(code_[last]) && code_[last] != ')' && code_[last] != ']';
}

void walker::open(char letter) {
  statement& now = block().now;
  if (letter == '[') {
    const std::string_view keyword = word_before(at_);
    const std::size_t last = before(at_);
    const bool reference = last != none && code_[last] == '&' && word_before(last) == "auto";
    if (keyword == "auto" || reference)
      now.binding = true;
    else if (opens_lambda()) {
      now.lambda = true;
      now.lambda_depth = scopes_.size();
    }
  }
  if (letter != '{') {
    scopes_.push_back({.kind = bracket::round, .in_function = scopes_.back().in_function});
    return;
  }
  const bool body_of_lambda = now.lambda_depth == scopes_.size();
  if (body_of_lambda) now.lambda_depth = 0;
  if (!body_of_lambda && !opens_block()) {
    now.braces = true;
    scopes_.push_back({.kind = bracket::braces, .in_function = scopes_.back().in_function});
    return;
  }
  const bool nested = scopes_.back().kind != bracket::block;
  if (nested) now.braces = true;
  const bool in_function = scopes_.back().in_function;
  const bool declares = !nested && declares_scope(now.begin);
  if (!nested) end_statement();
  scopes_.push_back({.kind = bracket::block,
                     .in_function = declares ? false : true,
                     .is_function = !declares && !in_function,
                     .opened = line_,
                     .now = {.begin = at_ + 1}});
}

void walker::close() {
  if (scopes_.size() == 1) return;
  const scope closed = scopes_.back();
  if (closed.kind == bracket::block) end_statement();
  scopes_.pop_back();
  if (closed.kind != bracket::block) return;
  const std::size_t lines = line_ - closed.opened + 1;
  if (closed.is_function && lines > function_lines_max)
    long_functions.push_back({file_.path, closed.opened,
                              "a function of " + std::to_string(lines) +
                                  " lines; split it, the limit is " +
                                  std::to_string(function_lines_max)});
  if (scopes_.back().kind == bracket::block) scopes_.back().now = {.begin = at_ + 1};
}

void walker::end_statement() {
  scope& here = block();
  const statement& now = here.now;
  const std::array<std::pair<bool, const char*>, 5> forms = {{
      {now.braces, "braces"},
      {now.lambda, "a lambda"},
      {now.conditional, "a conditional operator"},
      {now.binding, "a structured binding"},
      {now.awaits > 1, "a second co_await"},
  }};
  for (const auto& [seen, form] : forms)
    if (now.awaits > 0 && seen)
      awaiting.push_back({file_.path, now.line,
                          std::string("a statement with co_await holds ") + form +
                              "; name the operand in a statement before it"});
  here.now = {.begin = at_ + 1};
}

void walker::word() {
  std::size_t end = at_;
  while (end < code_.size() && is_word(code_[end]))
    ++end;
  const std::string_view text = code_.substr(at_, end - at_);
  at_ = end - 1;
  if (text != "co_await") return;
  statement& now = block().now;
  if (now.awaits++ == 0) now.line = line_;
}

void walker::step() {
  const char letter = code_[at_];
  if (is_word(letter)) return word();
  switch (letter) {
  case '\n':
    ++line_;
    break;
  case '#':
    // A directive is no statement; it ends with its line, unless that is continued.
    if (const std::size_t last = code_.find_last_not_of(" \t", at_ == 0 ? 0 : at_ - 1);
        at_ == 0 || code_[last] == '\n')
      while (at_ + 1 < code_.size() && (code_[at_ + 1] != '\n' || code_[at_] == '\\'))
        if (code_[++at_] == '\n') ++line_;
    break;
  case '(':
  case '[':
  case '{':
    open(letter);
    break;
  case ')':
  case ']':
  case '}':
    close();
    break;
  case '?':
    block().now.conditional = true;
    break;
  case ';':
    if (scopes_.back().kind == bracket::block) end_statement();
    break;
  default:
    break;
  }
}

} // namespace

std::vector<finding> long_functions(const source_file& file, std::string_view code) {
  walker walk(file, code);
  walk.walk();
  return walk.long_functions;
}

std::vector<finding> awaiting_statements(const source_file& file, std::string_view code) {
  walker walk(file, code);
  walk.walk();
  return walk.awaiting;
}

} // namespace weir::tidy
