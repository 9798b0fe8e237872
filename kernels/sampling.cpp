#include "kernels/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace weir::kernels {

namespace {

/// Beyond this a scaled logit has weight zero anyway; keeps infinities out of the exponential.
constexpr float lowest_exponent = -200.0F;

/// The best logit, or nothing when the row is no distribution.
result<float> best_of(std::span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const float logit = logits[token];
    if (!(logit < std::numeric_limits<float>::infinity()))
      return failure(errc::corrupt, "the logit of token " + std::to_string(token) + " is " +
                                        (std::isnan(logit) ? "not a number" : "infinite") +
                                        ": the weights have diverged");
    best = std::max(best, logit);
  }
  if (best == -std::numeric_limits<float>::infinity())
    return failure(errc::corrupt, "every logit is -infinity: there is no token to draw");
  return best;
}

} // namespace

result<void> validate(const sampling_options& options) {
  const float temperature = options.temperature;
  if (temperature != 0.0F && !(temperature >= 1e-4F && temperature <= 1e4F))
    return failure(errc::invalid_argument, "temperature is " + std::to_string(temperature) +
                                               ": it must be 0 (greedy) or 0.0001 to 10000");
  if (!(options.top_p > 0.0F && options.top_p <= 1.0F))
    return failure(errc::invalid_argument, "top_p is " + std::to_string(options.top_p) +
                                               ": it must be above 0 and at most 1");
  if (!(options.min_p >= 0.0F && options.min_p <= 1.0F))
    return failure(errc::invalid_argument,
                   "min_p is " + std::to_string(options.min_p) + ": it must be 0 to 1");
  return {};
}

row_sampler::row_sampler(const operations& ops, std::size_t vocabulary)
    : ops_(ops), weights_(vocabulary), order_(vocabulary) {
  ensure(vocabulary > 0, "a sampler has a vocabulary");
}

result<sampled_token> row_sampler::draw(std::span<const float> logits,
                                        const sampling_options& options, double uniform) {
  ensure(logits.size() == weights_.size(), "a row of logits has one element per token");
  ensure(uniform >= 0.0, "a uniform number is not negative");
  ensure(uniform < 1.0, "a uniform number is below one");
  const auto best = best_of(logits);
  if (!best) return failure(best.error());
  const float normalizer = ops_.log_sum_exp(logits.data(), logits.size());
  if (options.temperature == 0.0F) {
    const auto first = std::find(logits.begin(), logits.end(), *best);
    return sampled_token{static_cast<std::uint32_t>(first - logits.begin()), *best - normalizer,
                         0.0F};
  }
  for (std::size_t token = 0; token < logits.size(); ++token)
    weights_[token] = std::max((logits[token] - *best) / options.temperature, lowest_exponent);
  ops_.exponential(weights_.data(), weights_.data(), weights_.size());

  const std::size_t kept = filter(options);
  double total = 0.0;
  for (std::size_t index = 0; index < kept; ++index)
    total += static_cast<double>(weights_[order_[index]]);
  // The last token with a weight stands in where rounding leaves the target just above the sum.
  double remaining = uniform * total;
  std::uint32_t token = order_[0];
  for (std::size_t index = 0; index < kept; ++index) {
    const double weight = static_cast<double>(weights_[order_[index]]);
    if (weight == 0.0) continue;
    token = order_[index];
    remaining -= weight;
    if (remaining < 0.0) break;
  }
  const float logprob = logits[token] - normalizer;
  if (kept == logits.size() && options.temperature == 1.0F)
    return sampled_token{token, logprob, logprob};
  const double exponent = (static_cast<double>(logits[token]) - static_cast<double>(*best)) /
                          static_cast<double>(options.temperature);
  return sampled_token{token, logprob, static_cast<float>(exponent - std::log(total))};
}

/// Fills the front of `order_` with the tokens that the filters keep; returns how many.
std::size_t row_sampler::filter(const sampling_options& options) {
  const auto first = order_.begin();
  if (options.min_p > 0.0F) {
    // The best token has weight 1, and stays whatever min_p is.
    auto last = first;
    for (std::uint32_t token = 0; token < weights_.size(); ++token)
      if (weights_[token] >= options.min_p || weights_[token] == 1.0F) *last++ = token;
    return truncate(static_cast<std::size_t>(last - first), options);
  }
  std::iota(first, order_.end(), 0U);
  return truncate(order_.size(), options);
}

/// Applies top-k and top-p to the first `count` tokens of `order_`.
std::size_t row_sampler::truncate(std::size_t count, const sampling_options& options) {
  const bool limited = options.top_k > 0 && options.top_k < count;
  if (!limited && options.top_p >= 1.0F) return count;
  const auto likelier = [this](std::uint32_t left, std::uint32_t right) {
    return weights_[left] != weights_[right] ? weights_[left] > weights_[right] : left < right;
  };
  const auto first = order_.begin();
  const auto whole = first + static_cast<std::ptrdiff_t>(count);
  const std::size_t kept = limited ? options.top_k : count;
  std::partial_sort(first, first + static_cast<std::ptrdiff_t>(kept), whole, likelier);
  if (options.top_p >= 1.0F) return kept;
  double total = 0.0;
  for (std::size_t index = 0; index < kept; ++index)
    total += static_cast<double>(weights_[order_[index]]);
  const double target = total * static_cast<double>(options.top_p);
  double sum = 0.0;
  for (std::size_t index = 0; index < kept; ++index) {
    sum += static_cast<double>(weights_[order_[index]]);
    if (sum >= target) return index + 1;
  }
  return kept;
}

} // namespace weir::kernels
