/// The replay index: which committed groups there are, in which rows, for which step. No tensor.
///
/// `replay_image` is everything of it that a bundle holds (`replay_buffer_metadata.fb`), and copies
/// in O(1), as `sampler_image` does: live state, capture and decoded file are one type.
#pragma once

#include "actors/content_hash.hpp"
#include "actors/drop_reason.hpp"
#include "dataplane/persistent_map.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// One group that is READY, or CLAIMED for a step.
struct replay_record {
  group_id group = {};
  sample_id sample = {};
  std::uint32_t content_attempt = 0;
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  /// W in force at admission.
  std::uint64_t window = 0;
  /// Versions of the first and of the last token that is kept.
  weight_version start_version = {};
  weight_version end_version = {};
  /// Step that claimed the group; -1 while it is READY.
  std::int64_t claimed_for = -1;
  /// One row of the data plane per sibling, in sibling order.
  std::vector<row_id> rows = {};
  /// Of the prompt's record, for a group that goes back into the ledger (`drop_replay`). A bundle
  /// of format 1 holds neither.
  std::optional<content_hash> hash = {};
  std::string task = {};

  friend bool operator==(const replay_record&, const replay_record&) = default;
};

/// By group id. Records are immutable: a change replaces the record.
using replay_map = dataplane::persistent_map<std::shared_ptr<const replay_record>>;

/// See the head of this file.
struct replay_image {
  replay_map index = {};
  group_tally consumed = {};
  drop_tallies dropped = {};
  /// Terms of the conservation law; they follow from the index and are not stored.
  group_tally ready = {};
  group_tally claimed = {};

  /// Adds, replaces or removes a record, keeping the tallies.
  void put(replay_record record);
  void erase(group_id group);
  [[nodiscard]] const replay_record* find(group_id group) const;
};

/// Adds the terms of the conservation law that replay owns.
void add_tallies(const replay_image& image, cut_tallies& tallies);

/// All records in dispatch order. O(n log n); for restore and tests.
[[nodiscard]] std::vector<replay_record> in_dispatch_order(const replay_map& index);

/// Format 1 held neither hash nor task of a group.
inline constexpr std::uint32_t replay_metadata_format = 2;

/// The bytes of `replay_buffer_metadata.fb`. Runs off the barrier, on any thread.
[[nodiscard]] std::vector<std::byte> encode(const replay_image& image, epoch_id epoch);

/// A section that was read back.
struct decoded_replay {
  replay_image image = {};
  epoch_id epoch = {};
};

/// Reads `replay_buffer_metadata.fb`, all or nothing. Errors: corrupt for bytes that fail
/// verification, a group or a row twice, no rows, versions out of order, an unknown reason;
/// unsupported for a newer format.
[[nodiscard]] result<decoded_replay> decode_replay(std::span<const std::byte> section);

/// The invariants that a decoded image and a live one share. Errors: corrupt.
[[nodiscard]] result<void> check_image(const replay_image& image);

} // namespace weir
