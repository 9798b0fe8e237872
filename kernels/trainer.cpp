#include "kernels/trainer.hpp"

#include "kernels/chain_schedule.hpp"
#include "kernels/detail/text.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace weir::kernels {

using detail::text;

namespace {

/// Sequences of a supervised step that are computed together: enough rows for full tiles, small
/// enough for the second-level cache. Fixed, since it is part of the order of summation.
constexpr std::size_t supervised_chunk = 8;

bool is_valid(const sequence& item, std::size_t token) {
  return item.loss_mask.empty() || item.loss_mask[token] != 0;
}

std::size_t valid_tokens(const sequence& item) {
  if (item.loss_mask.empty()) return item.completion_length();
  return static_cast<std::size_t>(std::count_if(item.loss_mask.begin(), item.loss_mask.end(),
                                                [](std::uint8_t mask) { return mask != 0; }));
}

tl::unexpected<error> refuse(std::string text) {
  return failure(errc::invalid_argument, std::move(text));
}

result<void> validate_policy_data(std::span<const group> groups, const loss_options& loss) {
  const bool needs_generation =
      loss.use_importance_sampling_correction || loss.seq_logprob_error_threshold.has_value();
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const sequence& item : groups[g].sequences) {
      if (needs_generation && item.generation_logprobs.size() != item.completion_length())
        return refuse(text("group ", g, ": generation log-probabilities are missing, which ",
                           "loss_fn.use_importance_sampling_correction needs"));
      if (loss.reference_policy_kl_penalty > 0.0 &&
          item.reference_logprobs.size() != item.completion_length())
        return refuse(text("group ", g, ": reference log-probabilities are missing, which ",
                           "loss_fn.reference_policy_kl_penalty needs"));
      if (!std::isfinite(item.advantage))
        return refuse(text("group ", g, ": an advantage is not a finite number"));
    }
  return {};
}

} // namespace

trainer::trainer(const model_config& config, const compute_options& options)
    : options_(options), pool_({.threads = options.threads, .niceness = options.niceness}),
      model_(config, options.isa) {
  for (std::uint32_t thread = 0; thread < pool_.threads(); ++thread)
    memory_.push_back({{}, activations(config), {}, {}, {}});
  for (float_buffer& buffer : gradient_buffers_)
    buffer = float_buffer(model_.layout().total);
}

result<step_report> trainer::policy_step(const training_state& before,
                                         std::span<const group> groups, const loss_options& loss,
                                         const optimizer_options& optimizer,
                                         training_state& after) {
  if (auto valid = validate(optimizer); !valid) return failure(valid.error());
  auto report = policy_gradients(before.weights.values(), groups, loss);
  if (!report) return report;
  return update(before, optimizer, *report, after);
}

result<void> trainer::begin_step(std::span<const float> weights, const loss_options& loss) {
  if (auto valid = validate(loss); !valid) return valid;
  open(weights, loss);
  return {};
}

result<std::uint64_t> trainer::add_groups(std::span<const group> groups) {
  ensure(step_.loss.has_value(), "groups are added to a step that was begun");
  if (auto valid = validate(model_.config(), groups); !valid) return failure(valid.error());
  if (auto valid = validate_policy_data(groups, *step_.loss); !valid) return failure(valid.error());
  copy_groups(groups);
  if (step_.loss->seq_logprob_error_threshold)
    if (auto masked = mask_sequences(*step_.loss->seq_logprob_error_threshold); !masked)
      return failure(masked.error());
  return accumulate();
}

result<step_report> trainer::finish_step(const training_state& before,
                                         const optimizer_options& optimizer,
                                         training_state& after) {
  if (auto valid = validate(optimizer); !valid) return failure(valid.error());
  auto report = summarize();
  if (!report) return report;
  return update(before, optimizer, *report, after);
}

