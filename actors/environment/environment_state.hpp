/// Scores completions: what the environment actor decides, as plain functions.
///
/// `exact_answer` compares the number in a completion with the number in the reference answer:
///
///   1. The completion is cut at the first stop string. From what is left, and from the reference,
///      the *final answer* is taken: the number after the last "####" if there is one (GSM8K
///      style); else the last number; else the trimmed text.
///   2. Numbers are normalized: "+7", "007", "7.0", "7." and "7" are one, "-0" is "0", the commas
///      of "1,234" go. There is no conversion to binary: "0.1" and any length of digits are exact.
///   3. Equal: `exact` (1.0). Otherwise the partial credit below, which is always less than exact.
///
/// Partial credit gives the policy a slope to climb while it cannot calculate yet. The parts add
/// up, and none is paid for an empty completion:
///   - `number_credit`: there is a number at all;
///   - `concise_credit`: the completion is nothing but that number (white space aside);
///   - `closeness_credit`: scaled by how close it is, as 1 / (1 + |difference|), and
///   - `length_credit`: it has as many digits as the reference;
///   - `digit_credit`: scaled by the share of places that have the reference's digit.
/// A text answer without any digit is compared trimmed, and gets no partial credit.
#pragma once

#include "messages/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// How `exact_answer` pays. Each credit is in [0, 1]; the partial ones sum to less than `exact`.
struct exact_answer_options {
  double exact = 1.0;
  double number_credit = 0.05;
  double concise_credit = 0.05;
  double closeness_credit = 0.1;
  double length_credit = 0.05;
  double digit_credit = 0.0;
  /// The completion ends before the first of these.
  std::vector<std::string> stop = {"\n"};

  friend bool operator==(const exact_answer_options&, const exact_answer_options&) = default;
};

/// What a completion is worth.
struct score {
  double reward = 0;
  /// A single-turn environment is always done.
  bool done = true;
  /// Text that the next turn begins with; empty when done.
  std::string observation = {};
  /// The answer that was found, normalized; for logs.
  std::string answer = {};
  bool exact = false;

  friend bool operator==(const score&, const score&) = default;
};

/// Errors: invalid_argument for a credit outside its range, naming it.
[[nodiscard]] result<void> validate(const exact_answer_options& options);

/// Scores one completion against a reference answer. Deterministic; never fails.
/// @pre validate(options)
[[nodiscard]] score score_exact_answer(std::string_view completion, std::string_view reference,
                                       const exact_answer_options& options);

/// The text before the first stop string.
[[nodiscard]] std::string_view before_stop(std::string_view completion,
                                           const std::vector<std::string>& stop);

/// The final answer in a text, normalized; empty if the text is blank. See the file's comment.
[[nodiscard]] std::string final_answer(std::string_view text);

/// A decimal number without what does not change its value: sign "+", commas between digits,
/// leading zeros, trailing zeros of the fraction. Text that is no number comes back trimmed.
[[nodiscard]] std::string normalized_number(std::string_view text);

} // namespace weir
