#include "actors/environment/environment_state.hpp"

#include <doctest/doctest.h>

using namespace weir;

TEST_SUITE_BEGIN("actors/environment/environment_state");

TEST_CASE("numbers that mean the same are normalized to the same text") {
  for (const char* text : {"7", "+7", "007", "7.0", "7.", " 7 ", "7.000"}) {
    CAPTURE(text);
    CHECK(normalized_number(text) == "7");
  }
  CHECK(normalized_number("-0") == "0");
  CHECK(normalized_number("-0.0") == "0");
  CHECK(normalized_number("0000") == "0");
  CHECK(normalized_number("1,234") == "1234");
  CHECK(normalized_number("-1,234,567.50") == "-1234567.5");
  CHECK(normalized_number(".50") == "0.5");
  CHECK(normalized_number("\xE2\x88\x92"
                          "12") == "-12");
  CHECK(normalized_number("123456789012345678901234567890") == "123456789012345678901234567890");
}

TEST_CASE("text that is no number stays as it is, trimmed") {
  CHECK(normalized_number(" yes ") == "yes");
  CHECK(normalized_number("7 apples") == "7 apples");
  CHECK(normalized_number("") == "");
  CHECK(normalized_number("7..") == "7..");
}

TEST_CASE("the final answer is the number after the mark, else the last one, else the text") {
  CHECK(final_answer("3 + 4 = 7") == "7");
  CHECK(final_answer("He has 5. Then 2 more.\n#### 72") == "72");
  CHECK(final_answer("#### 1\n#### 1,072 ") == "1072");
  CHECK(final_answer("the answer is -4.") == "-4");
  CHECK(final_answer("3-4") == "4");
  CHECK(final_answer("(3)-4") == "4");
  CHECK(final_answer("x = -4") == "-4");
  CHECK(final_answer("7 - 4") == "4");
  CHECK(final_answer("--4") == "-4");
  CHECK(final_answer("$3.50 each") == "3.5");
  CHECK(final_answer("1,2") == "2");
  CHECK(final_answer("1,2345") == "2345");
  CHECK(final_answer("1.2.3") == "0.3");
  CHECK(final_answer("yes ") == "yes");
  CHECK(final_answer("#### no") == "no");
  CHECK(final_answer("  ") == "");
}

TEST_CASE("a completion ends before the first stop string") {
  CHECK(before_stop("7\n8", {"\n"}) == "7");
  CHECK(before_stop("7<end>8\n", {"\n", "<end>"}) == "7");
  CHECK(before_stop("78", {"\n"}) == "78");
  CHECK(before_stop("78", {}) == "78");
  CHECK(before_stop("78", {""}) == "78");
}

TEST_CASE("an equal answer earns the exact reward") {
  const exact_answer_options options;
  for (const char* completion : {"7", " 7\n", "007", "7.0", "3 + 4 = 7", "x\n"}) {
    CAPTURE(completion);
    const score given = score_exact_answer(completion, "7", options);
    CHECK(given.exact == (completion[0] != 'x'));
    CHECK(given.done);
  }
  CHECK(score_exact_answer("7", "some steps\n#### 7", options).reward == 1.0);
  CHECK(score_exact_answer("1234", "1,234", options).reward == 1.0);
  CHECK(score_exact_answer("-3", "-3", options).reward == 1.0);
  CHECK(score_exact_answer("7\n99", "7", options).answer == "7");
}

TEST_CASE("a wrong number earns less the farther off it is, and never as much as the exact one") {
  const exact_answer_options options;
  const double near = score_exact_answer("8", "7", options).reward;
  const double far = score_exact_answer("1", "7", options).reward;
  const double longer = score_exact_answer("77", "7", options).reward;
  const double wordy = score_exact_answer("a 8", "7", options).reward;
  CHECK(near == doctest::Approx(0.05 + 0.05 + 0.05 + 0.1 / 2));
  CHECK(far == doctest::Approx(0.05 + 0.05 + 0.05 + 0.1 / 7));
  CHECK(longer == doctest::Approx(0.05 + 0.05 + 0.1 / 71));
  CHECK(wordy == doctest::Approx(0.05 + 0.05 + 0.1 / 2));
  CHECK(near < options.exact);
}

TEST_CASE("no number earns nothing") {
  const exact_answer_options options;
  for (const char* completion : {"", "\n7", "seven", "+", "-", ".", "\xff\xfe"}) {
    CAPTURE(completion);
    const score given = score_exact_answer(completion, "7", options);
    CHECK(given.reward == 0.0);
    CHECK_FALSE(given.exact);
  }
}

TEST_CASE("a text answer is compared as text, without partial credit") {
  const exact_answer_options options;
  CHECK(score_exact_answer(" yes\n", "yes", options).reward == 1.0);
  CHECK(score_exact_answer("#### yes", "yes", options).reward == 1.0);
  CHECK(score_exact_answer("no", "yes", options).reward == 0.0);
  CHECK(score_exact_answer("7", "yes", options).reward == 0.0);
}

TEST_CASE("a number beyond what a double holds gets no closeness, and no crash") {
  const exact_answer_options options;
  const std::string huge(400, '9');
  CHECK(score_exact_answer(huge, "7", options).reward == doctest::Approx(0.1));
  CHECK(score_exact_answer(huge, huge, options).reward == 1.0);
}

TEST_CASE("credits that could pay a wrong answer like a right one are refused by name") {
  CHECK(validate({}).has_value());
  const auto high = validate({.number_credit = 1.5});
  REQUIRE_FALSE(high.has_value());
  CHECK(high.error().text.find("number_credit") != std::string::npos);
  const auto sum = validate({.exact = 0.2});
  REQUIRE_FALSE(sum.has_value());
  CHECK(sum.error().text.find("less than exact") != std::string::npos);
  CHECK_FALSE(validate({.exact = -1}).has_value());
}

TEST_SUITE_END();
