/// The ledger: groups that left the dataloader and are not in the data plane yet. This is what
/// ordinary checkpoints lose.
///
/// `sampler_image` is everything of the sampler that a bundle holds (`rollout_recovery.fb`). It
/// copies in O(1): records are immutable and shared, the maps are persistent. So the same type is
/// the live state, a capture at a cut, and what a file decodes to.
///
/// Records hold no prompt text: the dataset does, and `content_hash` proves that it still does.
#pragma once

#include "actors/content_hash.hpp"
#include "actors/drop_reason.hpp"
#include "dataplane/persistent_map.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/schemas.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir {

enum class group_phase : std::uint8_t { reserved = 1, admitted = 2 };

/// A part of what a sibling had when it was cut, for recovery levels above `group`.
struct continuation {
  std::string kind = {};
  std::vector<std::uint8_t> bytes = {};

  friend bool operator==(const continuation&, const continuation&) = default;
};

/// One sibling of an unfinished group.
struct sibling_record {
  std::uint32_t sibling = 0;
  bool sealed = false;
  row_id row = {};
  std::vector<continuation> continuations = {};

  friend bool operator==(const sibling_record&, const sibling_record&) = default;
};

/// A prompt that is about to be reserved, or a spare.
struct group_reservation {
  group_id group = {};
  sample_id sample = {};
  content_hash hash = {};
  std::string task = {};
  std::uint32_t siblings = 0;

  friend bool operator==(const group_reservation&, const group_reservation&) = default;
};

/// One unfinished group.
struct ledger_record {
  group_id group = {};
  /// Groups of one admission are reserved, and admitted, together.
  std::uint64_t admission = 0;
  sample_id sample = {};
  content_hash hash = {};
  std::string task = {};
  std::uint32_t siblings = 0;
  group_phase phase = group_phase::reserved;
  /// The four below are set by admission. A missing target does not mean "not admitted".
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  std::uint64_t window = 0;
  /// Raised by a data failure and by `drop_replay`; keys the random numbers of generation.
  std::uint32_t content_attempt = 0;
  std::uint32_t data_attempts = 0;
  std::uint32_t infra_attempts = 0;
  /// Incarnations in which the group was dispatched without an end.
  std::uint32_t dispatches = 0;
  /// Groups that held this place of a step before, and were dropped.
  std::uint32_t replacements = 0;
  std::vector<sibling_record> sibling_records = {};

  friend bool operator==(const ledger_record&, const ledger_record&) = default;
};

/// The record of a prompt of which only its handing out is known: RESERVED, without admission.
[[nodiscard]] ledger_record record_of(const group_reservation& prompt);

/// Dispatch order: admitted before reserved, by dispatch index or admission, then by group.
[[nodiscard]] bool dispatched_before(const ledger_record& left, const ledger_record& right);

/// By group id. Records are immutable: a change replaces the record.
using ledger_map = dataplane::persistent_map<std::shared_ptr<const ledger_record>>;
/// Groups that a stamped step will not get, by step. No entry means none.
using shortfall_map = dataplane::persistent_map<std::uint64_t>;
/// Spares by group id: prompts set aside to take the places of dropped ones.
using reserve_map = dataplane::persistent_map<std::shared_ptr<const group_reservation>>;

/// See the head of this file.
struct sampler_image {
  std::string sampler = {};
  std::uint64_t window = 0;
  std::uint64_t groups_per_step = 0;
  bool stamps = false;
  weight_version live_version = {};
  std::int64_t dispatch_index = -1;
  std::uint64_t next_admission = 0;
  ledger_map ledger = {};
  shortfall_map shortfalls = {};
  drop_tallies dropped = {};
  std::uint64_t skipped_prompts = 0;
  std::uint64_t consecutive_dropped = 0;
  /// In a file of its own: replacement_reserve.hpp.
  reserve_map reserve = {};
  std::uint64_t replaced_prompt_groups = 0;
  std::uint64_t promoted_prompt_groups = 0;
  /// Terms of the conservation law; they follow from the above and are not stored.
  group_tally reserved = {};
  group_tally admitted = {};
  group_tally in_reserve = {};

  /// Adds, replaces or removes a record, keeping the tallies.
  void put(ledger_record record);
  void erase(group_id group);
  [[nodiscard]] const ledger_record* find(group_id group) const;
  /// Adds a spare, or takes one out. @pre It is not there, or it is.
  void set_aside(group_reservation spare);
  [[nodiscard]] group_reservation take_spare(group_id group);
};

/// The event of a transition of a record that is (or was) in the ledger.
[[nodiscard]] group_event event_of(const ledger_record& record, group_state from, group_state to,
                                   std::uint64_t transaction);

/// Adds the terms of the conservation law that the sampler owns.
void add_tallies(const sampler_image& image, cut_tallies& tallies);

/// All records in dispatch order, reserved ones last. O(n log n); for restore and tests.
[[nodiscard]] std::vector<ledger_record> in_dispatch_order(const ledger_map& ledger);

/// A record as it travels and is stored. `unpack_record`: corrupt for an unknown phase or a missing
/// sample.
[[nodiscard]] std::unique_ptr<LedgerRecordT> pack_record(const ledger_record& record);
[[nodiscard]] result<ledger_record> unpack_record(const LedgerRecordT& packed);

/// Format 1 had no reserve.
inline constexpr std::uint32_t rollout_recovery_format = 2;

/// The bytes of `rollout_recovery.fb`. Runs off the barrier, on any thread.
[[nodiscard]] std::vector<std::byte> encode(const sampler_image& image, epoch_id epoch);

/// A section that was read back.
struct decoded_sampler {
  sampler_image image = {};
  epoch_id epoch = {};
  /// Spares that `replacement_reserve.fb` holds; without any there is no such file.
  std::uint64_t spares = 0;
};

/// Reads `rollout_recovery.fb`, all or nothing. Errors: corrupt for bytes that fail verification,
/// an unknown phase or reason, a group twice, groups of one admission that disagree, a dispatch
/// index older than its work; unsupported for a newer format.
[[nodiscard]] result<decoded_sampler> decode_sampler(std::span<const std::byte> section);

/// The invariants that a decoded image and a live one share. Errors: corrupt.
[[nodiscard]] result<void> check_image(const sampler_image& image);

} // namespace weir
