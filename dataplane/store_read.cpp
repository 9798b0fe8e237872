/// The verbs of the store that change nothing.
#include "dataplane/store.hpp"
#include "dataplane/stream_copy.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::size_t absent = static_cast<std::size_t>(-1);

std::string row_text(std::string_view partition, row_id row) {
  return "partition \"" + std::string(partition) + "\", row " + std::to_string(row.value);
}

std::size_t field_number(const partition_schema& schema, std::string_view name) {
  for (std::size_t at = 0; at < schema.fields.size(); ++at)
    if (schema.fields[at].name == name) return at;
  return absent;
}

template <class Names>
std::size_t position_in(const Names& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? absent : static_cast<std::size_t>(at - names.begin());
}

/// The cell of a field in each row, or the position of the first row that has none.
std::size_t collect_cells(std::span<const row_body* const> rows, std::uint16_t field,
                          std::vector<const cell*>& cells) {
  cells.clear();
  std::size_t hint = 0;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto& own = rows[at]->cells;
    // Rows that were written together have their fields in the same order.
    const cell* found =
        hint < own.size() && own[hint].field == field ? &own[hint] : rows[at]->find(field);
    if (found == nullptr) return at;
    hint = static_cast<std::size_t>(found - own.data());
    cells.push_back(found);
  }
  return absent;
}

void describe_rows(std::span<const row_body* const> rows, std::span<const cell* const> cells,
                   column& target) {
  target.offsets.assign(1, 0);
  target.extents.clear();
  target.extent_offsets.assign(1, 0);
  const std::uint64_t element = element_bytes(target.type);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto shape = rows[at]->shape_of(*cells[at]);
    target.offsets.push_back(target.offsets.back() + cells[at]->bytes / element);
    target.extents.insert(target.extents.end(), shape.begin(), shape.end());
    target.extent_offsets.push_back(static_cast<std::uint32_t>(target.extents.size()));
  }
}

/// The first cell with bytes if all of them are one extent, else null.
const cell* single_extent(std::span<const cell* const> cells) {
  const cell* first = nullptr;
  std::uint64_t next = 0;
  for (const cell* one : cells) {
    if (one->bytes == 0) continue;
    if (first == nullptr)
      first = one;
    else if (one->segment != first->segment || one->offset != next)
      return nullptr;
    next = one->offset + one->bytes;
  }
  return first;
}

/// Copies the cells into the column's own buffer, used again if it is large enough and nobody else
/// holds it.
result<void> gather(const contents& all, std::span<const cell* const> cells, std::uint64_t bytes,
                    column& target) {
  const bool own = target.copied && target.copied.use_count() == 1;
  // Pairs with the release of a holder in another thread, whose reads happen before our writes.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!own || target.copied->capacity() < bytes) {
    target.copied = segment::allocate(bytes);
    if (!target.copied)
      return failure(errc::exhausted, "field \"" + target.field + "\": no memory for a buffer of " +
                                          std::to_string(bytes) + " bytes");
  }
  std::byte* at = target.copied->writable(0, bytes).data();
  const segment* from = nullptr;
  std::uint64_t from_id = 0;
  const stream_copy payload(static_cast<std::size_t>(bytes));
  for (const cell* one : cells) {
    if (one->bytes == 0) continue;
    if (one->segment != from_id) {
      from_id = one->segment;
      from = all.segments.find(from_id)->memory.get();
      from->touch(all.sequence);
    }
    payload.copy(at, from->bytes(one->offset, one->bytes));
    at += one->bytes;
  }
  target.bytes = target.copied->bytes(0, bytes);
  return {};
}

result<void> fill_column(const contents& all, std::span<const row_body* const> rows,
                         std::span<const cell* const> cells, column& target) {
  describe_rows(rows, cells, target);
  target.pin.reset();
  target.bytes = {};
  const std::uint64_t bytes = target.offsets.back() * element_bytes(target.type);
  target.zero_copy = true;
  if (bytes == 0) return {};
  if (const cell* first = single_extent(cells)) {
    target.pin = all.segments.find(first->segment)->memory;
    target.pin->touch(all.sequence);
    target.bytes = target.pin->bytes(first->offset, bytes);
    return {};
  }
  target.zero_copy = false;
  return gather(all, cells, bytes, target);
}

/// Conditions with their names resolved; `impossible` if a name is unknown.
struct resolved_query {
  std::vector<std::pair<std::uint16_t, const tag_range*>> tags;
  std::vector<std::uint16_t> produced;
  std::size_t consumer = absent;
  bool impossible = false;
};

