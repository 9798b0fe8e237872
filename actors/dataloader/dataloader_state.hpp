/// The dataloader's durable state: a cursor over a dataset, and what it handed out.
///
/// Order: epoch e visits every record once, in a permutation that follows from (shuffle seed, e).
/// The ordinal of a visit is epoch x length + position; it becomes the group id. Because of that
/// the cursor is one number, and a restart hands out the same ids for the same prompts.
///
/// `peek` reads without moving, ahead of the lease; `reserve` moves the cursor under the lease and
/// refuses when it moved meanwhile. Capture is a copy of a few words.
///
/// Memory: the dataset, and the permutations of two epochs (a batch may cross an edge).
#pragma once

#include "actors/conservation.hpp"
#include "actors/content_hash.hpp"
#include "actors/dataloader/dataset.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// How records are visited. Seed and shuffle must stay the same for the life of a run.
struct dataloader_options {
  bool shuffle = true;
  std::uint64_t shuffle_seed = 42;
  /// Number of passes over the dataset; without one, passes never end.
  std::optional<std::uint64_t> max_num_epochs = 1;
};

/// One prompt, as it is handed out.
struct prompt_record {
  group_id group;
  sample_id sample;
  content_hash hash;
  std::string prompt;
  std::string answer;
  std::string task;

  friend bool operator==(const prompt_record&, const prompt_record&) = default;
};

/// Everything of the dataloader that a bundle holds (`train_dataloader.fb`).
struct dataloader_cursor {
  /// The next ordinal to hand out; always epoch x dataset_length + position.
  std::uint64_t ordinal = 0;
  std::uint64_t epoch = 0;
  /// Within the shuffled epoch; always below the length (an edge is position 0 of the next epoch).
  std::uint64_t position = 0;
  bool shuffle = true;
  std::uint64_t shuffle_seed = 0;
  content_hash dataset_fingerprint;
  std::uint64_t dataset_length = 0;
  group_tally handed_out;

  friend bool operator==(const dataloader_cursor&, const dataloader_cursor&) = default;
};

namespace detail {

/// Record indices of one epoch, by position.
[[nodiscard]] std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch,
                                                     std::uint32_t length);

} // namespace detail

class dataloader_state {
public:
  dataloader_state(dataset records, dataloader_options options);

  /// The next prompts, at most `count`, without moving. Continues over epoch edges; shorter, or
  /// empty, only at the end of the data.
  [[nodiscard]] std::vector<prompt_record> peek(std::uint64_t count) const;

  /// Moves the cursor over `count` prompts that were peeked from `first` on.
  /// Errors: conflict if the cursor is not at `first`; exhausted if fewer than `count` are left.
  [[nodiscard]] result<void> reserve(group_id first, std::uint64_t count);

  /// The prompt of a visit, also one that was handed out in an earlier life; with `expected`, its
  /// content is verified. Errors: not_found for a position beyond the dataset, corrupt for another
  /// content.
  [[nodiscard]] result<prompt_record> fetch(sample_id sample,
                                            std::optional<content_hash> expected) const;

  /// Prompts that are left, or nothing if passes never end.
  [[nodiscard]] std::optional<std::uint64_t> remaining() const;
  [[nodiscard]] bool exhausted() const { return remaining() == std::uint64_t{0}; }
  [[nodiscard]] group_id next_group() const { return group_id(cursor_.ordinal); }
  [[nodiscard]] const group_tally& handed_out() const { return cursor_.handed_out; }
  [[nodiscard]] const dataset& records() const { return records_; }

  /// The durable state, O(1).
  [[nodiscard]] dataloader_cursor capture() const { return cursor_; }
  /// Continues where `saved` stood. All or nothing. Errors: conflict if it belongs to another or
  /// reordered dataset, or to another shuffle; corrupt if its numbers contradict each other.
  [[nodiscard]] result<void> load(const dataloader_cursor& saved);

  void check_invariants() const;

private:
  struct cached_epoch {
    std::optional<std::uint64_t> epoch;
    std::vector<std::uint32_t> order;
  };

  [[nodiscard]] std::uint64_t record_index(sample_id sample) const;
  [[nodiscard]] sample_id sample_at(std::uint64_t ordinal) const;
  [[nodiscard]] prompt_record prompt_at(sample_id sample) const;

  dataset records_;
  dataloader_options options_;
  dataloader_cursor cursor_;
  /// Derived from (seed, epoch); kept because a permutation costs a pass over the dataset.
  mutable std::array<cached_epoch, 2> orders_;
};

} // namespace weir
