/// Small models and reproducible sequences for the tests of training.
#pragma once

#include "kernels/scorer.hpp"
#include "tests/kernels/random_floats.hpp"

#include <cmath>
#include <deque>
#include <vector>

namespace weir::kernels {

inline model_config tiny_config() {
  model_config config;
  config.vocabulary = 19;
  config.hidden = 24;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = 6;
  config.ffn = 20;
  config.context = 40;
  return config;
}

/// Random weights, large enough that every part of the model matters.
inline float_buffer lively_weights(const model_config& config, std::uint64_t seed) {
  const parameter_layout layout(config);
  float_buffer weights(layout.total);
  std::uint64_t stream = seed * 1000;
  for (const parameter& item : layout.parameters) {
    const std::vector<float> values = random_floats(item.count, ++stream);
    const bool is_norm = item.name.ends_with("norm.weight");
    const float scale =
        item.shape.size() == 2 ? 1.6F / std::sqrt(static_cast<float>(item.shape[1])) : 0.3F;
    for (std::size_t i = 0; i < item.count; ++i)
      weights.data()[item.offset + i] = (is_norm ? 1.0F : 0.0F) + scale * values[i];
  }
  return weights;
}

/// Groups of sequences that own their memory.
class sequence_set {
public:
  /// `lengths[g]` holds the completion lengths of group g, whose prompt has 3 + g tokens.
  sequence_set(const model_config& config, const std::vector<std::vector<std::size_t>>& lengths) {
    std::uint64_t stream = 77;
    for (std::size_t g = 0; g < lengths.size(); ++g) {
      const std::vector<std::uint32_t> prompt = tokens(config, 3 + g, ++stream);
      std::vector<sequence>& siblings = sequences_.emplace_back();
      for (const std::size_t length : lengths[g]) {
        std::vector<std::uint32_t>& all = tokens_.emplace_back(prompt);
        const std::vector<std::uint32_t> completion = tokens(config, length, ++stream);
        all.insert(all.end(), completion.begin(), completion.end());
        std::vector<float>& generation = floats_.emplace_back(random_floats(length, ++stream));
        std::vector<float>& reference = floats_.emplace_back(random_floats(length, ++stream));
        for (std::size_t i = 0; i < length; ++i) {
          generation[i] = -2.5F + 0.6F * generation[i];
          reference[i] = -2.5F + 0.6F * reference[i];
        }
        sequence item;
        item.tokens = all;
        item.prompt_length = static_cast<std::uint32_t>(prompt.size());
        item.advantage = random_floats(1, ++stream)[0] * 2.0F;
        item.generation_logprobs = generation;
        item.reference_logprobs = reference;
        siblings.push_back(item);
      }
    }
  }

  std::vector<group> groups() const {
    std::vector<group> result;
    for (const std::vector<sequence>& siblings : sequences_)
      result.push_back({siblings});
    return result;
  }
  std::vector<std::vector<sequence>>& sequences() { return sequences_; }
  std::size_t completion_tokens() const {
    std::size_t total = 0;
    for (const std::vector<sequence>& siblings : sequences_)
      for (const sequence& item : siblings)
        total += item.completion_length();
    return total;
  }

private:
  static std::vector<std::uint32_t> tokens(const model_config& config, std::size_t count,
                                           std::uint64_t stream) {
    std::vector<std::uint32_t> result;
    for (const float value : random_floats(count, stream))
      result.push_back(static_cast<std::uint32_t>((value + 1.0F) * 0.5F *
                                                  static_cast<float>(config.vocabulary)) %
                       config.vocabulary);
    return result;
  }

  std::deque<std::vector<std::uint32_t>> tokens_;
  std::deque<std::vector<float>> floats_;
  std::vector<std::vector<sequence>> sequences_;
};

} // namespace weir::kernels