resolved_query resolve(const partition_schema& schema, const row_query& conditions) {
  resolved_query resolved;
  for (const tag_range& range : conditions.tags) {
    const std::size_t at = position_in(schema.tag_names, range.name);
    resolved.impossible = resolved.impossible || at == absent;
    resolved.tags.emplace_back(static_cast<std::uint16_t>(at), &range);
  }
  for (const std::string& name : conditions.produced) {
    const std::size_t at = field_number(schema, name);
    resolved.impossible = resolved.impossible || at == absent;
    resolved.produced.push_back(static_cast<std::uint16_t>(at));
  }
  resolved.consumer = position_in(schema.consumers, conditions.available_to);
  return resolved;
}

const tag_value* find_tag(const row_body& body, std::size_t name) {
  for (const row_tag& one : body.tags)
    if (one.name == name) return &one.value;
  return nullptr;
}

bool within(const row_body& body, std::uint16_t name, const tag_range& range) {
  const tag_value* value = find_tag(body, name);
  return value != nullptr && value->index() == range.lowest.index() &&
         value->index() == range.highest.index() && range.lowest <= *value &&
         *value <= range.highest;
}

bool matches(const row_entry& row, const resolved_query& query) {
  if (row.state != row_state::committed) return false;
  for (const consumer_mark& mark : row.marks)
    if (mark.consumer == query.consumer) return false;
  for (const auto& [name, range] : query.tags)
    if (!within(*row.body, name, *range)) return false;
  return std::all_of(query.produced.begin(), query.produced.end(),
                     [&row](std::uint16_t field) { return row.body->find(field) != nullptr; });
}

/// Rows that may match, ascending: one set as it is, several sorted together.
class row_candidates {
public:
  explicit row_candidates(tag_index::found_sets sets) {
    if (sets.size() == 1) {
      single_ = sets.front();
      return;
    }
    for (const row_set* one : sets)
      one->for_each([this](std::uint64_t row) {
        sorted_.push_back(row);
        return true;
      });
    std::sort(sorted_.begin(), sorted_.end());
  }

  template <class Visitor>
  void for_each(Visitor&& visit) const {
    if (single_ != nullptr) return single_->for_each(visit);
    for (const std::uint64_t row : sorted_)
      if (!visit(row)) return;
  }

private:
  const row_set* single_ = nullptr;
  std::vector<std::uint64_t> sorted_;
};

std::size_t rows_in(const tag_index::found_sets& sets) {
  std::size_t rows = 0;
  for (const row_set* one : sets)
    rows += one->size();
  return rows;
}

/// What the most selective tag leaves; nothing if to look at all rows in order is as good.
std::optional<row_candidates> fewest_rows(const tag_index& tags, const resolved_query& query,
                                          std::size_t rows) {
  std::optional<tag_index::found_sets> best;
  for (const auto& [name, range] : query.tags) {
    auto found = tags.find(name, *range, best ? rows_in(*best) : rows);
    if (found) best = std::move(*found);
  }
  if (!best || (best->size() > 1 && rows_in(*best) > rows / 8)) return std::nullopt;
  return row_candidates(std::move(*best));
}

/// Whether every row that the tag leaves matches: the index lists committed rows.
bool settled_by_one_tag(const resolved_query& query) {
  return query.tags.size() == 1 && query.produced.empty() && query.consumer == absent;
}

} // namespace

result<batch> store::get(std::string_view partition, row_list rows,
                         std::span<const std::string> fields, batch recycled) const {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  std::vector<const row_body*> bodies;
  bodies.reserve(rows.size());
  for (const row_id row : rows) {
    const row_entry* entry = found.rows.find(row.value);
    if (entry == nullptr || entry->state != row_state::committed)
      return failure(errc::not_found,
                     row_text(partition, row) +
                         (entry == nullptr ? " does not exist" : " is only staged"));
    bodies.push_back(entry->body.get());
  }
  recycled.rows.assign(rows.begin(), rows.end());
  recycled.columns.resize(fields.size());
  std::vector<const cell*> cells;
  cells.reserve(rows.size());
  for (std::size_t at = 0; at < fields.size(); ++at) {
    const std::size_t field = field_number(*found.schema, fields[at]);
    const std::size_t missing =
        field == absent ? 0 : collect_cells(bodies, static_cast<std::uint16_t>(field), cells);
    if (field == absent || missing != absent)
      return failure(errc::not_found, (rows.empty() ? "partition \"" + std::string(partition) + "\""
                                                    : row_text(partition, rows[missing])) +
                                          ": field \"" + fields[at] + "\" was not produced");
    recycled.columns[at].field = fields[at];
    recycled.columns[at].type = found.schema->fields[field].type;
    if (auto filled = fill_column(contents_, bodies, cells, recycled.columns[at]); !filled)
      return failure(std::move(filled.error()));
  }
  return recycled;
}

