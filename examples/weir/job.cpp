#include "examples/weir/job.hpp"

#include "actors/environment/environment_state.hpp"
#include "examples/weir/samplers.hpp"
#include "kernels/parallel.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weir {

namespace {

constexpr std::uint64_t dataset_bytes_max = 64ULL << 30;
constexpr std::uint64_t model_file_bytes_max = 64ULL << 30;

std::string_view device_name(device_kind kind) {
  switch (kind) {
  case device_kind::automatic:
    return "auto";
  case device_kind::cpu:
    return "cpu";
  case device_kind::cuda:
    return "cuda";
  }
  return "auto";
}

/// Reads a file that the user names. Unlike what weir itself writes, it may be a link.
result<std::vector<std::byte>> read_input(dataplane::disk& storage, const std::string& key,
                                          const std::string& path, std::uint64_t bytes_max) {
  std::error_code broken;
  const std::filesystem::path target = std::filesystem::canonical(path, broken);
  std::error_code unknown;
  if (broken && std::filesystem::is_symlink(path, unknown))
    return failure(errc::not_found,
                   key + ": " + path + ": the link leads nowhere: " + broken.message());
  auto bytes = dataplane::read_file(storage, broken ? path : target.string(), bytes_max);
  if (!bytes) return failure(bytes.error().code, key + ": " + bytes.error().text);
  return bytes;
}

/// `block` is "data.train" or "data.validation".
result<std::shared_ptr<const dataset>>
read_dataset(dataplane::disk& storage, const dataset_config& source, const std::string& block) {
  if (!source.path)
    return failure(errc::invalid_argument,
                   block + ".path: is not set; name a JSON Lines file of problems");
  const auto bytes = read_input(storage, block + ".path", *source.path, dataset_bytes_max);
  if (!bytes) return failure(bytes.error());
  std::string content(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  dataset_options options;
  options.input_key = source.input_key;
  options.output_key = source.output_key;
  auto records = dataset::parse(*source.path, std::move(content), options);
  if (!records) return failure(std::move(records.error()));
  return std::make_shared<const dataset>(std::move(*records));
}

/// Fills in the datasets of the job.
result<void> read_datasets(dataplane::disk& storage, job& work) {
  const data_config& data = work.config.data;
  auto records = read_dataset(storage, data.train, "data.train");
  if (!records) return failure(std::move(records.error()));
  work.records = std::move(*records);
  if (!data.validation.path) return {};
  auto held_out = read_dataset(storage, data.validation, "data.validation");
  if (!held_out) return failure(std::move(held_out.error()));
  work.held_out = std::move(*held_out);
  return {};
}

/// Stop strings as tokens: with the byte tokenizer those of one byte.
result<std::vector<std::uint32_t>> stop_tokens_of(const run_config& config,
                                                  const kernels::tokenizer& text) {
  std::vector<std::uint32_t> tokens(1, text.end());
  for (const std::string& stop : config.policy.generation.stop) {
    const auto encoded = text.encode(stop);
    if (encoded.size() != 1)
      return failure(errc::invalid_argument,
                     "policy.generation.stop: \"" + stop + "\" is " +
                         std::to_string(encoded.size()) +
                         " tokens; a stop string must be one token of policy.tokenizer");
    tokens.push_back(encoded.front());
  }
  return tokens;
}

/// Prompts that leave no room for their completion are found here, not in the middle of an epoch.
result<void> check_lengths(const job& work, const dataset& records) {
  const std::uint64_t context = work.model.context;
  const std::uint64_t completion = work.config.policy.generation.max_new_tokens;
  for (std::uint64_t i = 0; i < records.size(); ++i) {
    const std::string text = records.at(i).prompt;
    const std::uint64_t tokens =
        prompt_tokens(*work.text, work.config.data.prompt_template, text).size();
    if (tokens > 0 && tokens + completion <= context) continue;
    return failure(errc::invalid_argument,
                   records.place_of(i) + ": the prompt has " + std::to_string(tokens) +
                       " tokens; with policy.generation.max_new_tokens (" +
                       std::to_string(completion) + ") it does not fit into the context of " +
                       std::to_string(context) +
                       " (policy.architecture.context): shorten it, or raise the context");
  }
  return {};
}

std::vector<warmup_example> warmup_examples(const job& work) {
  std::vector<warmup_example> examples;
  if (work.config.policy.warmup.max_steps == 0) return examples;
  for (std::uint64_t i = 0; i < work.records->size(); ++i) {
    const dataset_record record = work.records->at(i);
    warmup_example example;
    example.prompt = record.prompt;
    example.answer = record.answer;
    example.prompt_tokens =
        prompt_tokens(*work.text, work.config.data.prompt_template, record.prompt);
    example.answer_tokens = work.text->encode(final_answer(record.answer));
    example.answer_tokens.push_back(work.text->end());
    const std::size_t tokens = example.prompt_tokens.size() + example.answer_tokens.size();
    if (tokens <= work.model.context) examples.push_back(std::move(example));
  }
  return examples;
}

kernels::optimizer_options optimizer_of(const policy_config& policy) {
  kernels::optimizer_options options;
  options.lr = policy.optimizer.lr;
  options.beta1 = policy.optimizer.beta1;
  options.beta2 = policy.optimizer.beta2;
  options.eps = policy.optimizer.eps;
  options.weight_decay = policy.optimizer.weight_decay;
  options.max_grad_norm = policy.max_grad_norm;
  return options;
}

llama_learner_options learner_options(const job& work) {
  const run_config& config = work.config;
  llama_learner_options options;
  options.model = work.model;
  options.special_tokens = {work.text->begin(), work.text->end(), work.text->padding()};
  options.compute.threads = kernels::hardware_threads();
  options.compute.niceness = 10;
  options.loss.ratio_clip_min = config.loss_fn.ratio_clip_min;
  options.loss.ratio_clip_max = config.loss_fn.ratio_clip_max;
  options.loss.ratio_clip_c = config.loss_fn.ratio_clip_c;
  options.loss.use_importance_sampling_correction =
      config.loss_fn.use_importance_sampling_correction;
  options.loss.importance_sampling_max = config.loss_fn.importance_sampling_max;
  options.loss.reference_policy_kl_penalty = config.loss_fn.reference_policy_kl_penalty;
  options.loss.token_level_loss = config.loss_fn.token_level_loss;
  options.loss.seq_logprob_error_threshold = config.loss_fn.seq_logprob_error_threshold;
  options.advantages.normalize_rewards = config.grpo.normalize_rewards;
  options.advantages.use_leave_one_out_baseline = config.grpo.use_leave_one_out_baseline;
  options.advantages.advantage_clip_low = config.grpo.advantage_clip_low;
  options.advantages.advantage_clip_high = config.grpo.advantage_clip_high;
  options.optimizer = optimizer_of(config.policy);
  options.save_optimizer = config.checkpointing.save_optimizer;
  options.examples = warmup_examples(work);
  options.seed = config.grpo.seed;
  options.warmup_batch = config.policy.warmup.batch_size;
  options.warmup_optimizer = options.optimizer;
  options.warmup_optimizer.lr = config.policy.warmup.lr.value_or(options.optimizer.lr);
  options.sampling = work.sampling;
  options.stop_tokens = work.stop_tokens;
  options.max_new_tokens = static_cast<std::uint32_t>(config.policy.generation.max_new_tokens);
  return options;
}

/// The shape of the model: the configuration's, or that of the model that is loaded.
result<kernels::model_config> model_of(dataplane::disk& storage, const run_config& config,
                                       std::uint32_t vocabulary) {
  kernels::model_config model;
  if (!config.policy.model) {
    const architecture_config& shape = config.policy.architecture;
    model.vocabulary = vocabulary;
    model.hidden = static_cast<std::uint32_t>(shape.hidden);
    model.layers = static_cast<std::uint32_t>(shape.layers);
    model.heads = static_cast<std::uint32_t>(shape.heads);
    model.kv_heads = static_cast<std::uint32_t>(shape.kv_heads);
    model.head_size =
        static_cast<std::uint32_t>(shape.hidden / std::max<std::uint64_t>(shape.heads, 1));
    model.ffn = static_cast<std::uint32_t>(shape.ffn);
    model.context = static_cast<std::uint32_t>(shape.context);
    return model;
  }
  const std::string path = dataplane::join(*config.policy.model, "config.json");
  const auto bytes = read_input(storage, "policy.model", path, model_file_bytes_max);
  if (!bytes) return failure(bytes.error());
  auto read = kernels::parse_config(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  if (!read) return failure(read.error().code, path + ": " + read.error().text);
  if (read->vocabulary < vocabulary)
    return failure(errc::invalid_argument,
                   path + ": a vocabulary of " + std::to_string(read->vocabulary) +
                       " is less than the " + std::to_string(vocabulary) +
                       " tokens of policy.tokenizer: use the model's own tokenizer");
  return *read;
}

result<kernels::float_buffer> read_model(dataplane::disk& storage, const std::string& directory,
                                         const kernels::model_config& model) {
  const auto names = storage.list(directory);
  if (!names) return failure(names.error().code, "policy.model: " + names.error().text);
  std::vector<std::vector<std::byte>> shards;
  for (const dataplane::directory_entry& entry : *names) {
    if (!entry.name.ends_with(".safetensors")) continue;
    auto bytes = read_input(storage, "policy.model", dataplane::join(directory, entry.name),
                            model_file_bytes_max);
    if (!bytes) return failure(std::move(bytes.error()));
    shards.push_back(std::move(*bytes));
  }
  if (shards.empty())
    return failure(errc::not_found, "policy.model: " + directory + " has no .safetensors file");
  const std::vector<std::span<const std::byte>> views(shards.begin(), shards.end());
  auto weights = kernels::read_weights(model, views);
  if (!weights)
    return failure(weights.error().code,
                   "policy.model: " + directory + ": " + weights.error().text);
  return weights;
}

result<scorer> exact_answer_of(const run_config& config) {
  const exact_answer_config& from = config.env.exact_answer;
  exact_answer_options options;
  options.exact = from.exact;
  options.number_credit = from.number_credit;
  options.concise_credit = from.concise_credit;
  options.closeness_credit = from.closeness_credit;
  options.length_credit = from.length_credit;
  options.digit_credit = from.digit_credit;
  if (!config.policy.generation.stop.empty()) options.stop = config.policy.generation.stop;
  if (auto fine = validate(options); !fine)
    return failure(fine.error().code, "env.exact_answer: " + fine.error().text);
  scorer how;
  how.score = [options](const scoring_request& request) -> result<scoring_reply> {
    const score scored = score_exact_answer(request.completion, request.answer, options);
    return scoring_reply{static_cast<float>(scored.reward), scored.done, scored.observation};
  };
  return how;
}

/// A judge that cannot be started is found before anything on disk changes.
result<void> check_environment(const run_config& config) {
  if (config.env.kind != env_kind::command) return {};
  if (auto found = find_program(config.env.command.front()); !found)
    return failure(found.error().code, "env.command: " + found.error().text);
  return {};
}

} // namespace

std::chrono::nanoseconds seconds(double count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count * 1e9));
}

