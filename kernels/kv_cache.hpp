/// The block accounting of the paged key-value cache. It holds no floats: it says which block of
/// the storage holds which tokens of which sequence.
///
/// A sequence is a slot with a table of blocks; each block holds `block_tokens` tokens of all
/// layers. The siblings of a prompt group share the prompt's full blocks (reference counted, never
/// written again); the last, partial block is copied when a sibling is forked, because that sibling
/// writes into it in its very next step.
///
/// Invariant: every admitted sequence holds a promise for each block that it may still take, and
/// the free list is never shorter than the sum of the promises. So running out is an error at
/// admission, and nothing that was admitted can fail later.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weir::kernels {

struct kv_cache_options {
  std::uint32_t blocks = 0;       ///< Blocks of the storage.
  std::uint32_t block_tokens = 0; ///< Tokens of one block.
  std::uint32_t sequences = 0;    ///< Most live sequences.
  std::uint32_t context = 0;      ///< Most tokens of one sequence.
};

/// What a group asks for at admission.
struct kv_group {
  std::uint32_t prompt_tokens = 0; ///< Shared by the siblings; at least 1.
  std::uint32_t tokens_max = 0;    ///< Prompt and completion; at most the context.
  std::uint32_t siblings = 0;      ///< At least 1.
};

/// A copy that the owner of the storage must perform before it writes to block `to`.
struct kv_block_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;

  friend bool operator==(const kv_block_copy&, const kv_block_copy&) = default;
};

class kv_cache {
public:
  /// @pre all options are at least 1; all memory is allocated here.
  explicit kv_cache(const kv_cache_options& options);

  // -- observers --------------------------------------------------------------------------------

  [[nodiscard]] std::uint32_t free_blocks() const noexcept;
  [[nodiscard]] std::uint32_t promised_blocks() const noexcept { return promised_; }
  [[nodiscard]] std::uint32_t live_sequences() const noexcept { return live_; }
  [[nodiscard]] std::uint32_t blocks_per_sequence() const noexcept { return table_width_; }

  /// Blocks of this sequence so far, in token order.
  [[nodiscard]] std::span<const std::uint32_t> table(std::uint32_t slot) const;

  /// Sequences that hold this block.
  [[nodiscard]] std::uint32_t references(std::uint32_t block) const;

  /// Ends the process when a count does not add up. Linear in blocks and slots: for tests.
  void check_invariants() const;

  // -- operations -------------------------------------------------------------------------------

  /// Takes one slot per sibling and promises their blocks. The first slot is the leader: the prompt
  /// is computed into it, then the others are forked from it.
  /// Fails with `exhausted` when slots or blocks are short now, with `invalid_argument` when the
  /// group could not fit into an empty cache; nothing is taken then.
  [[nodiscard]] result<std::vector<std::uint32_t>> admit(const kv_group& group);

  /// Gives the sequence the blocks that its first `tokens` tokens need. Never fails.
  /// @pre `tokens` is at most what was admitted.
  void extend(std::uint32_t slot, std::uint32_t tokens);

  /// Shares the first `prompt_tokens` tokens of the leader with a sibling of its group: full blocks
  /// by reference, a partial one by the copy that is returned.
  /// @pre the leader holds these tokens and the sibling holds none.
  [[nodiscard]] std::optional<kv_block_copy> fork(std::uint32_t leader, std::uint32_t sibling,
                                                  std::uint32_t prompt_tokens);

  /// Ends a sequence: its slot, its promises and the blocks that nobody else holds are free again.
  void release(std::uint32_t slot);

private:
  struct sequence {
    std::uint32_t held = 0;    ///< Blocks in its table.
    std::uint32_t promise = 0; ///< Blocks that it may still take from the free list.
    bool live = false;
  };

  [[nodiscard]] std::uint32_t blocks_for(std::uint32_t tokens) const;
  [[nodiscard]] std::uint32_t& entry(std::uint32_t slot, std::uint32_t index);
  void take_block(std::uint32_t slot);

  kv_cache_options options_;
  std::uint32_t table_width_ = 0;
  std::uint32_t promised_ = 0;
  std::uint32_t live_ = 0;
  std::vector<sequence> sequences_;
  std::vector<std::uint32_t> tables_; ///< `[sequences][table_width]`.
  std::vector<std::uint32_t> references_;
  std::vector<std::uint32_t> free_blocks_; ///< A stack: a warm block is used again first.
  std::vector<std::uint32_t> free_slots_;
};

} // namespace weir::kernels
