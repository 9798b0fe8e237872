#include "kernels/tokenizer.hpp"

#include <doctest/doctest.h>

namespace {

using namespace weir;
using namespace weir::kernels;

TEST_SUITE("kernels/tokenizer") {
  TEST_CASE("every byte encodes to its own value and back") {
    const byte_tokenizer bytes;
    std::string text;
    for (int value = 0; value < 256; ++value)
      text.push_back(static_cast<char>(value));
    const std::vector<token_id> tokens = bytes.encode(text);
    REQUIRE(tokens.size() == 256);
    for (token_id value = 0; value < 256; ++value)
      CHECK(tokens[value] == value);
    CHECK(bytes.decode(tokens).value() == text);
  }

  TEST_CASE("special tokens have no text") {
    const byte_tokenizer bytes;
    const std::vector<token_id> tokens{byte_tokenizer::begin_token,
                                       'h',
                                       'i',
                                       byte_tokenizer::turn_token,
                                       byte_tokenizer::end_token,
                                       byte_tokenizer::padding_token};
    CHECK(bytes.decode(tokens).value() == "hi");
  }

  TEST_CASE("an id outside the vocabulary is refused by place and value") {
    const byte_tokenizer bytes;
    const std::vector<token_id> tokens{'a', 260};
    const auto text = bytes.decode(tokens);
    REQUIRE_FALSE(text.has_value());
    CHECK(text.error().code == errc::invalid_argument);
    CHECK(text.error().text == "token 1 is 260: the byte tokenizer has ids 0 to 259");
  }

  TEST_CASE("the special tokens lie within the vocabulary and differ") {
    const byte_tokenizer bytes;
    CHECK(bytes.vocabulary() == 260);
    CHECK(bytes.padding() == 256);
    CHECK(bytes.begin() == 257);
    CHECK(bytes.end() == 258);
    CHECK(bytes.encode("").empty());
  }
}

} // namespace