std::vector<std::uint32_t> prompt_tokens(const kernels::tokenizer& text, const std::string& pattern,
                                         std::string_view input) {
  constexpr std::string_view slot = "{input}";
  std::string prompt = pattern;
  if (const std::size_t place = prompt.find(slot); place != std::string::npos)
    prompt.replace(place, slot.size(), input);
  std::vector<std::uint32_t> tokens;
  if (const auto begin = text.begin()) tokens.push_back(*begin);
  const auto encoded = text.encode(prompt);
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return tokens;
}

result<job> sketch_job(dataplane::disk& storage, const run_config& config) {
  job work;
  work.config = config;
  work.text = std::make_shared<const kernels::byte_tokenizer>();
  auto model = model_of(storage, config, work.text->vocabulary());
  if (!model) return failure(std::move(model.error()));
  work.model = *model;
  if (auto fine = kernels::validate(work.model); !fine)
    return failure(fine.error().code, "policy.architecture: " + fine.error().text);
  if (auto read = read_datasets(storage, work); !read) return failure(std::move(read.error()));
  for (const auto& records : {work.records, work.held_out})
    if (auto fine = records ? check_lengths(work, *records) : result<void>(); !fine)
      return failure(std::move(fine.error()));
  if (auto fine = check_environment(config); !fine) return failure(std::move(fine.error()));
  auto policy = sampler_of(config);
  if (!policy) return failure(std::move(policy.error()));
  work.policy = std::move(*policy);
  auto stops = stop_tokens_of(config, *work.text);
  if (!stops) return failure(std::move(stops.error()));
  work.stop_tokens = std::move(*stops);
  work.sampling.temperature = static_cast<float>(config.policy.generation.temperature);
  work.sampling.top_k = static_cast<std::uint32_t>(config.policy.generation.top_k.value_or(0));
  work.sampling.top_p = static_cast<float>(config.policy.generation.top_p);
  work.sampling.min_p = static_cast<float>(config.policy.generation.min_p);
  auto device = kernels::choose_device(device_name(config.policy.generation.device));
  if (!device) return failure(std::move(device.error()));
  work.device = std::move(*device);
  auto learner = llama_learner::create(learner_options(work), work.text);
  if (!learner) return failure(std::move(learner.error()));
  work.learner = std::move(*learner);
  work.first_policy = work.learner->fresh();
  return work;
}

