/// Moving live values out of mostly dead segments.
#include "dataplane/store.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

/// Rows that one step looks at: about a millisecond.
constexpr std::size_t rows_per_step = 16'384;

/// Bytes of a row's cells that lie in one of the segments.
std::uint64_t bytes_within(const row_body& body, const std::unordered_set<std::uint64_t>& victims) {
  std::uint64_t bytes = 0;
  for (const cell& one : body.cells)
    if (one.bytes > 0 && victims.contains(one.segment)) bytes += one.bytes;
  return bytes;
}

/// The cells of a row that lie in one of the segments, on their way to another.
placing_row cells_within(const contents& all, const row_body& body,
                         const std::unordered_set<std::uint64_t>& victims) {
  placing_row moving;
  for (const cell& one : body.cells) {
    if (one.bytes == 0 || !victims.contains(one.segment)) continue;
    const segment& memory = *all.segments.find(one.segment)->memory;
    moving.body.cells.push_back(one);
    moving.sources.push_back(memory.bytes(one.offset, one.bytes).data());
  }
  return moving;
}

/// The row with some of its cells in another place.
std::shared_ptr<const row_body> moved(const row_body& body, std::span<const cell> cells) {
  auto changed = std::make_shared<row_body>(body);
  for (const cell& one : cells)
    *std::find_if(changed->cells.begin(), changed->cells.end(),
                  [&one](const cell& it) { return it.field == one.field; }) = one;
  return changed;
}

} // namespace

std::unordered_set<std::uint64_t> compaction_plan(std::span<const segment_standing> segments,
                                                  std::uint64_t open) {
  std::unordered_set<std::uint64_t> victims;
  for (const segment_standing& one : segments)
    if (one.id != open && mostly_dead(one.live_bytes, one.placed_bytes)) victims.insert(one.id);
  return victims;
}

result<compaction_step> store::compact(std::uint64_t step_bytes) {
  if (!sweep_) {
    std::vector<segment_standing> standings;
    contents_.segments.for_each([&standings](std::uint64_t id, const segment_entry& entry) {
      standings.push_back({id, entry.live_bytes, entry.placed_bytes});
    });
    auto victims = compaction_plan(standings, arena_.open_segment());
    if (victims.empty()) return compaction_step{};
    sweep_ = compaction_sweep{.victims = std::move(victims), .partition = 0, .next_row = 0};
  }
  const compaction_sweep before = *sweep_;
  const std::vector<row_id> rows = next_rows(step_bytes);
  const auto bytes = move_rows(before.partition, rows);
  if (!bytes) {
    sweep_ = before;
    return failure(bytes.error());
  }
  moved_bytes_ += *bytes;
  if (sweep_->partition >= contents_.partitions.size()) sweep_.reset();
  return compaction_step{.moved_bytes = *bytes, .finished = !sweep_};
}

std::vector<row_id> store::next_rows(std::uint64_t step_bytes) {
  std::vector<row_id> rows;
  std::size_t looked_at = 0;
  std::uint64_t bytes = 0;
  bool more = false;
  partition_at(sweep_->partition)
      .rows.for_each_from(sweep_->next_row, [&](std::uint64_t id, const row_entry& row) {
        const std::uint64_t own = bytes_within(*row.body, sweep_->victims);
        more = looked_at == rows_per_step || (!rows.empty() && bytes + own > step_bytes);
        if (more) return false;
        sweep_->next_row = id + 1;
        ++looked_at;
        bytes += own;
        if (own > 0) rows.emplace_back(id);
        return true;
      });
  if (!more) {
    ++sweep_->partition;
    sweep_->next_row = 0;
  }
  return rows;
}

result<std::uint64_t> store::move_rows(std::uint64_t partition, row_list rows) {
  if (rows.empty()) return 0;
  const partition_state& found = partition_at(partition);
  std::vector<placing_row> moving;
  std::vector<row_body> left;
  for (const row_id row : rows) {
    moving.push_back(cells_within(contents_, *found.rows.find(row.value)->body, sweep_->victims));
    left.push_back(moving.back().body);
  }
  auto plan = arena_.place(contents_, moving);
  if (!plan) return failure(std::move(plan.error()));

  // Nothing below can fail.
  const std::uint64_t before = contents_.live_bytes;
  arena_.adopt(contents_, std::move(*plan));
  const std::uint64_t bytes = contents_.live_bytes - before;
  partition_state& changed = change_partition(partition);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    row_entry& entry = *changed.rows.mutate(rows[at].value);
    entry.body = moved(*entry.body, moving[at].body.cells);
    arena_.release(contents_, left[at]);
  }
  ensure(contents_.live_bytes == before, "a move keeps every live byte");
  return bytes;
}

} // namespace weir::dataplane