result<std::vector<row_id>> store::query(std::string_view partition,
                                         const row_query& conditions) const {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  const resolved_query resolved = resolve(*found.schema, conditions);
  std::vector<row_id> ids;
  if (resolved.impossible || conditions.rows_max == 0) return ids;
  const auto candidates = fewest_rows(finders_[*number].tags, resolved, found.rows.size());
  if (!candidates) {
    found.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      if (matches(row, resolved)) ids.emplace_back(id);
      return ids.size() < conditions.rows_max;
    });
    return ids;
  }
  const bool settled = settled_by_one_tag(resolved);
  candidates->for_each([&](std::uint64_t id) {
    if (settled || matches(*found.rows.find(id), resolved)) ids.emplace_back(id);
    return ids.size() < conditions.rows_max;
  });
  return ids;
}

result<std::vector<std::optional<tag_value>>>
store::tag_values(std::string_view partition, row_list rows, std::string_view name) const {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  const std::size_t position = position_in(found.schema->tag_names, name);
  std::vector<std::optional<tag_value>> values;
  values.reserve(rows.size());
  for (const row_id row : rows) {
    const row_entry* entry = found.rows.find(row.value);
    if (entry == nullptr)
      return failure(errc::not_found, "partition \"" + std::string(partition) + "\", row " +
                                          std::to_string(row.value) + " does not exist");
    const tag_value* value = find_tag(*entry->body, position);
    values.push_back(value != nullptr ? std::optional(*value) : std::nullopt);
  }
  return values;
}

std::optional<row_id> store::find_key(std::string_view partition, std::string_view key) const {
  const auto number = partition_numbers_.find(partition);
  if (number == partition_numbers_.end()) return std::nullopt;
  const auto& keys = finders_[number->second].keys;
  const auto at = keys.find(std::string(key));
  return at == keys.end() ? std::nullopt : std::optional(row_id(at->second));
}

result<row_summary> store::describe(std::string_view partition, row_id row) const {
  const auto number = check_rows(partition, std::span(&row, 1), std::nullopt);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  return summarize(*found.schema, row.value, *found.rows.find(row.value));
}

store_stat store::stat() const {
  store_stat stat{.sequence = contents_.sequence,
                  .partitions = contents_.partitions.size(),
                  .staged_rows = contents_.staged_rows,
                  .committed_rows = contents_.committed_rows,
                  .claims = contents_.claims,
                  .live_bytes = contents_.live_bytes,
                  .segments = contents_.segments.size(),
                  .segment_bytes = 0,
                  .spilled_segments = 0,
                  .spilled_bytes = 0,
                  .spills_failed = spills_failed_,
                  .mostly_dead_segments = 0,
                  .idle_bytes = arena_.idle_bytes(),
                  .stages_refused = stages_refused_,
                  .stages_above_mark = stages_above_mark_,
                  .moved_bytes = moved_bytes_};
  const std::uint64_t open = arena_.open_segment();
  contents_.segments.for_each([&stat, open](std::uint64_t id, const segment_entry& entry) {
    const bool spilled = entry.memory->on_disk();
    stat.spilled_segments += spilled ? 1 : 0;
    (spilled ? stat.spilled_bytes : stat.segment_bytes) += entry.memory->capacity();
    if (id != open && mostly_dead(entry.live_bytes, entry.placed_bytes))
      ++stat.mostly_dead_segments;
  });
  return stat;
}

namespace {

/// Checks that the row is found by each of its tags, and returns how many there are.
std::size_t check_tags(const tag_index& tags, std::uint64_t row, const row_body& body) {
  std::size_t count = 0;
  for (const row_tag& one : body.tags) {
    const auto sets = tags.find(one.name, {.name = {}, .lowest = one.value, .highest = one.value},
                                std::numeric_limits<std::size_t>::max());
    if (sets->empty()) continue; // Not a number.
    ensure(sets->size() == 1 && sets->front()->contains(row), "a row is found by its tags");
    ++count;
  }
  return count;
}

} // namespace

void store::check_invariants() const {
  contents_.check_invariants();
  ensure(partition_numbers_.size() == contents_.partitions.size(), "every partition has its name");
  std::size_t keyed = 0;
  std::size_t listed = 0;
  std::size_t tagged = 0;
  for (const row_finder& finder : finders_) {
    listed += finder.keys.size();
    tagged += finder.tags.entries();
  }
  contents_.partitions.for_each([&](std::uint64_t number, const partition_state& partition) {
    const auto named = partition_numbers_.find(partition.schema->name);
    ensure(named != partition_numbers_.end() && named->second == number,
           "a partition is found by its name");
    const row_finder& finder = finders_[number];
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      if (row.state == row_state::committed) tagged -= check_tags(finder.tags, id, *row.body);
      if (row.body->key.empty()) return;
      const auto at = finder.keys.find(row.body->key);
      ensure(at != finder.keys.end() && at->second == id, "a row is found by its key");
      ++keyed;
    });
  });
  ensure(keyed == listed, "no key outlives its row");
  ensure(tagged == 0, "no tag outlives its row");
}

} // namespace weir::dataplane
