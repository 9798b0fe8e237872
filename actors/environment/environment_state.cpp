#include "actors/environment/environment_state.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace weir {

namespace {

constexpr std::string_view blank = " \t\r\n\v\f";
/// What GSM8K puts before the answer.
constexpr std::string_view answer_mark = "####";
/// The minus sign of typeset text, U+2212.
constexpr std::string_view typeset_minus = "\xE2\x88\x92";

constexpr bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}
constexpr bool is_word(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Where a number stands in a text: [begin, end), with its sign.
struct extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

bool digit_at(std::string_view text, std::size_t at) {
  return at < text.size() && is_digit(text[at]);
}

/// The end of a number whose first digit is at `at`. A comma belongs to it between a digit and
/// exactly three more, a point between digits.
std::size_t number_end(std::string_view text, std::size_t at) {
  bool fraction = at > 0 && text[at - 1] == '.';
  while (at < text.size()) {
    if (is_digit(text[at])) {
      ++at;
    } else if (text[at] == '.' && !fraction && digit_at(text, at + 1)) {
      fraction = true;
      ++at;
    } else if (text[at] == ',' && !fraction && digit_at(text, at + 1) && digit_at(text, at + 2) &&
               digit_at(text, at + 3) && !digit_at(text, at + 4)) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

/// The begin of a number whose first digit is at `at`: takes in a leading point, then a sign. The
/// minus of "3-4" and of "x-4" is an operator, not a sign.
std::size_t number_begin(std::string_view text, std::size_t at) {
  if (at > 0 && text[at - 1] == '.') --at;
  std::size_t sign = at;
  if (at > 0 && (text[at - 1] == '-' || text[at - 1] == '+'))
    sign = at - 1;
  else if (text.substr(0, at).ends_with(typeset_minus))
    sign = at - typeset_minus.size();
  if (sign == at) return at;
  const bool joined = sign > 0 && (is_word(text[sign - 1]) || text[sign - 1] == ')');
  return joined ? at : sign;
}

std::optional<extent> last_number(std::string_view text) {
  std::optional<extent> found;
  std::size_t at = 0;
  while (at < text.size()) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = number_end(text, at);
    const std::size_t floor = found ? found->end : 0;
    found = extent{.begin = std::max(floor, number_begin(text, at)), .end = end};
    at = end;
  }
  return found;
}

/// The part that holds the answer: all of it, or what follows the last mark.
std::string_view answer_part(std::string_view text) {
  const auto mark = text.rfind(answer_mark);
  return mark == std::string_view::npos ? text : text.substr(mark + answer_mark.size());
}

double value_of(const std::string& number) {
  double value = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  return code == std::errc{} && end == number.data() + number.size()
             ? value
             : std::numeric_limits<double>::infinity();
}

/// Digits before the point: how long the answer is.
std::ptrdiff_t whole_digits(const std::string& number) {
  return std::count_if(number.begin(), std::find(number.begin(), number.end(), '.'), is_digit);
}

/// Share of the places of the longer number at which both have the same character.
double digits_in_place(std::string_view number, std::string_view expected) {
  const std::size_t places = std::max(number.size(), expected.size());
  std::size_t equal = 0;
  for (std::size_t i = 0; i < std::min(number.size(), expected.size()); ++i)
    equal += number[i] == expected[i] ? 1 : 0;
  return places > 0 ? static_cast<double>(equal) / static_cast<double>(places) : 0.0;
}

double partial_credit(std::string_view completion, std::string_view token,
                      const std::string& number, const std::string& expected,
                      const exact_answer_options& options) {
  double credit = options.number_credit;
  if (trimmed(completion) == token) credit += options.concise_credit;
  if (whole_digits(number) == whole_digits(expected)) credit += options.length_credit;
  const double difference = std::fabs(value_of(number) - value_of(expected));
  if (std::isfinite(difference)) credit += options.closeness_credit / (1.0 + difference);
  credit += options.digit_credit * digits_in_place(number, expected);
  return credit;
}

} // namespace

std::string_view before_stop(std::string_view completion, const std::vector<std::string>& stop) {
  std::size_t end = completion.size();
  for (const std::string& word : stop)
    if (!word.empty()) end = std::min(end, completion.find(word));
  return completion.substr(0, end);
}

std::string normalized_number(std::string_view text) {
  text = trimmed(text);
  const auto found = last_number(text);
  // "7." is a number at the end of a sentence; anything else around it makes the text no number.
  if (!found || found->begin != 0) return std::string(text);
  if (found->end != text.size() && text.substr(found->end) != ".") return std::string(text);
  bool negative = false;
  std::string whole;
  std::string fraction;
  bool after_point = false;
  for (const char letter : text.substr(0, found->end)) {
    if (letter == '.') after_point = true;
    // The last byte of U+2212 stands for the three.
    if (letter == '-' || letter == typeset_minus.back()) negative = true;
    if (is_digit(letter)) (after_point ? fraction : whole) += letter;
  }
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (whole.empty()) whole += '0';
  const bool zero = whole == "0" && fraction.empty();
  return (negative && !zero ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

std::string final_answer(std::string_view text) {
  const std::string_view part = answer_part(text);
  const auto number = last_number(part);
  if (!number) return std::string(trimmed(part));
  return normalized_number(part.substr(number->begin, number->end - number->begin));
}

result<void> validate(const exact_answer_options& options) {
  struct credit {
    const char* name;
    double value;
  };
  const credit credits[] = {{"exact", options.exact},
                            {"number_credit", options.number_credit},
                            {"concise_credit", options.concise_credit},
                            {"closeness_credit", options.closeness_credit},
                            {"length_credit", options.length_credit},
                            {"digit_credit", options.digit_credit}};
  double partial = -options.exact;
  for (const auto& [name, value] : credits) {
    if (!(value >= 0 && value <= 1))
      return failure(errc::invalid_argument, std::string("exact_answer: ") + name + " is " +
                                                 std::to_string(value) + ", expected 0 to 1");
    partial += value;
  }
  if (partial >= options.exact)
    return failure(errc::invalid_argument,
                   "exact_answer: the partial credits sum to " + std::to_string(partial) +
                       ", which must be less than exact (" + std::to_string(options.exact) + ")");
  return {};
}

score score_exact_answer(std::string_view completion, std::string_view reference,
                         const exact_answer_options& options) {
  const std::string_view kept = before_stop(completion, options.stop);
  const std::string expected = final_answer(reference);
  const bool numeric = last_number(answer_part(reference)).has_value();
  const std::string_view part = answer_part(kept);
  const auto number = last_number(part);

  score given;
  given.answer = numeric ? final_answer(kept) : std::string(trimmed(part));
  given.exact = (!numeric || number) && given.answer == expected;
  if (given.exact) {
    given.reward = options.exact;
  } else if (numeric && number) {
    const std::string_view token = part.substr(number->begin, number->end - number->begin);
    given.reward = partial_credit(kept, token, given.answer, expected, options);
  }
  return given;
}

} // namespace weir
