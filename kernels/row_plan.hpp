/// Sequences of different lengths as one set of rows without padding: what one pass computes.
///
/// One row is one token. Neighbouring sequences with the same prompt (the siblings of a group)
/// share the prompt's rows: it is computed once and every sibling attends to it. The last token of
/// a sequence has no row, since nothing is predicted from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::kernels {

/// A prompt and one completion, and what a training step knows of it. Spans are the caller's and
/// live as long as the call they are passed to. Those over completion tokens have
/// `tokens.size() - prompt_length` entries; optional ones may be empty.
struct sequence {
  std::span<const std::uint32_t> tokens; ///< Prompt, then completion (observations included).
  std::uint32_t prompt_length = 0;       ///< At least 1.
  float advantage = 0.0F;
  std::span<const float> generation_logprobs; ///< Per completion token, from the decoder.
  std::span<const float> reference_logprobs;  ///< Per completion token; for the KL penalty.
  /// Per completion token: 0 leaves it out of the loss (observations). Optional: all count.
  std::span<const std::uint8_t> loss_mask;

  [[nodiscard]] std::size_t completion_length() const noexcept {
    return tokens.size() - prompt_length;
  }
};

/// Consecutive rows that see each other causally, and all rows of a prefix before.
struct row_segment {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t prefix_first_row = 0;
  std::uint32_t prefix_rows = 0;
};

/// One completion token and the head row whose logits predict it.
struct prediction {
  std::uint32_t head_row = 0;
  std::uint32_t token = 0;
  std::uint32_t sequence = 0;
  std::uint32_t index = 0; ///< Of the token in its completion.
};

/// The rows of some sequences. Reused from pass to pass: it keeps its memory.
class row_plan {
public:
  /// @pre every sequence has a prompt.
  void build(std::span<const sequence> sequences);

  [[nodiscard]] std::size_t rows() const noexcept { return tokens_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::span<const std::uint32_t> positions() const noexcept { return positions_; }
  [[nodiscard]] std::span<const row_segment> segments() const noexcept { return segments_; }
  /// Rows that logits are computed of, in increasing order.
  [[nodiscard]] std::span<const std::uint32_t> head_rows() const noexcept { return head_rows_; }
  /// By sequence, then by token.
  [[nodiscard]] std::span<const prediction> predictions() const noexcept { return predictions_; }
  /// Tokens of the longest sequence that has rows.
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

private:
  row_segment append(std::span<const std::uint32_t> tokens, std::uint32_t first_position,
                     const row_segment& prefix);

  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<row_segment> segments_;
  std::vector<std::uint32_t> head_rows_;
  std::vector<prediction> predictions_;
  std::size_t longest_ = 0;
};

} // namespace weir::kernels