result<job> prepare_job(dataplane::disk& storage, const run_config& config) {
  auto work = sketch_job(storage, config);
  if (!work) return work;
  if (config.policy.model) {
    auto weights = read_model(storage, *config.policy.model, work->model);
    if (!weights) return failure(std::move(weights.error()));
    work->first_policy = work->learner->begin(std::move(*weights));
  }
  if (!config.data_plane.spill_dir) return work;
  auto area = dataplane::spill_area::open(storage, *config.data_plane.spill_dir,
                                          config.data_plane.spill_bytes);
  if (!area) return failure(area.error().code, "data_plane.spill_dir: " + area.error().text);
  // Nothing is written there before memory is short: to find out then would be late.
  if (auto fine = dataplane::require_writable(storage, *config.data_plane.spill_dir); !fine)
    return failure(fine.error().code, "data_plane.spill_dir: " + fine.error().text +
                                          "; make room or give the rights, or name another place");
  work->spill = std::move(*area);
  return work;
}

failure_limits failure_limits_of(const run_config& config) {
  const rollout_failure_config& from = config.async_rl.rollout_failure;
  failure_limits limits;
  limits.max_infra_attempts_per_prompt =
      static_cast<std::uint32_t>(from.max_infra_attempts_per_prompt);
  limits.max_data_attempts_per_prompt =
      static_cast<std::uint32_t>(from.max_data_attempts_per_prompt);
  limits.backoff_base_ns = seconds(from.backoff_base_s).count();
  limits.backoff_max_ns = seconds(from.max_backoff_s).count();
  limits.max_skipped_prompts = from.max_skipped_prompts;
  limits.max_consecutive_dropped_prompts = from.max_consecutive_dropped_prompts;
  limits.min_step_batch_fraction = from.min_step_batch_fraction;
  limits.replace_dropped_prompts = from.on_dropped_prompt == dropped_prompt_action::replace;
  limits.max_replacement_attempts = static_cast<std::uint32_t>(from.max_replacement_attempts);
  limits.replacement_reserve_prompts = from.replacement_reserve_prompts;
  return limits;
}