result<step_report> trainer::supervised_step(const training_state& before,
                                             std::span<const sequence> sequences,
                                             const optimizer_options& optimizer,
                                             training_state& after) {
  if (auto valid = validate(optimizer); !valid) return failure(valid.error());
  auto report = supervised_gradients(before.weights.values(), sequences);
  if (!report) return report;
  return update(before, optimizer, *report, after);
}

result<step_report> trainer::policy_gradients(std::span<const float> weights,
                                              std::span<const group> groups,
                                              const loss_options& loss) {
  if (auto begun = begin_step(weights, loss); !begun) return failure(begun.error());
  if (auto added = add_groups(groups); !added) return failure(added.error());
  return summarize();
}

result<step_report> trainer::supervised_gradients(std::span<const float> weights,
                                                  std::span<const sequence> sequences) {
  groups_.clear();
  for (std::size_t first = 0; first < sequences.size(); first += supervised_chunk) {
    const std::size_t count = std::min(supervised_chunk, sequences.size() - first);
    groups_.push_back({sequences.subspan(first, count)});
  }
  if (auto valid = validate(model_.config(), groups_); !valid) return failure(valid.error());
  open(weights, std::nullopt);
  if (auto added = accumulate(); !added) return failure(added.error());
  return summarize();
}

/// Packs the weights and empties the gradient buffers.
void trainer::open(std::span<const float> weights, std::optional<loss_options> loss) {
  step_ = {};
  step_.loss = std::move(loss);
  model_.load(weights, pool_);
  auto empty = [&](std::size_t buffer, std::size_t) {
    std::ranges::fill(gradient_buffers_[buffer].values(), 0.0F);
  };
  pool_.run(gradient_buffer_count, empty);
}

void trainer::copy_groups(std::span<const group> groups) {
  sequences_.clear();
  for (const group& one : groups)
    sequences_.insert(sequences_.end(), one.sequences.begin(), one.sequences.end());
  groups_.clear();
  std::size_t first = 0;
  for (const group& one : groups) {
    groups_.push_back({std::span(sequences_).subspan(first, one.sequences.size())});
    first += one.sequences.size();
  }
}

/// Scores all sequences under the weights before the step and takes those out of the loss whose
/// generation log-probabilities are too far off. Costs a second forward pass.
result<void> trainer::mask_sequences(double threshold) {
  first_token_.clear();
  std::size_t total = 0;
  std::size_t longest = 0;
  for (const group& one : groups_) {
    first_token_.push_back(total);
    for (const sequence& item : one.sequences) {
      total += item.completion_length();
      longest = std::max(longest, item.completion_length());
    }
  }
  prev_logprobs_.resize(total);
  no_tokens_.assign(longest, 0);
  auto score_one = [&](std::size_t index, std::size_t thread) {
    if (!is_cancelled())
      score_group(model_, groups_[index], memory_[thread].plan, memory_[thread].work,
                  prev_logprobs_.data() + first_token_[index]);
  };
  pool_.run(groups_.size(), score_one);
  if (is_cancelled()) return failure(errc::cancelled, "the step was cancelled between groups");
  const std::vector<std::uint8_t> all_tokens(longest, 1);
  std::size_t first = 0;
  for (sequence& item : sequences_) {
    const std::size_t length = item.completion_length();
    const auto valid =
        item.loss_mask.empty() ? std::span(all_tokens).first(length) : item.loss_mask;
    const double off = sequence_logprob_error(std::span(prev_logprobs_).subspan(first, length),
                                              item.generation_logprobs, valid);
    first += length;
    // Written so that an error that is not a number is masked too.
    if (off <= threshold) continue;
    item.loss_mask = std::span(no_tokens_).first(length);
    ++step_.report.masked_sequences;
  }
  return {};
}

std::uint64_t trainer::count_tokens() {
  std::uint64_t tokens = 0;
  for (const group& one : groups_)
    for (const sequence& item : one.sequences) {
      const std::size_t valid = valid_tokens(item);
      tokens += valid;
      step_.valid_sequences += valid > 0 ? 1 : 0;
    }
  step_.report.valid_tokens += tokens;
  return tokens;
}

