#include "actors/trainer/llama_learner.hpp"

#include "kernels/philox.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace weir {

namespace {

const llama_policy& policy_of(const policy_ptr& policy) {
  ensure(policy != nullptr, "a learner is given a policy");
  return *static_cast<const llama_policy*>(policy.get());
}

const kernels::training_state& state_of(const policy_ptr& policy) {
  return policy_of(policy).state;
}

kernels::float_buffer copy_of(std::span<const float> values) {
  kernels::float_buffer copy(values.size());
  std::ranges::copy(values, copy.data());
  return copy;
}

learned outcome_of(std::shared_ptr<llama_policy> next, const kernels::step_report& report) {
  learned outcome;
  outcome.next = std::move(next);
  outcome.report.loss = report.loss;
  outcome.report.grad_norm = report.grad_norm;
  outcome.report.kl = report.approx_kl;
  outcome.report.clip_fraction = report.clip_fraction;
  outcome.report.tokens = report.valid_tokens;
  return outcome;
}

/// The groups of a step as the kernels want them; owns what the spans point to.
class step_batch {
public:
  step_batch(const std::vector<ClaimedGroupT>& claimed, const kernels::advantage_options& options) {
    for (const ClaimedGroupT& group : claimed)
      add(group, options);
    for (const auto& sequences : sequences_)
      groups_.push_back(kernels::group{sequences});
  }
  [[nodiscard]] std::span<const kernels::group> groups() const { return groups_; }

  /// Hands each sequence, in order, its reference log-probabilities.
  void set_reference(std::vector<float> logprobs) {
    reference_ = std::move(logprobs);
    std::size_t offset = 0;
    for (auto& sequences : sequences_) {
      for (kernels::sequence& one : sequences) {
        one.reference_logprobs =
            std::span<const float>(reference_).subspan(offset, one.completion_length());
        offset += one.completion_length();
      }
    }
  }
  [[nodiscard]] std::size_t completion_tokens() const {
    std::size_t tokens = 0;
    for (const auto& sequences : sequences_) {
      for (const kernels::sequence& one : sequences)
        tokens += one.completion_length();
    }
    return tokens;
  }

private:
  void add(const ClaimedGroupT& group, const kernels::advantage_options& options) {
    std::vector<float> rewards;
    for (const auto& sibling : group.siblings)
      rewards.push_back(sibling->reward);
    std::vector<float> advantages(rewards.size());
    kernels::compute_advantages(options, rewards, advantages);
    std::vector<kernels::sequence> sequences;
    for (std::size_t i = 0; i < group.siblings.size(); ++i) {
      const SiblingRolloutT& sibling = *group.siblings[i];
      tokens_.emplace_back(sibling.tokens.begin(), sibling.tokens.end());
      kernels::sequence one;
      one.tokens = tokens_.back();
      one.prompt_length = sibling.prompt_length;
      one.advantage = advantages[i];
      one.generation_logprobs = sibling.logprobs;
      sequences.push_back(one);
    }
    sequences_.push_back(std::move(sequences));
  }

  std::vector<std::vector<std::uint32_t>> tokens_; ///< Moving a vector keeps its elements' place.
  std::vector<std::vector<kernels::sequence>> sequences_;
  std::vector<kernels::group> groups_;
  std::vector<float> reference_;
};

/// Writes the files of a policy one after the other; the first failure stops the rest.
class policy_writer {
public:
  explicit policy_writer(const section_target& target) : target_(target) {}