health_options health_options_of(const run_config& config) {
  const generator_health_config& from = config.async_rl.generator_health;
  health_options options;
  options.probe_interval_ns = seconds(from.probe_interval_s).count();
  options.probe_timeout_ns = seconds(from.probe_timeout_s).count();
  options.unhealthy_threshold = static_cast<std::uint32_t>(from.unhealthy_threshold);
  options.healthy_threshold = static_cast<std::uint32_t>(from.healthy_threshold);
  options.min_healthy = from.min_healthy;
  options.patience_ns = seconds(config.async_rl.stall_watchdog.stall_timeout_s).count();
  return options;
}

rollout_options rollout_options_of(const run_config& config) {
  const rollout_failure_config& from = config.async_rl.rollout_failure;
  rollout_options options;
  options.limits.groups_per_step = config.grpo.num_prompts_per_step;
  options.limits.inflight_max = config.async_rl.max_inflight_prompts;
  options.limits.stamps = stamps_groups(config.async_rl.sampler.name);
  options.failures = failure_limits_of(config);
  // Only what is stamped has a place that a spare could take.
  if (options.limits.stamps && options.failures.replace_dropped_prompts)
    options.limits.reserve_low = options.failures.replacement_reserve_prompts;
  options.health = health_options_of(config);
  options.siblings = static_cast<std::uint32_t>(config.grpo.num_generations_per_prompt);
  options.max_new_tokens = static_cast<std::uint32_t>(config.policy.generation.max_new_tokens);
  options.generation_timeout = seconds(from.generation_timeout_s);
  options.env_timeout = seconds(from.env_timeout_s);
  options.rollout_timeout = seconds(from.rollout_timeout_s);
  // A standing wait is asked again before the watchdog takes it for a stall.
  options.gate_timeout =
      std::min(options.gate_timeout, seconds(config.async_rl.stall_watchdog.interval_s));
  if (config.async_rl.weight_update == weight_update_kind::pinned)
    options.pins = weight_pins{.window = window_versions(config.async_rl.sampler), .oldest = 0};
  return options;
}