/// Adds the gradients of the groups at hand to the buffers, as the next ones of the step.
result<std::uint64_t> trainer::accumulate() {
  const std::size_t first = std::exchange(step_.groups, step_.groups + groups_.size());
  const std::uint64_t tokens = count_tokens();
  if (tokens == 0) return tokens;
  sums_.assign(groups_.size(), {});
  chain_schedule schedule(gradient_buffer_count, first, step_.groups);
  auto run_links = [&](std::size_t, std::size_t thread) {
    std::optional<chain_schedule::link> link;
    while ((link = schedule.take(link)))
      run_group(link->index - first, thread, gradient_buffers_[link->chain].values());
  };
  pool_.run(gradient_buffer_count, run_links);
  if (is_cancelled()) return failure(errc::cancelled, "the step was cancelled between groups");
  for (const group_sums& sums : sums_)
    step_.sums.add(sums);
  return tokens;
}

void trainer::run_group(std::size_t index, std::size_t thread, std::span<float> gradients) {
  if (is_cancelled()) return;
  thread_memory& memory = memory_[thread];
  std::size_t tokens = 0;
  for (const sequence& item : groups_[index].sequences)
    tokens += item.completion_length();
  memory.logprobs.resize(tokens);
  score_group(model_, groups_[index], memory.plan, memory.work, memory.logprobs.data());
  if (memory.plan.rows() == 0) return;
  sums_[index].rows = memory.plan.rows();
  if (seed_gradients(index, thread)) model_.backward(memory.plan, memory.work, gradients);
}

namespace {

/// One token of the step as the loss sees it.
token_sample sample_of(const sequence& item, std::size_t token, float logprob) {
  token_sample sample;
  // One update per step: the weights being trained are those before the step.
  sample.logp_new = double{logprob};
  sample.logp_prev = double{logprob};
  sample.logp_generation =
      item.generation_logprobs.empty() ? sample.logp_prev : double{item.generation_logprobs[token]};
  sample.logp_reference =
      item.reference_logprobs.empty() ? sample.logp_new : double{item.reference_logprobs[token]};
  sample.advantage = double{item.advantage};
  return sample;
}

} // namespace

/// Turns the logits of a group into the gradients of the loss. False when all are zero, as for a
/// group whose generations earned the same: its backward pass would add nothing.
bool trainer::seed_gradients(std::size_t index, std::size_t thread) {
  thread_memory& memory = memory_[thread];
  group_sums& sums = sums_[index];
  const std::span<const prediction> predictions = memory.plan.predictions();
  memory.coefficients.assign(predictions.size(), 0.0F);
  memory.factors.assign(memory.plan.head_rows().size(), 0.0F);
  bool any = false;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const prediction& at = predictions[i];
    const sequence& item = groups_[index].sequences[at.sequence];
    if (!is_valid(item, at.index)) continue;
    const token_sample sample = sample_of(item, at.index, memory.logprobs[i]);
    token_loss value{.loss = -sample.logp_new, .gradient = -1.0};
    // Of what the end of the step divides by: all valid tokens, or all valid sequences.
    double share = 1.0;
    if (step_.loss) {
      value = evaluate_token(*step_.loss, sample);
      if (!step_.loss->token_level_loss) share = 1.0 / static_cast<double>(valid_tokens(item));
    }
    const double distance = sample.logp_prev - sample.logp_generation;
    sums.loss += share * value.loss;
    sums.ratio += value.ratio;
    sums.clipped += value.clipped ? 1.0 : 0.0;
    sums.importance += value.importance;
    sums.max_importance = std::max(sums.max_importance, value.importance);
    sums.approx_kl += std::exp(distance) - distance - 1.0;
    sums.reference_kl += value.kl;
    sums.logprob += sample.logp_prev;
    sums.logprob_error += std::exp(std::abs(distance));
    memory.coefficients[i] = static_cast<float>(share * value.gradient);
    memory.factors[at.head_row] += memory.coefficients[i];
    any = any || memory.coefficients[i] != 0.0F;
  }
  if (!any) return false;
  // d logprob / d logits = one-hot - softmax, summed over the tokens that a row predicts.
  const std::size_t vocabulary = model_.config().vocabulary;
  for (std::size_t row = 0; row < memory.factors.size(); ++row)
    model_.ops().scaled_softmax(memory.work.logits + row * vocabulary, memory.work.log_sums[row],
                                -memory.factors[row], vocabulary);
  for (std::size_t i = 0; i < predictions.size(); ++i)
    memory.work.logits[predictions[i].head_row * vocabulary + predictions[i].token] +=
        memory.coefficients[i];
  return true;
}