  /// `fill` is given a sink for the file's bytes.
  template <class Fill>
  void write(const std::string& path, Fill&& fill) {
    if (failed_) return;
    auto file = dataplane::section_file::create(target_.storage, target_.directory, path,
                                                target_.epoch, target_.pace);
    if (!file) {
      failed_ = std::move(file.error());
      return;
    }
    const kernels::byte_sink sink = [&file](std::span<const std::byte> bytes) {
      return file->append(bytes);
    };
    if (auto filled = fill(sink); !filled) {
      failed_ = std::move(filled.error());
      return;
    }
    auto finished = file->finish();
    if (finished)
      files_.push_back(std::move(*finished));
    else
      failed_ = std::move(finished.error());
  }
  [[nodiscard]] result<std::vector<dataplane::finished_section>> finish() && {
    if (failed_) return failure(std::move(*failed_));
    return std::move(files_);
  }

private:
  const section_target& target_;
  std::vector<dataplane::finished_section> files_;
  std::optional<error> failed_;
};

error in_file(const std::string& path, error reason) {
  reason.text = path + ": " + reason.text;
  return reason;
}

} // namespace

llama_learner::llama_learner(llama_learner_options options,
                             std::shared_ptr<const kernels::tokenizer> text)
    : options_(std::move(options)), text_(std::move(text)),
      trainer_(options_.model, options_.compute), scorer_(options_.model, options_.compute) {}

result<std::shared_ptr<llama_learner>>
llama_learner::create(llama_learner_options options,
                      std::shared_ptr<const kernels::tokenizer> text) {
  if (auto fine = kernels::validate(options.model); !fine) return failure(std::move(fine.error()));
  if (auto fine = kernels::validate(options.loss); !fine) return failure(std::move(fine.error()));
  if (auto fine = kernels::validate(options.advantages); !fine)
    return failure(std::move(fine.error()));
  if (auto fine = kernels::validate(options.optimizer); !fine)
    return failure(std::move(fine.error()));
  if (auto fine = kernels::validate(options.sampling); !fine)
    return failure(std::move(fine.error()));
  return std::shared_ptr<llama_learner>(new llama_learner(std::move(options), std::move(text)));
}

policy_ptr llama_learner::fresh() const {
  return begin(kernels::initial_weights(options_.model, options_.seed));
}

policy_ptr llama_learner::begin(kernels::float_buffer weights) const {
  auto policy = std::make_shared<llama_policy>();
  if (options_.loss.reference_policy_kl_penalty > 0.0)
    policy->reference = std::make_shared<const kernels::float_buffer>(copy_of(weights.values()));
  policy->state = kernels::begin_training(options_.model, std::move(weights));
  return policy;
}

result<void> llama_learner::begin_step(const policy_ptr& before) {
  before_ = before;
  tokens_ = 0;
  masked_tokens_ = 0;
  return trainer_.begin_step(state_of(before).weights.values(), options_.loss);
}

result<void> llama_learner::add_groups(const std::vector<ClaimedGroupT>& groups) {
  step_batch batch(groups, options_.advantages);
  if (const auto& reference = policy_of(before_).reference; reference != nullptr) {
    std::vector<float> logprobs(batch.completion_tokens());
    auto scored = scorer_.score(reference->values(), batch.groups(), logprobs);
    if (!scored) return scored;
    batch.set_reference(std::move(logprobs));
  }
  const auto added = trainer_.add_groups(batch.groups());
  if (!added) return failure(added.error());
  tokens_ += *added;
  masked_tokens_ += batch.completion_tokens() - *added;
  return {};
}

result<learned> llama_learner::finish_step() {
  const policy_ptr before = std::exchange(before_, nullptr);
  learned outcome;
  outcome.next = before;
  if (tokens_ > 0) {
    auto next = std::make_shared<llama_policy>();
    next->reference = policy_of(before).reference;
    const auto report = trainer_.finish_step(state_of(before), options_.optimizer, next->state);
    if (!report) return failure(report.error());
    outcome = outcome_of(std::move(next), *report);
  }
  outcome.report.masked_tokens = masked_tokens_;
  return outcome;
}

/// A walk through the examples in an order that follows from the seed, a new one every pass.
std::vector<std::size_t> llama_learner::batch_of(std::uint64_t step) const {
  std::vector<std::size_t> batch;
  for (std::size_t i = 0; i < options_.warmup_batch; ++i) {
    const kernels::philox_block counter{
        {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(i), 0, 0}};
    const auto bits = kernels::philox4x32(counter, kernels::make_philox_key(options_.seed));
    batch.push_back(bits.words[0] % options_.examples.size());
  }
  return batch;
}