validation_options validation_options_of(const run_config& config) {
  const rollout_failure_config& limits = config.async_rl.rollout_failure;
  validation_options options;
  options.max_new_tokens = static_cast<std::uint32_t>(config.policy.generation.max_new_tokens);
  options.inflight_max = config.async_rl.max_inflight_prompts;
  if (config.env.kind == env_kind::exact_answer)
    options.full_reward = static_cast<float>(config.env.exact_answer.exact);
  options.generation_timeout = seconds(limits.generation_timeout_s);
  options.env_timeout = seconds(limits.env_timeout_s);
  return options;
}

result<scoring> scoring_of(const run_config& config) {
  if (config.env.kind == env_kind::command)
    return scoring(command_options{config.env.command,
                                   seconds(config.async_rl.rollout_failure.env_timeout_s)});
  auto how = exact_answer_of(config);
  if (!how) return failure(std::move(how.error()));
  return scoring(std::move(*how));
}

text_codec text_codec_of(const job& work) {
  text_codec codec;
  const auto text = work.text;
  const std::string pattern = work.config.data.prompt_template;
  codec.encode = [text, pattern](std::string_view input) {
    const auto tokens = prompt_tokens(*text, pattern, input);
    return std::vector<std::int32_t>(tokens.begin(), tokens.end());
  };
  codec.decode = [text](std::span<const std::int32_t> tokens) {
    const std::vector<std::uint32_t> ids(tokens.begin(), tokens.end());
    return text->decode(ids).value_or(std::string());
  };
  return codec;
}

} // namespace weir