void trainer::group_sums::add(const group_sums& other) {
  loss += other.loss;
  ratio += other.ratio;
  clipped += other.clipped;
  importance += other.importance;
  max_importance = std::max(max_importance, other.max_importance);
  approx_kl += other.approx_kl;
  reference_kl += other.reference_kl;
  logprob += other.logprob;
  logprob_error += other.logprob_error;
  rows += other.rows;
}

/// The step's gradient in buffer 0, and what is told of it.
result<step_report> trainer::summarize() {
  step_report report = step_.report;
  if (report.valid_tokens == 0)
    return refuse("the step has no token to train on: every completion is empty or masked");
  const bool by_token = !step_.loss || step_.loss->token_level_loss;
  const auto tokens = static_cast<double>(report.valid_tokens);
  const double parts = by_token ? tokens : static_cast<double>(step_.valid_sequences);
  const group_sums& total = step_.sums;
  add_gradient_buffers(static_cast<float>(1.0 / parts));
  report.loss = total.loss / parts;
  report.mean_ratio = total.ratio / tokens;
  report.clip_fraction = total.clipped / tokens;
  report.mean_importance = total.importance / tokens;
  report.max_importance = total.max_importance;
  report.approx_kl = total.approx_kl / tokens;
  report.reference_kl = total.reference_kl / tokens;
  report.mean_logprob = total.logprob / tokens;
  report.logprob_error = total.logprob_error / tokens;
  report.computed_rows = total.rows;
  report.grad_norm = global_norm(model_.ops(), gradients());
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm))
    return failure(errc::corrupt, text("loss ", report.loss, ", gradient norm ", report.grad_norm,
                                       ": not finite; lower policy.optimizer.lr or restore an ",
                                       "earlier checkpoint"));
  return report;
}

bool trainer::is_cancelled() const noexcept {
  return options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed);
}

/// Buffer 0 += 1, 2 and 3, in this order, element by element; then the sum times `scale`.
void trainer::add_gradient_buffers(float scale) {
  constexpr std::size_t block = 65536;
  const std::size_t total = gradient_buffers_[0].size();
  auto add = [&](std::size_t index, std::size_t) {
    const std::size_t first = index * block;
    const std::size_t count = std::min(block, total - first);
    for (std::size_t buffer = 1; buffer < gradient_buffer_count; ++buffer)
      model_.ops().add(gradient_buffers_[0].data() + first,
                       gradient_buffers_[buffer].data() + first, count);
    for (float& gradient : gradient_buffers_[0].values().subspan(first, count))
      gradient *= scale;
  };
  pool_.run((total + block - 1) / block, add);
}

result<step_report> trainer::update(const training_state& before,
                                    const optimizer_options& optimizer, step_report report,
                                    training_state& after) {
  double scale = 1.0;
  if (optimizer.max_grad_norm > 0.0 && report.grad_norm > optimizer.max_grad_norm)
    scale = optimizer.max_grad_norm / (report.grad_norm + 1e-6);
  adamw_step(model_.ops(), pool_, optimizer, before, gradients(), scale, after);
  return report;
}

} // namespace weir::kernels