result<learned> llama_learner::warm_up(const policy_ptr& before, std::uint64_t step) {
  if (options_.examples.empty())
    return failure(errc::invalid_argument,
                   "policy.warmup: the dataset has no example to warm up with");
  std::vector<std::vector<std::uint32_t>> tokens;
  std::vector<kernels::sequence> sequences;
  for (const std::size_t index : batch_of(step)) {
    const warmup_example& example = options_.examples[index];
    tokens.push_back(example.prompt_tokens);
    tokens.back().insert(tokens.back().end(), example.answer_tokens.begin(),
                         example.answer_tokens.end());
    kernels::sequence one;
    one.tokens = tokens.back();
    one.prompt_length = static_cast<std::uint32_t>(example.prompt_tokens.size());
    sequences.push_back(one);
  }
  auto next = std::make_shared<llama_policy>();
  auto report =
      trainer_.supervised_step(state_of(before), sequences, options_.warmup_optimizer, next->state);
  if (!report) return failure(std::move(report.error()));
  return outcome_of(std::move(next), *report);
}

/// Decodes one completion of each measured prompt, as the job would. Its own decoder: the measure
/// must not disturb the generators, and runs before there is anything for them to do.
result<std::vector<warmup_sample>> llama_learner::sample(const policy_ptr& policy) {
  const std::size_t count = std::min(options_.measured_prompts, options_.examples.size());
  kernels::decoder_options wanted;
  wanted.max_sequences = static_cast<std::uint32_t>(std::max<std::size_t>(count, 1));
  wanted.threads = options_.compute.threads;
  wanted.isa = options_.compute.isa;
  auto decoding = kernels::decoder::create(options_.model, wanted);
  if (!decoding) return failure(std::move(decoding.error()));
  const kernels::training_state& state = state_of(policy);
  const kernels::published_weights weights{
      std::shared_ptr<const float>(policy, state.weights.data()), state.weights.size(), 0};
  if (auto taken = (*decoding)->set_weights(weights); !taken)
    return failure(std::move(taken.error()));
  const std::size_t stride =
      std::max<std::size_t>(options_.examples.size() / std::max<std::size_t>(count, 1), 1);
  std::map<std::uint64_t, std::vector<std::uint32_t>> completions;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto admitted = admit(**decoding, i * stride, i); !admitted)
      return failure(std::move(admitted.error()));
  }
  while ((*decoding)->live_sequences() > 0) {
    auto tokens = (*decoding)->step();
    if (!tokens) return failure(std::move(tokens.error()));
    for (const kernels::emitted_token& token : *tokens)
      completions[token.tag].push_back(token.token);
  }
  std::vector<warmup_sample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    auto completion = text_->decode(completions[i]);
    if (!completion) return failure(std::move(completion.error()));
    const warmup_example& example = options_.examples[i * stride];
    samples.push_back({example.prompt, example.answer, std::move(*completion)});
  }
  return samples;
}

result<void> llama_learner::admit(kernels::decoder& decoding, std::size_t example,
                                  std::uint64_t tag) const {
  kernels::decode_request request;
  request.tag = tag;
  request.prompt = options_.examples[example].prompt_tokens;
  request.sampling = options_.sampling;
  request.key = {options_.seed, 0, example, 0};
  request.max_new_tokens = options_.max_new_tokens;
  request.stop_tokens = options_.stop_tokens;
  return decoding.admit(request);
}

policy_ptr llama_learner::start_of_job(const policy_ptr& warmed_up) {
  return begin(copy_of(state_of(warmed_up).weights.values()));
}

attachment llama_learner::publish(const policy_ptr& policy) const {
  const auto weights = state_of(policy).weights.values();
  return {policy, std::as_bytes(weights)};
}

