/// A job: a checked configuration turned into what actors are built from. Reads the dataset and the
/// model, and finds everything wrong with them before anything on disk changes.
#pragma once

#include "actors/dataloader/dataset.hpp"
#include "actors/main_job.hpp"
#include "actors/rollout/rollout.hpp"
#include "actors/sampler/sampler_policy.hpp"
#include "actors/sampler/sampler_state.hpp"
#include "actors/trainer/llama_learner.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/spill_area.hpp"
#include "examples/weir/config.hpp"
#include "kernels/device.hpp"
#include "kernels/tokenizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace weir {

struct job {
  run_config config;
  std::shared_ptr<const dataset> records;
  std::shared_ptr<const dataset> held_out; ///< Null without validation.
  std::shared_ptr<const kernels::tokenizer> text;
  std::shared_ptr<const sampler_policy> policy;
  std::shared_ptr<llama_learner> learner;
  kernels::model_config model;
  kernels::sampling_options sampling;
  std::vector<std::uint32_t> stop_tokens;
  kernels::device_choice device;
  std::shared_ptr<dataplane::spill_area> spill; ///< Null: rollouts stay in memory.
  /// The policy of a new run: random, or read from `policy.model`.
  policy_ptr first_policy;
};

/// Errors name file, key or record and what to do. The disk outlives the job.
[[nodiscard]] result<job> prepare_job(dataplane::disk& storage, const run_config& config);

/// As `prepare_job`, with random weights: of `policy.model` only config.json is read. For a graph
/// that is drawn and never started.
[[nodiscard]] result<job> sketch_job(dataplane::disk& storage, const run_config& config);

// What each actor is given, from the configuration.
[[nodiscard]] failure_limits failure_limits_of(const run_config& config);
[[nodiscard]] health_options health_options_of(const run_config& config);
[[nodiscard]] rollout_options rollout_options_of(const run_config& config);
[[nodiscard]] text_codec text_codec_of(const job& work);
[[nodiscard]] validation_options validation_options_of(const run_config& config);
[[nodiscard]] result<scoring> scoring_of(const run_config& config);

/// The tokens that a record's text becomes: the tokenizer's begin token, if it has one, then
/// `data.prompt_template` with the text in place of "{input}".
[[nodiscard]] std::vector<std::uint32_t>
prompt_tokens(const kernels::tokenizer& text, const std::string& pattern, std::string_view input);

[[nodiscard]] std::chrono::nanoseconds seconds(double count);

} // namespace weir
