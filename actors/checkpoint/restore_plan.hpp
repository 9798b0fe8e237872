/// Steps 3 and 4 of a restore: whether the parts of a bundle agree on who owns which group, and
/// what is to be done with each group.
///
/// The data plane's inventory, the replay index and the ledger must name the same groups, rows and
/// fields; a staged row is in the bundle only if a ledger record names it. A difference is an error
/// that lists both sides: nothing is repaired silently. The one exception is a ledger entry of a
/// group that the data plane holds committed (a bundle from elsewhere): the data plane wins, and
/// the entry is discarded and reported.
///
/// Claimed groups are ready again: with their stamps, without the step that claimed them.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// A row that the restored data plane holds. Bit k of `fields`: it has `field_names[k]`.
struct inventory_row {
  row_id row = {};
  group_id group = {};
  std::uint32_t sibling = 0;
  bool committed = false;
  std::uint64_t fields = 0;
  std::uint64_t tokens = 0;
};
struct inventory {
  /// At most 64.
  std::vector<std::string> field_names;
  std::vector<inventory_row> rows;
};

/// A group of the replay index. `rows` in sibling order.
struct replay_entry {
  group_id group = {};
  std::vector<row_id> rows = {};
  std::int64_t dispatch_index = -1;
  /// The step that had claimed it, or -1.
  std::int64_t claimed_for = -1;
};

struct sealed_sibling {
  std::uint32_t sibling = 0;
  row_id row = {};
};
/// A group of the ledger.
struct ledger_entry {
  group_id group = {};
  bool admitted = false;
  std::uint64_t admission = 0;
  std::int64_t dispatch_index = -1;
  std::vector<sealed_sibling> sealed = {};
  /// Incarnations in which it was dispatched without an end.
  std::uint32_t dispatches = 0;
};

/// What a bundle says of its groups, section by section.
struct restored_sections {
  inventory data_plane;
  /// Every committed row must have exactly these.
  std::vector<std::string> required_fields;
  std::vector<replay_entry> replay;
  std::vector<ledger_entry> ledger;
  /// Spares: handed out, and in neither of the above.
  std::vector<group_id> reserve = {};
  /// The dataloader's next group: none may be at or beyond it.
  group_id next_group = {};
};

/// In how many incarnations a group may have been dispatched before it counts as poisoned.
inline constexpr std::uint32_t poisoned_dispatches = 3;

struct restore_plan {
  /// In dispatch order.
  std::vector<group_id> ready;
  /// In dispatch order: dispatched first.
  std::vector<group_id> admitted;
  /// By admission, then by group: admitted one after the other.
  std::vector<group_id> reserved;
  /// Ledger entries that the data plane owns: discard, log.
  std::vector<group_id> discarded;
  /// Admitted groups that were dispatched too often: a data failure each.
  std::vector<group_id> poisoned;
  /// In the reserve.
  std::vector<group_id> spares;

  // The table that a restore prints.
  std::uint64_t groups_claimed_before = 0;
  /// Admitted groups whose generation starts over.
  std::uint64_t groups_reissued = 0;
  std::uint64_t siblings_kept = 0;
  std::uint64_t tokens_kept = 0;
};

/// Checks the sections against each other. `corrupt`, listing up to `differences_max` differences
/// with both sides, when they disagree.
[[nodiscard]] result<restore_plan> plan_restore(const restored_sections& sections);
inline constexpr std::size_t differences_max = 20;

} // namespace weir
