/// Tokenizers: text to token ids and back. The interface leaves room for one that reads a Hugging
/// Face tokenizer.json; the byte tokenizer is always available and needs no file.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::kernels {

using token_id = std::uint32_t;

/// Text to tokens and back. Immutable after construction; may be shared by threads.
class tokenizer {
public:
  tokenizer() = default;
  tokenizer(const tokenizer&) = delete;
  tokenizer& operator=(const tokenizer&) = delete;
  virtual ~tokenizer() = default;

  /// Number of ids, special tokens included: the model's vocabulary must be at least this.
  [[nodiscard]] virtual std::uint32_t vocabulary() const noexcept = 0;

  /// Tokens of `text`, without special tokens: the caller adds `begin()` where it wants it.
  [[nodiscard]] virtual std::vector<token_id> encode(std::string_view text) const = 0;

  /// Text of `tokens`; special tokens have none. Fails on an id outside the vocabulary.
  [[nodiscard]] virtual result<std::string> decode(std::span<const token_id> tokens) const = 0;

  /// Fills a batch; never sampled from, never scored.
  [[nodiscard]] virtual token_id padding() const noexcept = 0;
  /// Starts a sequence, where the model was trained with such a token.
  [[nodiscard]] virtual std::optional<token_id> begin() const noexcept = 0;
  /// Ends a completion.
  [[nodiscard]] virtual token_id end() const noexcept = 0;
};

/// One token per byte (0..255), then padding 256, begin 257, end 258 and turn 259.
///
/// Every byte string encodes and decodes to itself, valid UTF-8 or not: what a policy writes is
/// never refused.
class byte_tokenizer final : public tokenizer {
public:
  static constexpr token_id padding_token = 256;
  static constexpr token_id begin_token = 257;
  static constexpr token_id end_token = 258;
  static constexpr token_id turn_token = 259; ///< Between the turns of a conversation.
  static constexpr std::uint32_t vocabulary_size = 260;

  [[nodiscard]] std::uint32_t vocabulary() const noexcept override { return vocabulary_size; }
  [[nodiscard]] std::vector<token_id> encode(std::string_view text) const override;
  [[nodiscard]] result<std::string> decode(std::span<const token_id> tokens) const override;
  [[nodiscard]] token_id padding() const noexcept override { return padding_token; }
  [[nodiscard]] std::optional<token_id> begin() const noexcept override { return begin_token; }
  [[nodiscard]] token_id end() const noexcept override { return end_token; }
};

} // namespace weir::kernels
