#include "dataplane/contents.hpp"

#include "messages/error.hpp"

#include <unordered_map>
#include <utility>

namespace weir::dataplane {

namespace {

struct totals {
  std::unordered_map<std::uint64_t, segment_entry> segments;
  std::uint64_t live_bytes = 0;
  std::uint64_t staged = 0;
  std::uint64_t committed = 0;
  std::uint64_t claims = 0;
};

void check_cells(const contents& all, const partition_schema& schema, const row_body& body,
                 totals& sums) {
  for (const cell& one : body.cells) {
    ensure(one.field < schema.fields.size(), "a cell is of a field of its partition");
    const auto expected = cell_bytes(schema.fields[one.field].type, body.shape_of(one));
    ensure(expected == one.bytes, "a cell has the bytes of its shape");
    if (one.bytes == 0) continue;
    const segment_entry* entry = all.segments.find(one.segment);
    ensure(entry != nullptr, "the segment of a live cell is in the store");
    ensure(one.offset <= entry->memory->capacity() &&
               one.bytes <= entry->memory->capacity() - one.offset,
           "a cell lies within its segment");
    ensure(one.offset % element_bytes(schema.fields[one.field].type) == 0, "a cell is aligned");
    sums.live_bytes += one.bytes;
    sums.segments[one.segment].live_bytes += one.bytes;
    sums.segments[one.segment].live_cells += 1;
  }
}

void check_row(const contents& all, const partition_schema& schema, std::uint64_t id,
               const row_entry& row, totals& sums) {
  ensure(id < all.next_row, "a row's id was handed out");
  (row.state == row_state::staged ? sums.staged : sums.committed) += 1;
  ensure(row.state == row_state::committed || row.marks.empty(), "a staged row has no consumer");
  for (const consumer_mark& mark : row.marks)
    sums.claims += mark.state == consumer_state::claimed ? 1 : 0;
  check_cells(all, schema, *row.body, sums);
}

void give_back(contents& all, std::uint64_t segment_id, std::uint64_t bytes, std::uint64_t cells) {
  segment_entry* entry = all.segments.mutate(segment_id);
  ensure(entry != nullptr, "the segment of a live cell is in the store");
  ensure(entry->live_bytes >= bytes && entry->live_cells >= cells, "live cells are counted");
  ensure(all.live_bytes >= bytes, "live bytes are counted");
  all.live_bytes -= bytes;
  entry->live_bytes -= bytes;
  entry->live_cells -= cells;
  if (entry->live_cells == 0) all.segments.erase(segment_id);
}

} // namespace

void contents::release(const row_body& body) {
  std::uint64_t segment_id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cells = 0;
  // Cells of a row mostly share a segment: one look-up for all of them.
  for (const cell& one : body.cells) {
    if (one.bytes == 0) continue;
    if (one.segment != segment_id && cells > 0)
      give_back(*this, segment_id, std::exchange(bytes, 0), std::exchange(cells, 0));
    segment_id = one.segment;
    bytes += one.bytes;
    ++cells;
  }
  if (cells > 0) give_back(*this, segment_id, bytes, cells);
}

void contents::check_invariants() const {
  totals sums;
  partitions.check_invariants();
  partitions.for_each([&](std::uint64_t, const partition_state& partition) {
    partition.rows.check_invariants();
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      check_row(*this, *partition.schema, id, row, sums);
    });
  });
  ensure(sums.live_bytes == live_bytes, "live bytes are those of the cells");
  ensure(sums.staged == staged_rows && sums.committed == committed_rows, "rows are counted");
  ensure(sums.claims == claims, "claims are counted");
  segments.check_invariants();
  ensure(segments.size() == sums.segments.size(), "no segment without a live cell is kept");
  segments.for_each([&](std::uint64_t id, const segment_entry& entry) {
    ensure(id < next_segment, "a segment's id was handed out");
    ensure(entry.live_bytes == sums.segments[id].live_bytes, "a segment's live bytes are counted");
    ensure(entry.live_cells == sums.segments[id].live_cells, "a segment's live cells are counted");
    ensure(entry.live_bytes <= entry.placed_bytes, "what lives was placed");
  });
}

row_summary summarize(const partition_schema& schema, std::uint64_t id, const row_entry& row) {
  row_summary summary{.id = row_id(id),
                      .key = row.body->key,
                      .state = row.state,
                      .tags = {},
                      .fields = {},
                      .consumers = {}};
  for (const row_tag& one : row.body->tags)
    summary.tags.push_back({schema.tag_names[one.name], one.value});
  for (const cell& one : row.body->cells) {
    const auto shape = row.body->shape_of(one);
    const field_info& field = schema.fields[one.field];
    summary.fields.push_back({field.name, field.type, {shape.begin(), shape.end()}});
  }
  for (const consumer_mark& mark : row.marks)
    summary.consumers.emplace_back(schema.consumers[mark.consumer], mark.state);
  return summary;
}

} // namespace weir::dataplane
