/// Continuous-batch decoding over a paged key-value cache.
///
/// A group (a prompt and its siblings) is admitted as a whole. Each step computes one token of
/// every live sequence, and a bounded number of prompt tokens of groups that were admitted since;
/// the prompt of a group is computed once. Weights may change between any two steps while sequences
/// live; every token says which version made it. A pinned group keeps the version that it names:
/// groups of several versions decode in one batch, each row with the weights of its group.
///
/// Batch invariance: the tokens and log-probability bits of a sequence are a function of its
/// prompt, its options, its sampling key, its sibling number and the weights in force at each of
/// its tokens. They do not depend on what else is in the batch, on its slot, on chunks, blocks,
/// threads or a restart, because every row goes through the same operations in the same order
/// (ops.hpp), and random numbers are a pure function of the token's place (philox.hpp).
///
/// All memory is allocated at construction; a group that does not fit is refused at admission.
/// A decoder belongs to one thread at a time (the stream of its device).
#pragma once

#include "kernels/device.hpp"
#include "kernels/kv_cache.hpp"
#include "kernels/model.hpp"
#include "kernels/philox.hpp"
#include "kernels/sampling.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weir::kernels {

struct decoder_options {
  std::uint32_t max_sequences = 64; ///< Most live sequences.
  std::uint32_t kv_blocks = 0;      ///< Cache blocks; 0 = enough for max_sequences full contexts.
  std::uint64_t cache_bytes_max = std::uint64_t{16} << 30; ///< More is refused at creation.
  std::uint32_t block_tokens = 16;    ///< Tokens of a cache block: a multiple of 16.
  std::uint32_t prefill_tokens = 256; ///< Most prompt tokens computed in one step.
  std::uint32_t threads = 1;          ///< The calling thread included.
  isa_level isa = detected_isa();     ///< @pre usable on this processor.
  /// What has a CUDA kernel runs there (now the last RMSNorm), the rest on the CPU; the same bits.
  device where = {};
  /// Compute the cache of live sequences anew when the weights change, instead of keeping what the
  /// earlier versions wrote (the default, as the systems that users know do).
  bool recompute_on_update = false;
  /// Versions before the newest that stay at hand for pinned groups. Each costs the packed weights
  /// once more.
  std::uint32_t earlier_versions = 0;
};

/// Most stop tokens of one group.
inline constexpr std::size_t stop_tokens_max = 16;

/// What is asked of the decoder for one prompt.
struct decode_request {
  std::uint64_t tag = 0; ///< The caller's name for the group; unique among the live ones.
  std::span<const std::uint32_t> prompt = {};
  sampling_options sampling = {};
  sampling_key key = {};
  std::uint32_t first_sibling = 0; ///< Siblings first_sibling ... first_sibling + siblings - 1.
  std::uint32_t siblings = 1;
  std::uint32_t max_new_tokens = 0;
  std::span<const std::uint32_t> stop_tokens = {}; ///< The one that ends a sequence is emitted.
  /// All tokens come from this version; without it, each from the one in force when it is made.
  std::optional<std::uint64_t> pinned_version = {};
};

enum class finish_reason : std::uint8_t {
  none,   ///< The sequence goes on.
  stop,   ///< This token is a stop token.
  length, ///< This is the last of max_new_tokens.
};

/// One token of one sequence.
struct emitted_token {
  std::uint64_t tag = 0;
  std::uint32_t sibling = 0;
  std::uint32_t token = 0;
  float logprob = 0.0F;          ///< Under the raw policy: what training uses.
  float sampling_logprob = 0.0F; ///< Under the distribution that it was drawn from.
  std::uint64_t weight_version = 0;
  finish_reason finished = finish_reason::none;

  friend bool operator==(const emitted_token&, const emitted_token&) = default;
};

/// The parameters of one version, in the model's flat layout, kept alive by the decoder while it
/// uses them.
struct published_weights {
  std::shared_ptr<const float> values; ///< `parameter_layout::total` floats.
  std::size_t count = 0;
  std::uint64_t version = 0;
};

class decoder {
public:
  /// Fails with `invalid_argument` when the model or an option is out of range, with `exhausted`
  /// when the cache would be larger than allowed, and as `cuda_rms_norm::create` when the device
  /// cannot be used.
  [[nodiscard]] static result<std::unique_ptr<decoder>> create(const model_config& config,
                                                               const decoder_options& options);
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  virtual ~decoder() = default;

  /// Uses these weights from the next step on. Live sequences stay, with the cache they have or, if
  /// so configured, one computed anew; those of pinned groups notice nothing. Earlier versions stay
  /// as the options say, and as long as a live group is pinned to them. Fails with
  /// `invalid_argument` on a count that is not the model's, and changes nothing then.
  [[nodiscard]] virtual result<void> set_weights(const published_weights& weights) = 0;

  /// Admits the siblings of a group; their tokens come out of later steps.
  /// Fails with `invalid_argument` when the request cannot be right, `already_exists` when the tag
  /// is live, `not_found` when the pinned version is not held, `exhausted` when slots or cache
  /// blocks are short now; changes nothing then.
  [[nodiscard]] virtual result<void> admit(const decode_request& request) = 0;

  /// Computes one token of every sequence whose prompt is in the cache. Tokens come by admission
  /// order of their group, then by sibling. The span is valid until the next call.
  /// Fails with `unavailable` without weights. Fails with `corrupt` when the policy's logits are no
  /// distribution, and with the device's error when it fails: no token of that step is emitted
  /// then, and all later steps fail alike.
  [[nodiscard]] virtual result<std::span<const emitted_token>> step() = 0;

  /// Ends all sequences of a group; their memory is free at once. Returns how many were live: 0
  /// when the tag is unknown or has finished.
  virtual std::uint32_t abort(std::uint64_t tag) = 0;

  /// Sequences that are not finished, whether their prompt is computed yet or not.
  [[nodiscard]] virtual std::uint32_t live_sequences() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t live_groups() const noexcept = 0;
  /// Cache blocks that no live sequence holds or was promised.
  [[nodiscard]] virtual std::uint32_t available_blocks() const noexcept = 0;
  /// Version in force; 0 before the first `set_weights`.
  [[nodiscard]] virtual std::uint64_t weight_version() const noexcept = 0;

protected:
  decoder() = default;
};

} // namespace weir::kernels
