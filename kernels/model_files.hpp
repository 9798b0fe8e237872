/// The files of a model, as transformers writes and reads them: `config.json` and safetensors with
/// Hugging Face names; and the moments of the optimizer, in the same format.
///
/// Everything here is bytes in, bytes out: who calls knows where they lie.
#pragma once

#include "kernels/model.hpp"
#include "kernels/safetensors.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::kernels {

/// Special tokens that `config.json` names, where the tokenizer has them.
struct config_tokens {
  std::optional<std::uint32_t> begin;
  std::optional<std::uint32_t> end;
  std::optional<std::uint32_t> padding;
};

/// Text of a `config.json` for LlamaForCausalLM, Qwen2ForCausalLM (attention_bias) or
/// Qwen3ForCausalLM (qk_norm). Fails with `unsupported` for a model with both, which none of the
/// three is.
[[nodiscard]] result<std::string> config_text(const model_config& config,
                                              const config_tokens& tokens);

/// Reads the `config.json` of a Llama, Qwen2 or Qwen3 model, whoever wrote it; keys without a
/// meaning here are ignored. Fails with `corrupt` on text that is no JSON, with `invalid_argument`
/// on a missing or wrong key, with `unsupported` on a feature that the model code does not have;
/// each names the key.
[[nodiscard]] result<model_config> parse_config(std::string_view text);

/// Writes all parameters of a flat buffer. @pre `weights` has the layout's size.
[[nodiscard]] result<void> write_weights(const model_config& config, std::span<const float> weights,
                                         const byte_sink& sink);

/// Reads all parameters from one or more safetensors files (the shards of a model), in any of the
/// types that safetensors.hpp reads. Fails with `corrupt`, naming the tensor that is missing, comes
/// twice, has another shape, or is none of the model's.
[[nodiscard]] result<float_buffer> read_weights(const model_config& config,
                                                std::span<const std::span<const std::byte>> files);

/// Moments of AdamW in the model's flat layout, after `step` steps.
struct optimizer_moments {
  std::span<const float> first;
  std::span<const float> second;
  std::uint64_t step = 0;
};
struct loaded_moments {
  float_buffer first;
  float_buffer second;
  std::uint64_t step = 0;
};

/// Writes the moments of each parameter as `NAME.exp_avg` and `NAME.exp_avg_sq` (the words of
/// PyTorch's AdamW), and the step as metadata.
[[nodiscard]] result<void> write_moments(const model_config& config,
                                         const optimizer_moments& moments, const byte_sink& sink);

/// Reads what `write_moments` wrote; errors as `read_weights`.
[[nodiscard]] result<loaded_moments> read_moments(const model_config& config,
                                                  std::span<const std::byte> file);

} // namespace weir::kernels
