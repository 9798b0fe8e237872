/// The tokens of the simulated policy: a pure function of what generation is keyed by.
///
/// A token's low half tells whose it is: (seed, epoch, position, content attempt, sibling, index),
/// so that whoever trains on it can tell rows that were mixed up. Its high half says which weights
/// made it, so that other weights make other tokens, and the final policy differs.
#pragma once

#include "actors/conservation.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir::sim {

/// What the random numbers of one token are keyed by.
struct token_key {
  std::uint64_t run_seed = 0;
  sample_id sample = {};
  std::uint32_t content_attempt = 0;
  std::uint32_t sibling = 0;
  std::uint64_t index = 0;
};

/// A running hash: order counts.
[[nodiscard]] constexpr std::uint64_t chained(std::uint64_t hash, std::uint64_t word) {
  return detail::mixed(hash ^ (word * 0x9e3779b97f4a7c15ULL + 0xd1342543de82ef95ULL));
}

[[nodiscard]] constexpr std::uint32_t owner_half(const token_key& key) {
  std::uint64_t hash = chained(key.run_seed, key.sample.epoch);
  hash = chained(hash, key.sample.position);
  hash = chained(hash, key.content_attempt);
  hash = chained(hash, key.sibling);
  return static_cast<std::uint32_t>(chained(hash, key.index) & 0xffffU);
}

/// `weights` is any number that stands for the weights.
[[nodiscard]] constexpr std::int32_t scripted_token(const token_key& key, std::uint64_t weights) {
  const auto made_by = static_cast<std::uint32_t>(detail::mixed(weights) & 0x7fffU);
  return static_cast<std::int32_t>(owner_half(key) | (made_by << 16U));
}

<<<<<<< HEAD
=======
[[nodiscard]] constexpr bool made_by(std::int32_t token, std::uint64_t weights) {
  return static_cast<std::uint32_t>(token) >> 16U == (detail::mixed(weights) & 0x7fffU);
}

>>>>>>> integ
/// Completions are 1 to `tokens_max` tokens long; `log_normal`: most are short, and a few very long
/// (median 8, sigma 1 of the logarithm, before the bound).
[[nodiscard]] inline std::uint64_t scripted_length(const token_key& key, std::uint64_t tokens_max,
                                                   bool log_normal) {
  const std::uint64_t drawn = chained(owner_half(key), tokens_max);
  if (!log_normal) return 1 + drawn % tokens_max;
  double normal = -6; // The sum of twelve even draws is nearly normal.
  for (std::uint64_t draw = 0; draw < 12; ++draw)
    normal += static_cast<double>(chained(drawn, draw) >> 11U) * 0x1p-53;
  const auto length = static_cast<std::uint64_t>(8 * std::exp(normal));
  return std::clamp<std::uint64_t>(length, 1, tokens_max);
}

} // namespace weir::sim
