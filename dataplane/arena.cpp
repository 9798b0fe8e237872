#include "dataplane/arena.hpp"

#include "dataplane/stream_copy.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::dataplane {

namespace {

/// Bytes of each field's run, by field number.
class run_sizes {
public:
  /// What adding the row makes of the total.
  [[nodiscard]] std::uint64_t total_with(const placing_row& row) {
    std::uint64_t total = total_;
    for (const cell& one : row.placed_cells()) {
      std::uint64_t& run = at(one.field);
      total += align_tensor(run + one.bytes) - align_tensor(run);
      // A field is in a row once, so that the sum is exact.
    }
    return total;
  }
  void add(const placing_row& row) {
    total_ = total_with(row);
    for (const cell& one : row.placed_cells())
      at(one.field) += one.bytes;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Turns sizes into positions: the runs stand one behind the other from `first` on.
  void lay_out(std::uint64_t first) {
    for (std::uint64_t& run : bytes_)
      first += align_tensor(std::exchange(run, first));
  }
  [[nodiscard]] std::uint64_t& at(std::uint16_t field) {
    if (field >= bytes_.size()) bytes_.resize(field + std::size_t{1});
    return bytes_[field];
  }

private:
  std::vector<std::uint64_t> bytes_;
  std::uint64_t total_ = 0;
};

std::uint64_t footprint(const placing_row& row) {
  return run_sizes().total_with(row);
}

/// How many of the rows, from the first on, fit behind what the target has.
std::size_t fitting(std::span<const placing_row> rows, const arena::target& into) {
  const std::uint64_t room = into.memory->capacity() - into.used;
  std::uint64_t cells = into.cells;
  run_sizes runs;
  for (std::size_t count = 0; count < rows.size(); ++count) {
    cells += rows[count].placed_cells().size();
    if (runs.total_with(rows[count]) > room || cells > segment_cells_max) return count;
    runs.add(rows[count]);
  }
  return rows.size();
}

/// @pre the rows fit
void fill(std::span<placing_row> rows, arena::target& into) {
  run_sizes runs;
  for (const placing_row& row : rows)
    runs.add(row);
  const stream_copy payload(static_cast<std::size_t>(runs.total()));
  runs.lay_out(into.used);
  for (placing_row& row : rows) {
    std::size_t at = 0;
    for (cell& one : row.placed_cells()) {
      const std::byte* source = row.sources[at++];
      if (one.bytes == 0) continue;
      one.segment = into.id;
      one.offset = std::exchange(runs.at(one.field), runs.at(one.field) + one.bytes);
      payload.copy(into.memory->writable(one.offset, one.bytes).data(), {source, one.bytes});
      into.used = std::max(into.used, align_tensor(one.offset + one.bytes));
      into.cells += 1;
      into.added_cells += 1;
      into.added_bytes += one.bytes;
    }
  }
}

} // namespace

result<void> arena::open_target(placement& plan, std::uint64_t needed) const {
  const bool ordinary = needed <= pool_.segment_bytes();
  target opened{.id = plan.next_segment,
                .memory = ordinary ? pool_.allocate() : segment::allocate(needed),
                .used = 0,
                .cells = 0,
                .added_bytes = 0,
                .added_cells = 0};
  if (!opened.memory)
    return failure(errc::exhausted, "the system has no memory for a segment of " +
                                        std::to_string(std::max(needed, pool_.segment_bytes())) +
                                        " bytes: lower the capacity of the data plane");
  ++plan.next_segment;
  plan.targets.push_back(std::move(opened));
  return {};
}

result<arena::placement> arena::place(const contents& all, std::span<placing_row> rows) const {
  placement plan;
  plan.next_segment = all.next_segment;
  if (open_.memory) {
    plan.targets.push_back(open_);
    plan.open = 0;
  }
  // Each round places rows, or opens a segment that takes at least one.
  while (!rows.empty()) {
    const std::size_t count =
        plan.open == placement::npos ? 0 : fitting(rows, plan.targets[plan.open]);
    if (count > 0) {
      fill(rows.first(count), plan.targets[plan.open]);
      rows = rows.subspan(count);
      continue;
    }
    const std::uint64_t needed = footprint(rows.front());
    if (auto opened = open_target(plan, needed); !opened) return failure(std::move(opened.error()));
    if (needed > pool_.segment_bytes()) {
      fill(rows.first(1), plan.targets.back());
      rows = rows.subspan(1);
    } else {
      plan.open = plan.targets.size() - 1;
    }
  }
  return plan;
}

void arena::adopt(contents& all, placement plan) {
  ensure(plan.next_segment >= all.next_segment, "a placement is adopted at once");
  all.next_segment = plan.next_segment;
  for (const target& one : plan.targets) {
    all.live_bytes += one.added_bytes;
    if (one.added_cells > 0) one.memory->touch(all.sequence);
    if (segment_entry* entry = all.segments.mutate(one.id)) {
      entry->live_bytes += one.added_bytes;
      entry->live_cells += one.added_cells;
      entry->placed_bytes += one.added_bytes;
    } else if (one.added_cells > 0) {
      all.segments.insert(one.id, {one.memory, one.added_bytes, one.added_cells, one.added_bytes});
    }
  }
  open_ = {};
  if (plan.open == placement::npos || !all.segments.contains(plan.targets[plan.open].id)) return;
  open_ = std::move(plan.targets[plan.open]);
  open_.added_bytes = 0;
  open_.added_cells = 0;
}

void arena::release(contents& all, const row_body& body) {
  all.release(body);
  if (open_.memory != nullptr && all.segments.find(open_.id) == nullptr) open_ = {};
}

} // namespace weir::dataplane
