/// The slots of the replay buffer in dispatch order, (dispatch index, group), whatever the order in
/// which groups start and become ready. Columns, as a policy reads them (policy_slot.hpp).
///
/// Slots come at the end and leave near the front; what leaves together is taken out in one pass.
#pragma once

#include "actors/sampler/policy_slot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weir {

/// Where a slot stands.
struct slot_key {
  std::int64_t dispatch_index = -1;
  group_id group = {};

  friend auto operator<=>(const slot_key&, const slot_key&) = default;
};

class slot_table {
public:
  slot_table() = default;
  /// In any order. For tests.
  explicit slot_table(std::span<const policy_slot> slots);

  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  /// Valid until the table changes.
  [[nodiscard]] slot_view view() const;
  [[nodiscard]] policy_slot at(slot_key key) const { return view()[place_of(key)]; }

  /// @pre No slot has this key.
  void insert(const policy_slot& slot);
  /// Replaces the slot of the same key. @pre There is one.
  void replace(const policy_slot& slot);
  /// The first token that is kept was made by `start`; nothing: none is kept. @pre It has a slot.
  void set_start(slot_key key, std::optional<weight_version> start);
  /// Takes these slots out. @pre All of them are here; keys rise.
  void erase(std::span<const slot_key> keys);

private:
  [[nodiscard]] std::size_t lower_bound(slot_key key) const;
  [[nodiscard]] std::size_t place_of(slot_key key) const;
  void set_start_at(std::size_t place, std::optional<weight_version> start);

  std::vector<group_id> groups_;
  std::vector<std::int64_t> dispatch_indices_;
  std::vector<std::int64_t> target_steps_;
  std::vector<weight_version> admission_versions_;
  std::vector<std::uint64_t> windows_;
  std::vector<weight_version> start_versions_;
  std::vector<weight_version> last_versions_;
  std::vector<std::uint8_t> ready_;
};

} // namespace weir
