/// The production learner: the Llama-style policy of `kernels`, GRPO, AdamW.
#pragma once

#include "actors/trainer/learner.hpp"
#include "kernels/advantages.hpp"
#include "kernels/decoder.hpp"
#include "kernels/model_files.hpp"
#include "kernels/tokenizer.hpp"
#include "kernels/trainer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// One record of the supervised warm-up: a prompt and the answer that shall follow it.
struct warmup_example {
  std::string prompt;
  std::string answer;
  std::vector<std::uint32_t> prompt_tokens;
  std::vector<std::uint32_t> answer_tokens; ///< The end token included.
};

/// One policy: weights and optimizer, and the weights that the KL penalty holds it to.
struct llama_policy {
  kernels::training_state state;
  /// The job's first policy; null without a KL penalty.
  std::shared_ptr<const kernels::float_buffer> reference;
};

struct llama_learner_options {
  kernels::model_config model;
  kernels::config_tokens special_tokens;
  kernels::compute_options compute;
  kernels::loss_options loss;
  kernels::advantage_options advantages;
  kernels::optimizer_options optimizer;
  bool save_optimizer = true;

  // Warm-up and how it is measured.
  std::vector<warmup_example> examples;
  std::uint64_t seed = 42;
  std::size_t warmup_batch = 64;
  std::size_t measured_prompts = 128;
  kernels::optimizer_options warmup_optimizer;
  kernels::sampling_options sampling;
  std::vector<std::uint32_t> stop_tokens;
  std::uint32_t max_new_tokens = 16;
};

class llama_learner final : public learner {
public:
  /// `text` outlives the learner. Errors: invalid_argument naming the option.
  [[nodiscard]] static result<std::shared_ptr<llama_learner>>
  create(llama_learner_options options, std::shared_ptr<const kernels::tokenizer> text);

  /// A fresh policy, from the seed.
  [[nodiscard]] policy_ptr fresh() const;
  /// A policy around given weights with a fresh optimizer: `policy.model` of the configuration.
  [[nodiscard]] policy_ptr begin(kernels::float_buffer weights) const;

  result<void> begin_step(const policy_ptr& before) override;
  result<void> add_groups(const std::vector<ClaimedGroupT>& groups) override;
  result<learned> finish_step() override;
  result<learned> warm_up(const policy_ptr& before, std::uint64_t step) override;
  result<std::vector<warmup_sample>> sample(const policy_ptr& policy) override;
  policy_ptr start_of_job(const policy_ptr& warmed_up) override;
  [[nodiscard]] attachment publish(const policy_ptr& policy) const override;
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write(const policy_ptr& policy, const section_target& target) const override;
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write_version(const policy_ptr& policy, weight_version version,
                const section_target& target) const override;

private:
  llama_learner(llama_learner_options options, std::shared_ptr<const kernels::tokenizer> text);

  [[nodiscard]] std::vector<std::size_t> batch_of(std::uint64_t step) const;
  [[nodiscard]] result<void> admit(kernels::decoder& decoding, std::size_t example,
                                   std::uint64_t tag) const;

  const llama_learner_options options_;
  const std::shared_ptr<const kernels::tokenizer> text_;
  kernels::trainer trainer_;
  kernels::scorer scorer_;

  // The open step.
  policy_ptr before_;
  std::uint64_t tokens_ = 0;
  std::uint64_t masked_tokens_ = 0;
};

/// Reads what `write` wrote: the files of `policy/` of a bundle, by path. A missing optimizer means
/// fresh moments. Errors name the file.
struct policy_files {
  std::vector<std::byte> config;
  std::vector<std::byte> weights;
  std::vector<std::byte> optimizer; ///< Empty when the bundle has none.
  std::vector<std::byte> reference; ///< Empty when the bundle has none.
};
inline constexpr const char* policy_config_path = "policy/weights/config.json";
inline constexpr const char* policy_weights_path = "policy/weights/model.safetensors";
inline constexpr const char* policy_optimizer_path = "policy/optimizer/optimizer.safetensors";
inline constexpr const char* policy_reference_path = "policy/reference/model.safetensors";
[[nodiscard]] result<policy_ptr> read_policy(const policy_files& files,
                                             const kernels::model_config& expected);
/// Reads what `write_version` wrote: weights alone, to publish and to write again, never to train.
[[nodiscard]] result<policy_ptr> read_version(weight_version version,
                                              std::span<const std::byte> weights,
                                              const kernels::model_config& expected);

} // namespace weir
