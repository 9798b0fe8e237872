#include "kernels/row_plan.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir::kernels {

void row_plan::build(std::span<const sequence> sequences) {
  tokens_.clear();
  positions_.clear();
  segments_.clear();
  head_rows_.clear();
  predictions_.clear();
  longest_ = 0;

  std::span<const std::uint32_t> shared_prompt;
  row_segment prompt_segment;
  std::uint32_t prompt_head_row = 0;
  for (std::size_t index = 0; index < sequences.size(); ++index) {
    const sequence& item = sequences[index];
    ensure(item.prompt_length > 0 && item.prompt_length <= item.tokens.size(),
           "a sequence has a prompt");
    if (item.completion_length() == 0) continue;
    longest_ = std::max(longest_, item.tokens.size());
    const auto prompt = item.tokens.first(item.prompt_length);
    if (!std::equal(prompt.begin(), prompt.end(), shared_prompt.begin(), shared_prompt.end())) {
      shared_prompt = prompt;
      prompt_segment = append(prompt, 0, {});
      prompt_head_row = static_cast<std::uint32_t>(head_rows_.size());
      head_rows_.push_back(prompt_segment.first_row + prompt_segment.rows - 1);
    }
    const auto completion = item.tokens.subspan(item.prompt_length);
    const auto sequence_index = static_cast<std::uint32_t>(index);
    predictions_.push_back({prompt_head_row, completion[0], sequence_index, 0});
    if (completion.size() == 1) continue;
    const row_segment own =
        append(completion.first(completion.size() - 1), item.prompt_length, prompt_segment);
    for (std::uint32_t i = 0; i < own.rows; ++i) {
      const auto head_row = static_cast<std::uint32_t>(head_rows_.size());
      predictions_.push_back({head_row, completion[i + 1], sequence_index, i + 1});
      head_rows_.push_back(own.first_row + i);
    }
  }
}

row_segment row_plan::append(std::span<const std::uint32_t> tokens, std::uint32_t first_position,
                             const row_segment& prefix) {
  const row_segment segment{static_cast<std::uint32_t>(tokens_.size()),
                            static_cast<std::uint32_t>(tokens.size()), prefix.first_row,
                            prefix.rows};
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  for (std::uint32_t i = 0; i < segment.rows; ++i)
    positions_.push_back(first_position + i);
  segments_.push_back(segment);
  return segment;
}

} // namespace weir::kernels
