/// Which rows a decoder computes in a step, and what becomes of the tokens that were drawn: the
/// bookkeeping of a decoder, without a float.
///
/// A sequence is its tokens and the number of them whose keys and values are in the cache
/// (`computed`). A step computes some of the others; when it reaches the last one, its logits give
/// the next token. Prefill, decoding and computing a cache anew are all this one rule.
///
/// Until its prompt is computed, a group has one sequence at work, the leader; then the others are
/// forked from it, each with a token drawn from the same logits. When a cache is computed anew, the
/// leader alone writes the blocks that the siblings share, and the others wait for it.
#pragma once

#include "kernels/decoder.hpp"

#include <array>
#include <optional>

namespace weir::kernels {

/// Consecutive tokens of one sequence, to be computed in this step.
struct decode_segment {
  std::uint32_t slot = 0;
  std::uint32_t first = 0; ///< Position of its first token.
  std::uint32_t count = 0; ///< Tokens.
  std::uint32_t group = 0; ///< Index among the live groups, until the step is committed.
  bool completes = false;  ///< Reaches the last token: logits are needed.
};

/// One draw of a step: the token after `position - 1` of the sequence in `slot`.
struct decode_draw {
  std::uint32_t slot = 0;
  std::uint32_t sibling = 0;
  std::uint32_t position = 0;
};

class decoder_batch {
public:
  struct group {
    std::uint64_t tag = 0;
    sampling_options sampling;
    sampling_stream randomness{sampling_key{}};
    std::array<std::uint32_t, stop_tokens_max> stop_tokens{};
    std::uint32_t stop_count = 0;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t tokens_max = 0; ///< Prompt and completion.
    bool forked = false;          ///< The prompt was computed and shared.
    std::optional<std::uint64_t> pinned_version;
    std::vector<std::uint32_t> slots; ///< Live siblings in order; the first is the leader.
  };

  decoder_batch(const model_config& config, const decoder_options& options);

  [[nodiscard]] result<void> admit(const decode_request& request);
  std::uint32_t abort(std::uint64_t tag);

  /// Forgets every computed key and value of groups that are not pinned: they will be computed
  /// again.
  void recompute();

  /// Versions that live groups are pinned to; one may come twice.
  [[nodiscard]] std::vector<std::uint64_t> pinned_versions() const;
  /// The version that makes the tokens of a segment; nothing: the one in force.
  [[nodiscard]] std::optional<std::uint64_t> pinned_version(const decode_segment& segment) const {
    return groups_[segment.group].pinned_version;
  }

  /// The segments of the next step, in the order in which their tokens are emitted; blocks for them
  /// are in the tables. Valid until the next call of anything but an observer.
  [[nodiscard]] std::span<const decode_segment> plan();

  /// The tokens that a completing segment draws from its row of logits.
  template <class Visit>
  void for_draws(const decode_segment& segment, Visit visit) const {
    const group& owner = groups_[segment.group];
    if (owner.forked) {
      const sequence& one = sequences_[segment.slot];
      visit(owner, decode_draw{segment.slot, one.sibling, one.size});
      return;
    }
    for (const std::uint32_t slot : owner.slots)
      visit(owner, decode_draw{slot, sequences_[slot].sibling, owner.prompt_tokens});
  }

  /// Ends the step that was planned, with the tokens drawn per slot. Finished sequences are gone
  /// afterwards. The copies of cache blocks must be made before anything else is computed.
  struct committed {
    std::span<const emitted_token> emitted;
    std::span<const kv_block_copy> copies;
  };
  [[nodiscard]] committed commit(std::span<const sampled_token> drawn, std::uint64_t version);

  [[nodiscard]] std::span<const std::uint32_t> tokens(std::uint32_t slot) const;
  [[nodiscard]] const kv_cache& cache() const noexcept { return cache_; }
  [[nodiscard]] std::uint32_t live_groups() const noexcept {
    return static_cast<std::uint32_t>(groups_.size());
  }

private:
  struct sequence {
    std::uint32_t sibling = 0;
    std::uint32_t computed = 0; ///< Tokens whose keys and values are in the cache.
    std::uint32_t size = 0;     ///< Tokens known.
    bool finished = false;
  };

  [[nodiscard]] result<void> check(const decode_request& request) const;
  [[nodiscard]] std::uint32_t shared_tokens(const group& owner) const;
  void plan_group(std::uint32_t index, std::uint32_t& budget);
  void append(const group& owner, std::uint32_t slot, const sampled_token& drawn,
              std::uint64_t version);
  void share_prompt(group& owner, std::span<const sampled_token> drawn, std::uint64_t version);
  void settle(group& owner);
  [[nodiscard]] std::uint32_t* token_row(std::uint32_t slot);

  model_config config_;
  decoder_options options_;
  kv_cache cache_;
  std::vector<group> groups_; ///< In admission order.
  std::vector<sequence> sequences_;
  std::vector<std::uint32_t> tokens_; ///< `[max_sequences][context]`.
  std::vector<decode_segment> segments_;
  std::vector<emitted_token> emitted_;
  std::vector<kv_block_copy> copies_;
};

} // namespace weir::kernels
