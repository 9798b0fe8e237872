#include "kernels/tokenizer.hpp"

namespace weir::kernels {

std::vector<token_id> byte_tokenizer::encode(std::string_view text) const {
  std::vector<token_id> tokens;
  tokens.reserve(text.size());
  for (const char character : text)
    tokens.push_back(static_cast<unsigned char>(character));
  return tokens;
}

result<std::string> byte_tokenizer::decode(std::span<const token_id> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const token_id token = tokens[index];
    if (token >= vocabulary_size)
      return failure(errc::invalid_argument, "token " + std::to_string(index) + " is " +
                                                 std::to_string(token) +
                                                 ": the byte tokenizer has ids 0 to 259");
    if (token < padding_token) text.push_back(static_cast<char>(token));
  }
  return text;
}

} // namespace weir::kernels
