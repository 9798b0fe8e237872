#include "kernels/json_value.hpp"

#include <doctest/doctest.h>

namespace {

using namespace weir;
using namespace weir::kernels;

std::string why(std::string_view text) {
  const auto value = parse_json(text);
  REQUIRE_FALSE(value.has_value());
  CHECK(value.error().code == errc::corrupt);
  return value.error().text;
}

TEST_SUITE("kernels/json_value") {
  TEST_CASE("values of every kind are read") {
    const auto value =
        parse_json(R"( {"a": [1, -2.5e3, true, false, null], "b": {"c": "x"}, "": 0} )").value();
    const auto& items = value.find("a")->items();
    REQUIRE(items.size() == 5);
    CHECK(items[0].as_unsigned() == 1);
    CHECK(items[1].as_double() == -2500.0);
    CHECK_FALSE(items[1].as_unsigned().has_value());
    CHECK(items[2].as_boolean() == true);
    CHECK(items[3].as_boolean() == false);
    CHECK(items[4].is_null());
    CHECK(*value.find("b")->find("c")->as_string() == "x");
    CHECK(value.find("")->as_unsigned() == 0);
    CHECK(value.find("d") == nullptr);
  }

  TEST_CASE("numbers are read only where they are in range") {
    CHECK(parse_json("18446744073709551615").value().as_unsigned() == 18446744073709551615ULL);
    CHECK_FALSE(parse_json("18446744073709551616").value().as_unsigned().has_value());
    CHECK_FALSE(parse_json("1e999").value().as_double().has_value());
    CHECK(parse_json("1e-05").value().as_double() == 1e-5);
  }

  TEST_CASE("escapes become UTF-8, and quoting gives the same string back") {
    CHECK(*parse_json(R"("\u0041\n\u00e9\u20ac\ud83d\ude00\/")").value().as_string() ==
          "A\n\u00e9\u20ac\U0001F600/");
    const std::string odd = "a\"b\\c\x01\n\u00e9";
    CHECK(*parse_json(json_quoted(odd)).value().as_string() == odd);
  }

  TEST_CASE("what is not JSON is refused, with the byte") {
    CHECK(why("") == "JSON, byte 0: a value is expected");
    CHECK(why("{\"a\":1,}") == "JSON, byte 7: a string is expected");
    CHECK(why("[1 2]") == "JSON, byte 3: a comma or ] is expected");
    CHECK(why("{\"a\":1,\"a\":2}") == "JSON, byte 13: a key of this object comes twice");
    CHECK(why("[]x") == "JSON, byte 2: more text follows the value");
    for (const char* text : {"01",
                             "1.",
                             "-",
                             "1e",
                             "+1",
                             "nul",
                             "tru",
                             "\"",
                             "\"\\x\"",
                             "{\"a\"}",
                             "\"\\ud800\"",
                             "\"\\udc00\"",
                             "\"\\u12\"",
                             "\"\n\"",
                             "[",
                             "{",
                             "NaN",
                             "\"\xff\"",
                             "\"\xc0\x80\"",
                             "\"\xed\xa0\x80\"",
                             "\"\xf4\x90\x80\x80\""})
      CHECK_MESSAGE(!parse_json(text).has_value(), text);
  }

  TEST_CASE("depth is bounded") {
    const std::string deep(100'000, '[');
    CHECK(why(deep) == "JSON, byte 17: values lie too deep in each other");
    CHECK(parse_json(std::string(16, '[') + "1" + std::string(16, ']')).has_value());
  }
}

} // namespace
