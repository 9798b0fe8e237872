#include "kernels/scorer.hpp"

#include "kernels/detail/text.hpp"

#include <string>

namespace weir::kernels {

using detail::text;

namespace {

std::string name_of(std::size_t group_index, std::size_t sequence_index) {
  return text("group ", group_index, ", sequence ", sequence_index, ": ");
}

tl::unexpected<error> refuse(std::string text) {
  return failure(errc::invalid_argument, std::move(text));
}

result<void> validate_sequence(const model_config& config, const sequence& item,
                               const std::string& name) {
  if (item.prompt_length == 0 || item.prompt_length > item.tokens.size())
    return refuse(
        text(name, "prompt_length is ", item.prompt_length, " of ", item.tokens.size(), " tokens"));
  if (item.tokens.size() > config.context)
    return refuse(text(name, item.tokens.size(), " tokens, the context holds ", config.context));
  for (const std::uint32_t token : item.tokens)
    if (token >= config.vocabulary)
      return refuse(
          text(name, "token ", token, " is not in the vocabulary of ", config.vocabulary));
  const auto fits = [&](std::size_t size) { return size == 0 || size == item.completion_length(); };
  if (!fits(item.generation_logprobs.size()) || !fits(item.reference_logprobs.size()) ||
      !fits(item.loss_mask.size()))
    return refuse(text(name, "log-probabilities and mask must have one entry for each of the ",
                       item.completion_length(), " completion tokens"));
  return {};
}

} // namespace

result<void> validate(const model_config& config, std::span<const group> groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t s = 0; s < groups[g].sequences.size(); ++s)
      if (auto valid = validate_sequence(config, groups[g].sequences[s], name_of(g, s)); !valid)
        return valid;
  return {};
}

std::size_t score_group(const transformer& model, const group& one, row_plan& plan,
                        activations& work, float* logprobs) {
  plan.build(one.sequences);
  if (plan.rows() == 0) return 0;
  work.prepare(plan);
  model.forward(plan, work);
  const std::size_t vocabulary = model.config().vocabulary;
  for (const prediction& item : plan.predictions())
    *logprobs++ =
        work.logits[item.head_row * vocabulary + item.token] - work.log_sums[item.head_row];
  return plan.predictions().size();
}

scorer::scorer(const model_config& config, const compute_options& options)
    : options_(options), pool_({.threads = options.threads, .niceness = options.niceness}),
      model_(config, options.isa), plans_(pool_.threads()) {
  for (std::uint32_t thread = 0; thread < pool_.threads(); ++thread)
    work_.emplace_back(config);
}

result<void> scorer::score(std::span<const float> weights, std::span<const group> groups,
                           std::span<float> logprobs) {
  if (auto valid = validate(model_.config(), groups); !valid) return valid;
  first_token_.clear();
  std::size_t total = 0;
  for (const group& one : groups) {
    first_token_.push_back(total);
    for (const sequence& item : one.sequences)
      total += item.completion_length();
  }
  ensure(logprobs.size() == total, "one log-probability per completion token");
  model_.load(weights, pool_);
  std::atomic<bool> stopped{false};
  auto score_one = [&](std::size_t index, std::size_t thread) {
    if (options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed)) {
      stopped = true;
      return;
    }
    score_group(model_, groups[index], plans_[thread], work_[thread],
                logprobs.data() + first_token_[index]);
  };
  pool_.run(groups.size(), score_one);
  if (stopped) return failure(errc::cancelled, "scoring was cancelled between groups");
  return {};
}

} // namespace weir::kernels
