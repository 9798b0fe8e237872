/// From a row of logits to a token.
///
/// A pure function of the logits, the options and one uniform number: no state, no order among
/// sequences. Filters apply in the order temperature, min-p, top-k, top-p, each over what the one
/// before it left; ties go to the lower token id, so that the kept set is unique.
#pragma once

#include "kernels/ops.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace weir::kernels {

struct sampling_options {
  float temperature = 1.0F; ///< 0 = greedy: the most likely token; the filters have no effect.
  std::uint32_t top_k = 0;  ///< Keep the k most likely tokens; 0 = all.
  float top_p = 1.0F;       ///< Keep the most likely tokens until their sum reaches p, in (0, 1].
  float min_p = 0.0F;       ///< Keep tokens at least min_p times as likely as the best, in [0, 1].

  friend bool operator==(const sampling_options&, const sampling_options&) = default;
};

/// Refuses options outside their ranges, naming the key.
[[nodiscard]] result<void> validate(const sampling_options& options);

/// A token and the natural logarithms of its probability: under the raw policy (temperature 1, no
/// filter; what training uses), and under the distribution that it was drawn from.
struct sampled_token {
  std::uint32_t token = 0;
  float logprob = 0.0F;
  float sampling_logprob = 0.0F;

  friend bool operator==(const sampled_token&, const sampled_token&) = default;
};

/// Draws tokens; owns the scratch of one thread, allocated at construction.
class row_sampler {
public:
  row_sampler(const operations& ops, std::size_t vocabulary);

  /// Draws by `uniform` in [0, 1). @pre the options are valid, `logits` has vocabulary elements.
  /// Fails with `corrupt` when a logit is NaN or +infinity, or when all are -infinity.
  [[nodiscard]] result<sampled_token> draw(std::span<const float> logits,
                                           const sampling_options& options, double uniform);

private:
  [[nodiscard]] std::size_t filter(const sampling_options& options);
  [[nodiscard]] std::size_t truncate(std::size_t count, const sampling_options& options);

  const operations& ops_;
  std::vector<float> weights_;       ///< exp((logit - best) / temperature) per token.
  std::vector<std::uint32_t> order_; ///< Kept tokens.
};

} // namespace weir::kernels
