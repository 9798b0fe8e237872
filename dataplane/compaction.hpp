/// Which segments are worth being emptied, and how far that went.
///
/// A segment whose values are mostly cleared still holds all of its memory. Moving the rest into
/// the open segment gives it back; below half, each byte moved frees at least one other. The store
/// sweeps over its rows once for all victims that it had at the start (`store::compact`); what is
/// written meanwhile goes into the open segment, which is never a victim.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace weir::dataplane {

struct segment_standing {
  std::uint64_t id = 0;
  std::uint64_t live_bytes = 0;
  /// All that was ever placed in it.
  std::uint64_t placed_bytes = 0;
};

/// Below this share of live bytes a segment is emptied, in memory and on disk.
inline constexpr double live_share_min = 0.5;

[[nodiscard]] constexpr bool mostly_dead(std::uint64_t live_bytes, std::uint64_t placed_bytes) {
  return static_cast<double>(live_bytes) < live_share_min * static_cast<double>(placed_bytes);
}

/// The segments to empty: the mostly dead ones but `open`.
[[nodiscard]] std::unordered_set<std::uint64_t>
compaction_plan(std::span<const segment_standing> segments, std::uint64_t open);

/// One pass over the rows.
struct compaction_sweep {
  std::unordered_set<std::uint64_t> victims;
  std::uint64_t partition = 0;
  /// Rows below were looked at.
  std::uint64_t next_row = 0;
};

struct compaction_step {
  std::uint64_t moved_bytes = 0;
  /// Whether nothing is left to do at present.
  bool finished = true;
};

} // namespace weir::dataplane