result<std::vector<dataplane::finished_section>>
llama_learner::write(const policy_ptr& policy, const section_target& target) const {
  const kernels::training_state& state = state_of(policy);
  const auto text = kernels::config_text(state.config, options_.special_tokens);
  if (!text) return failure(text.error());
  policy_writer files(target);
  files.write(policy_weights_path, [&](const kernels::byte_sink& sink) {
    return kernels::write_weights(state.config, state.weights.values(), sink);
  });
  files.write(policy_config_path, [&](const kernels::byte_sink& sink) {
    return sink(std::as_bytes(std::span(*text)));
  });
  if (options_.save_optimizer) {
    files.write(policy_optimizer_path, [&](const kernels::byte_sink& sink) {
      const kernels::optimizer_moments moments{state.first_moments.values(),
                                               state.second_moments.values(), state.optimizer_step};
      return kernels::write_moments(state.config, moments, sink);
    });
  }
  if (const auto& reference = policy_of(policy).reference; reference != nullptr) {
    files.write(policy_reference_path, [&](const kernels::byte_sink& sink) {
      return kernels::write_weights(state.config, reference->values(), sink);
    });
  }
  return std::move(files).finish();
}

result<std::vector<dataplane::finished_section>>
llama_learner::write_version(const policy_ptr& policy, weight_version version,
                             const section_target& target) const {
  const kernels::training_state& state = state_of(policy);
  const auto text = kernels::config_text(state.config, options_.special_tokens);
  if (!text) return failure(text.error());
  policy_writer files(target);
  const std::string directory = version_directory(version);
  files.write(directory + "config.json", [&](const kernels::byte_sink& sink) {
    return sink(std::as_bytes(std::span(*text)));
  });
  files.write(directory + "model.safetensors", [&](const kernels::byte_sink& sink) {
    return kernels::write_weights(state.config, state.weights.values(), sink);
  });
  return std::move(files).finish();
}

namespace {

result<kernels::float_buffer> read_weights_file(const kernels::model_config& config,
                                                const std::string& path,
                                                std::span<const std::byte> bytes) {
  auto weights = kernels::read_weights(config, std::span(&bytes, 1));
  if (!weights) return failure(in_file(path, std::move(weights.error())));
  return weights;
}

} // namespace

result<policy_ptr> read_policy(const policy_files& files, const kernels::model_config& expected) {
  const std::string_view text(reinterpret_cast<const char*>(files.config.data()),
                              files.config.size());
  auto config = kernels::parse_config(text);
  if (!config) return failure(in_file(policy_config_path, std::move(config.error())));
  if (*config != expected)
    return failure(errc::conflict, std::string(policy_config_path) +
                                       ": the model has another shape than policy.architecture");
  auto weights = read_weights_file(*config, policy_weights_path, files.weights);
  if (!weights) return failure(std::move(weights.error()));
  auto policy = std::make_shared<llama_policy>();
  policy->state = kernels::begin_training(*config, std::move(*weights));
  if (!files.optimizer.empty()) {
    auto moments = kernels::read_moments(*config, files.optimizer);
    if (!moments) return failure(in_file(policy_optimizer_path, std::move(moments.error())));
    policy->state.first_moments = std::move(moments->first);
    policy->state.second_moments = std::move(moments->second);
    policy->state.optimizer_step = moments->step;
  }
  if (!files.reference.empty()) {
    auto reference = read_weights_file(*config, policy_reference_path, files.reference);
    if (!reference) return failure(std::move(reference.error()));
    policy->reference = std::make_shared<const kernels::float_buffer>(std::move(*reference));
  }
  return policy_ptr(std::move(policy));
}

result<policy_ptr> read_version(weight_version version, std::span<const std::byte> weights,
                                const kernels::model_config& expected) {
  const std::string path = version_directory(version) + "model.safetensors";
  auto values = read_weights_file(expected, path, weights);
  if (!values) return failure(std::move(values.error()));
  auto policy = std::make_shared<llama_policy>();
  policy->state.config = expected;
  policy->state.weights = std::move(*values);
  return policy_ptr(std::move(policy));
}

} // namespace weir
