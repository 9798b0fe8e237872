/// Philox4x32-10: a counter-based random generator (Salmon et al., SC 2011).
///
/// A pure function from (counter, key) to 128 random bits: no state that a restart could lose, the
/// same on every machine, in any order, on the host and in CUDA code. Everything here is constexpr
/// over integers, so that nvcc compiles the same source for the device.
#pragma once

#include <cstdint>

namespace weir::kernels {

/// 128 bits: a counter, or what the generator makes of it.
struct philox_block {
  std::uint32_t words[4] = {0, 0, 0, 0};

  friend constexpr bool operator==(const philox_block&, const philox_block&) = default;
};

/// The 64-bit key; different keys give unrelated streams.
struct philox_key {
  std::uint32_t words[2] = {0, 0};

  friend constexpr bool operator==(const philox_key&, const philox_key&) = default;
};

[[nodiscard]] constexpr philox_key make_philox_key(std::uint64_t seed) {
  return philox_key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
}

/// Returns 128 random bits for this counter under this key. Ten rounds, as the paper recommends.
[[nodiscard]] constexpr philox_block philox4x32(philox_block counter, philox_key key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = std::uint64_t{0xD2511F53} * counter.words[0];
    const std::uint64_t product_1 = std::uint64_t{0xCD9E8D57} * counter.words[2];
    const philox_block next{{
        static_cast<std::uint32_t>(product_1 >> 32) ^ counter.words[1] ^ key.words[0],
        static_cast<std::uint32_t>(product_1),
        static_cast<std::uint32_t>(product_0 >> 32) ^ counter.words[3] ^ key.words[1],
        static_cast<std::uint32_t>(product_0),
    }};
    counter = next;
    key.words[0] += 0x9E3779B9;
    key.words[1] += 0xBB67AE85;
  }
  return counter;
}

/// A double in [0, 1) from the first 53 of the 64 leading bits: every value is exact.
[[nodiscard]] constexpr double uniform_double(philox_block bits) {
  const std::uint64_t joined = (std::uint64_t{bits.words[0]} << 32) | bits.words[1];
  return static_cast<double>(joined >> 11) * 0x1.0p-53;
}

/// What the randomness of one prompt group depends on. `attempt` is the content attempt: +1 when a
/// group is generated anew on purpose, unchanged when a crash merely repeats the same work.
struct sampling_key {
  std::uint64_t seed = 0; ///< Of the run.
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t attempt = 0;

  friend constexpr bool operator==(const sampling_key&, const sampling_key&) = default;
};

/// The random numbers of one prompt group: a pure function of (key, sibling, token position).
///
/// The key has more bits than one Philox block takes, so it is absorbed in two chained blocks, once
/// per group; each token then costs one block.
class sampling_stream {
public:
  constexpr explicit sampling_stream(const sampling_key& key) {
    philox_block state =
        philox4x32(join(key.epoch, key.position), make_philox_key(key.seed ^ domain));
    const philox_key chained{{state.words[0], state.words[1]}};
    state = philox4x32(join(key.attempt, tail(state)), chained);
    key_ = philox_key{{state.words[0], state.words[1]}};
    salt_ = tail(state);
  }

  /// The uniform double in [0, 1) that decides the token at `token_position`, counted from the
  /// start of the sequence (prompt included): a continued sequence draws the same numbers.
  [[nodiscard]] constexpr double uniform(std::uint32_t sibling,
                                         std::uint32_t token_position) const {
    const std::uint64_t place = (std::uint64_t{sibling} << 32) | token_position;
    return uniform_double(philox4x32(join(place, salt_), key_));
  }

private:
  /// Keeps these streams apart from other uses of the run's seed (initial weights, shuffling).
  static constexpr std::uint64_t domain = 0x73616d706c696e67; // "sampling"

  static constexpr philox_block join(std::uint64_t low, std::uint64_t high) {
    return philox_block{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                         static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  }
  static constexpr std::uint64_t tail(const philox_block& state) {
    return (std::uint64_t{state.words[3]} << 32) | state.words[2];
  }

  philox_key key_;
  std::uint64_t salt_ = 0;
};

} // namespace weir::kernels
