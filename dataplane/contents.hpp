/// Everything that a store holds, as persistent maps: copying a `contents` is the O(1) capture.
///
/// Two maps: partitions (each with a map of its rows) and segments. A row's cells name extents of
/// segments; the segment map pins the memory. Rows that are cleared leave the index, and a segment
/// without a live cell leaves the segment map, so that its memory goes back as soon as no copy
/// pins it.
///
/// Invariants (`check_invariants`): every cell with bytes names a segment that is in the map and
/// lies within it; live bytes and cells of each segment are the sums over its cells, and at most
/// what was placed in it; the counters are the sums over the rows; row, partition and segment ids
/// are below their next ones.
#pragma once

#include "dataplane/persistent_map.hpp"
#include "dataplane/row.hpp"
#include "dataplane/segment.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weir::dataplane {

/// Segments are sealed at this many cells, so that a writer can list those of one in little memory.
inline constexpr std::uint64_t segment_cells_max = std::uint64_t{1} << 20;

/// One value: an extent of a segment. A cell without bytes names no segment (0).
struct cell {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// Of `row_body::extents`.
  std::uint32_t first_extent = 0;
  std::uint16_t field = 0;
  std::uint8_t rank = 0;
};

struct row_tag {
  std::uint16_t name = 0;
  tag_value value;
};

/// The part of a row that is replaced as a whole, and shared by captures.
struct row_body {
  std::string key;
  std::vector<row_tag> tags;
  std::vector<cell> cells;
  std::vector<std::uint64_t> extents;

  [[nodiscard]] const cell* find(std::uint16_t field) const {
    for (const cell& one : cells)
      if (one.field == field) return &one;
    return nullptr;
  }
  [[nodiscard]] std::span<const std::uint64_t> shape_of(const cell& one) const {
    return std::span(extents).subspan(one.first_extent, one.rank);
  }
};

struct consumer_mark {
  std::uint16_t consumer = 0;
  consumer_state state = consumer_state::claimed;
};

struct row_entry {
  std::shared_ptr<const row_body> body;
  row_state state = row_state::staged;
  std::vector<consumer_mark> marks;
};

struct field_info {
  std::string name;
  dtype type = dtype::u8;
};

/// Names of a partition, by the small numbers that rows use. Only ever grows.
struct partition_schema {
  std::string name;
  std::vector<field_info> fields;
  std::vector<std::string> tag_names;
  std::vector<std::string> consumers;
};

struct partition_state {
  std::shared_ptr<const partition_schema> schema;
  persistent_map<row_entry> rows;
};

struct segment_entry {
  std::shared_ptr<const segment> memory;
  std::uint64_t live_bytes = 0;
  std::uint64_t live_cells = 0;
  /// All that was ever placed in it, live or not, without the gaps.
  std::uint64_t placed_bytes = 0;
};

struct contents {
  persistent_map<partition_state> partitions;
  persistent_map<segment_entry> segments;
  /// +1 by every call that changes something.
  std::uint64_t sequence = 0;
  std::uint64_t next_row = 1;
  std::uint64_t next_segment = 1;
  std::uint64_t live_bytes = 0;
  std::uint64_t staged_rows = 0;
  std::uint64_t committed_rows = 0;
  std::uint64_t claims = 0;

  /// Gives the extents of a row up. A segment without a live cell leaves the contents.
  void release(const row_body& body);

  /// Aborts if an invariant of the file's head is broken. O(rows).
  void check_invariants() const;
};

/// A row in words.
[[nodiscard]] row_summary summarize(const partition_schema& schema, std::uint64_t id,
                                    const row_entry& row);

} // namespace weir::dataplane
