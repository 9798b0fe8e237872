#include "dataplane/store.hpp"

#include "dataplane/schema_editor.hpp"
#include "dataplane/segment_file.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

std::string partition_text(std::string_view partition) {
  return "partition \"" + std::string(partition) + "\"";
}

std::string row_text(std::string_view partition, row_id row) {
  return partition_text(partition) + ", row " + std::to_string(row.value);
}

/// A row of a call that has no id yet.
std::string input_text(std::string_view partition, std::size_t position, const std::string& key) {
  std::string text = partition_text(partition) + ", new row " + std::to_string(position);
  return key.empty() ? text : text + " (\"" + key + "\")";
}

std::string_view text_of(row_state state) {
  return state == row_state::staged ? "staged" : "committed";
}

std::string_view text_of(std::optional<consumer_state> state) {
  if (!state) return "available to";
  return *state == consumer_state::claimed ? "claimed by" : "consumed by";
}

result<void> set_tags(row_body& body, std::span<const tag> tags, schema_editor& editor,
                      std::string_view where) {
  for (const tag& one : tags) {
    const auto* text = std::get_if<std::string>(&one.value);
    if (text != nullptr && text->size() > tag_text_bytes_max)
      return failure(errc::invalid_argument, std::string(where) + ": tag \"" + one.name +
                                                 "\" has more than " +
                                                 std::to_string(tag_text_bytes_max) + " bytes");
    const auto name = editor.tag_name(one.name, body.tags.size(), where);
    if (!name) return failure(name.error());
    const auto present = std::find_if(body.tags.begin(), body.tags.end(),
                                      [&name](const row_tag& it) { return it.name == *name; });
    if (present == body.tags.end())
      body.tags.push_back({*name, one.value});
    else
      present->value = one.value;
  }
  return {};
}

result<void> add_cell(placing_row& row, const cell_input& input, schema_editor& editor,
                      std::string_view where) {
  const auto named = [&] { return std::string(where) + ": field \"" + input.field + "\""; };
  if (!dtype_from(static_cast<std::uint8_t>(input.type), segment_format_version))
    return failure(errc::invalid_argument, named() + " has no dtype that exists");
  const auto bytes = cell_bytes(input.type, input.shape);
  if (!bytes)
    return failure(errc::invalid_argument, named() + " has more than " + std::to_string(rank_max) +
                                               " dimensions or " + std::to_string(cell_bytes_max) +
                                               " bytes");
  if (*bytes != input.bytes.size())
    return failure(errc::invalid_argument, named() + " has " + std::to_string(input.bytes.size()) +
                                               " bytes, its shape makes " + std::to_string(*bytes));
  if (is_opaque(input.type) && input.shape.size() != 1)
    return failure(errc::invalid_argument,
                   named() + " has " + std::to_string(input.shape.size()) + " dimensions; " +
                       std::string(to_string(input.type)) + " has one, its length");
  if (input.type == dtype::utf8 && !is_utf8(input.bytes))
    return failure(errc::invalid_argument,
                   named() + " is not UTF-8; give it the dtype bytes, or encode it");
  const auto field = editor.field(input.field, input.type, row.body.cells.size(), where);
  if (!field) return failure(field.error());
  if (row.body.find(*field) != nullptr)
    return failure(errc::already_exists,
                   named() + " has a value already; values are never replaced");
  cell one;
  one.field = *field;
  one.bytes = *bytes;
  one.rank = static_cast<std::uint8_t>(input.shape.size());
  one.first_extent = static_cast<std::uint32_t>(row.body.extents.size());
  row.body.cells.push_back(one);
  row.body.extents.insert(row.body.extents.end(), input.shape.begin(), input.shape.end());
  row.sources.push_back(input.bytes.data());
  return {};
}

result<void> fill_row(placing_row& row, std::span<const tag> tags,
                      std::span<const cell_input> cells, schema_editor& editor,
                      std::string_view where) {
  if (auto set = set_tags(row.body, tags, editor, where); !set) return set;
  for (const cell_input& input : cells)
    if (auto added = add_cell(row, input, editor, where); !added) return added;
  return {};
}

std::uint64_t bytes_of(std::span<const placing_row> rows) {
  std::uint64_t bytes = 0;
  for (const placing_row& row : rows)
    for (const cell& one : row.placed_cells())
      bytes += one.bytes;
  return bytes;
}

consumer_mark* mark_of(std::vector<consumer_mark>& marks, std::uint16_t consumer) {
  const auto at = std::find_if(marks.begin(), marks.end(), [consumer](const consumer_mark& mark) {
    return mark.consumer == consumer;
  });
  return at == marks.end() ? nullptr : &*at;
}

std::optional<consumer_state> state_for(const row_entry& row, std::uint16_t consumer) {
  for (const consumer_mark& mark : row.marks)
    if (mark.consumer == consumer) return mark.state;
  return std::nullopt;
}

} // namespace

store::store(store_options options)
    : options_(std::move(options)), arena_(options_.segment_bytes, options_.idle_bytes) {
  ensure(options_.segment_bytes > 0, "segments have room");
  ensure(options_.high_water_bytes <= options_.capacity_bytes,
         "the high-water mark is within the capacity");
}

// ---- Look-up -----------------------------------------------------------------------------------

result<std::uint64_t> store::number_of(std::string_view partition) const {
  const auto at = partition_numbers_.find(partition);
  if (at == partition_numbers_.end())
    return failure(errc::not_found,
                   partition_text(partition) + " does not exist; nothing was staged in it yet");
  return at->second;
}

const partition_state& store::partition_at(std::uint64_t number) const {
  const partition_state* found = contents_.partitions.find(number);
  ensure(found != nullptr, "a partition with a number is in the store");
  return *found;
}

partition_state& store::change_partition(std::uint64_t number) {
  partition_state* found = contents_.partitions.mutate(number);
  ensure(found != nullptr, "a partition with a number is in the store");
  return *found;
}

result<std::uint64_t> store::check_rows(std::string_view partition, row_list rows,
                                        std::optional<row_state> state) const {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  for (const row_id row : rows) {
    const row_entry* entry = found.rows.find(row.value);
    if (entry == nullptr)
      return failure(errc::not_found, row_text(partition, row) +
                                          " does not exist: it was never staged, or was cleared");
    if (state && entry->state != *state)
      return failure(errc::conflict, row_text(partition, row) + " is " +
                                         std::string(text_of(entry->state)) + ", not " +
                                         std::string(text_of(*state)));
  }
  std::vector<row_id> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return failure(errc::invalid_argument, row_text(partition, *twice) + " is named twice");
  return *number;
}

// ---- Writing -----------------------------------------------------------------------------------

result<std::vector<row_id>> store::stage(std::string_view partition,
                                         std::span<const row_input> rows, admission kind) {
  const auto known = partition_numbers_.find(partition);
  const bool fresh = known == partition_numbers_.end();
  if (fresh && (!name_allowed(partition) || contents_.partitions.size() >= partitions_max))
    return failure(errc::invalid_argument,
                   partition_text(partition) + " cannot be made: names have 1 to " +
                       std::to_string(name_bytes_max) + " printable bytes, and there are at most " +
                       std::to_string(partitions_max) + " partitions");
  auto empty = std::make_shared<partition_schema>();
  empty->name = partition;
  schema_editor editor(fresh ? std::move(empty) : partition_at(known->second).schema);

  std::vector<placing_row> placing(rows.size());
  std::unordered_map<std::string_view, std::size_t> new_keys;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const row_input& input = rows[at];
    const std::string where = input_text(partition, at, input.key);
    if (input.key.size() > key_bytes_max)
      return failure(errc::invalid_argument,
                     where + ": the key has more than " + std::to_string(key_bytes_max) + " bytes");
    if (!input.key.empty() &&
        (find_key(partition, input.key) || !new_keys.emplace(input.key, at).second))
      return failure(errc::already_exists, where + ": the key is that of another row");
    placing[at].body.key = input.key;
    if (auto filled = fill_row(placing[at], input.tags, input.cells, editor, where); !filled)
      return failure(std::move(filled.error()));
  }
  auto room = check_room(partition, bytes_of(placing), options_.high_water_bytes, kind);
  if (!room) return failure(std::move(room.error()));
  auto plan = arena_.place(contents_, placing);
  if (!plan) return failure(std::move(plan.error()));

  // Nothing below can fail.
  arena_.adopt(contents_, std::move(*plan));
  const std::uint64_t number = fresh ? adopt_partition(partition) : known->second;
  change_partition(number).schema = editor.finish();
  return adopt_rows(number, placing);
}

result<void> store::check_room(std::string_view partition, std::uint64_t bytes, std::uint64_t mark,
                               admission kind) {
  if (bytes <= mark && contents_.live_bytes <= mark - bytes) return {};
  if (bytes <= mark && spill_down_to(mark - bytes)) return {};
  if (kind == admission::priority) {
    ++stages_above_mark_;
    return {};
  }
  ++stages_refused_;
  return failure(errc::exhausted, partition_text(partition) + ": " + std::to_string(bytes) +
                                      " bytes more than the " +
                                      std::to_string(contents_.live_bytes) +
                                      " live ones would pass the mark of " + std::to_string(mark) +
                                      "; wait until rows are cleared");
}

std::uint64_t store::adopt_partition(std::string_view name) {
  const std::uint64_t number = contents_.partitions.size();
  contents_.partitions.insert(number, {});
  partition_numbers_.emplace(name, number);
  finders_.emplace_back();
  ensure(finders_.size() == number + 1, "partitions are numbered without a gap");
  return number;
}

std::vector<row_id> store::adopt_rows(std::uint64_t number, std::vector<placing_row>& rows) {
  partition_state& partition = change_partition(number);
  std::vector<row_id> ids;
  ids.reserve(rows.size());
  for (placing_row& row : rows) {
    const row_id id(contents_.next_row++);
    if (!row.body.key.empty()) finders_[number].keys.emplace(row.body.key, id.value);
    auto body = std::make_shared<const row_body>(std::move(row.body));
    partition.rows.insert(id.value, {std::move(body), row_state::staged, {}});
    ids.push_back(id);
  }
  contents_.staged_rows += ids.size();
  ++contents_.sequence;
  return ids;
}

result<void> store::commit(std::string_view partition, row_list rows) {
  const auto number = check_rows(partition, rows, row_state::staged);
  if (!number) return failure(number.error());
  partition_state& changed = change_partition(*number);
  for (const row_id row : rows) {
    row_entry& entry = *changed.rows.mutate(row.value);
    entry.state = row_state::committed;
    finders_[*number].tags.insert(row.value, entry.body->tags);
  }
  contents_.staged_rows -= rows.size();
  contents_.committed_rows += rows.size();
  ++contents_.sequence;
  return {};
}

result<std::vector<row_id>> store::put(std::string_view partition, std::span<const row_input> rows,
                                       admission kind) {
  auto ids = stage(partition, rows, kind);
  if (ids) {
    const auto committed = commit(partition, *ids);
    ensure(committed.has_value(), "rows that were just staged can be committed");
  }
  return ids;
}

result<void> store::patch(std::string_view partition, std::span<const row_patch> patches) {
  std::vector<row_id> rows;
  for (const row_patch& one : patches)
    rows.push_back(one.row);
  const auto number = check_rows(partition, rows, std::nullopt);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  schema_editor editor(found.schema);
  std::vector<placing_row> placing(patches.size());
  for (std::size_t at = 0; at < patches.size(); ++at) {
    placing[at].body = *found.rows.find(patches[at].row.value)->body;
    placing[at].first_cell = placing[at].body.cells.size();
    auto filled = fill_row(placing[at], patches[at].tags, patches[at].cells, editor,
                           row_text(partition, patches[at].row));
    if (!filled) return filled;
  }
  auto room =
      check_room(partition, bytes_of(placing), options_.capacity_bytes, admission::ordinary);
  if (!room) return room;
  auto plan = arena_.place(contents_, placing);
  if (!plan) return failure(std::move(plan.error()));

  // Nothing below can fail.
  arena_.adopt(contents_, std::move(*plan));
  change_partition(*number).schema = editor.finish();
  adopt_patches(*number, patches, placing);
  return {};
}

void store::adopt_patches(std::uint64_t number, std::span<const row_patch> patches,
                          std::vector<placing_row>& rows) {
  partition_state& partition = change_partition(number);
  tag_index& tags = finders_[number].tags;
  for (std::size_t at = 0; at < patches.size(); ++at) {
    const std::uint64_t row = patches[at].row.value;
    row_entry& entry = *partition.rows.mutate(row);
    const bool retagged = entry.state == row_state::committed && !patches[at].tags.empty();
    if (retagged) tags.erase(row, entry.body->tags);
    entry.body = std::make_shared<const row_body>(std::move(rows[at].body));
    if (retagged) tags.insert(row, entry.body->tags);
  }
  ++contents_.sequence;
}

result<void> store::drop_staged(std::string_view partition, row_list rows) {
  const auto number = check_rows(partition, rows, row_state::staged);
  if (!number) return failure(number.error());
  remove_rows(*number, rows);
  contents_.staged_rows -= rows.size();
  return {};
}

result<void> store::clear(std::string_view partition, row_list rows) {
  const auto number = check_rows(partition, rows, row_state::committed);
  if (!number) return failure(number.error());
  remove_rows(*number, rows);
  contents_.committed_rows -= rows.size();
  return {};
}

void store::remove_rows(std::uint64_t number, row_list rows) {
  partition_state& partition = change_partition(number);
  for (const row_id row : rows) {
    const row_entry entry = *partition.rows.find(row.value);
    arena_.release(contents_, *entry.body);
    for (const consumer_mark& mark : entry.marks)
      contents_.claims -= mark.state == consumer_state::claimed ? 1 : 0;
    if (!entry.body->key.empty()) finders_[number].keys.erase(entry.body->key);
    if (entry.state == row_state::committed)
      finders_[number].tags.erase(row.value, entry.body->tags);
    partition.rows.erase(row.value);
  }
  ++contents_.sequence;
}

// ---- Consumers ---------------------------------------------------------------------------------

result<void> store::move_marks(std::string_view partition, std::string_view consumer, row_list rows,
                               std::optional<consumer_state> from,
                               std::optional<consumer_state> to) {
  const auto number = check_rows(partition, rows, row_state::committed);
  if (!number) return failure(number.error());
  schema_editor editor(partition_at(*number).schema);
  const auto who = editor.consumer(std::string(consumer), partition_text(partition));
  if (!who) return failure(who.error());
  for (const row_id row : rows) {
    const auto state = state_for(*partition_at(*number).rows.find(row.value), *who);
    if (state != from)
      return failure(errc::conflict, row_text(partition, row) + " is " +
                                         std::string(text_of(state)) + " consumer \"" +
                                         std::string(consumer) + "\"");
  }
  partition_state& changed = change_partition(*number);
  changed.schema = editor.finish();
  for (const row_id row : rows) {
    auto& marks = changed.rows.mutate(row.value)->marks;
    if (!from)
      marks.push_back({*who, *to});
    else if (to)
      mark_of(marks, *who)->state = *to;
    else
      marks.erase(marks.begin() + (mark_of(marks, *who) - marks.data()));
  }
  contents_.claims += to == consumer_state::claimed ? rows.size() : 0;
  contents_.claims -= from == consumer_state::claimed ? rows.size() : 0;
  ++contents_.sequence;
  return {};
}

result<void> store::claim(std::string_view partition, std::string_view consumer, row_list rows) {
  return move_marks(partition, consumer, rows, std::nullopt, consumer_state::claimed);
}

result<void> store::acknowledge(std::string_view partition, std::string_view consumer,
                                row_list rows) {
  return move_marks(partition, consumer, rows, consumer_state::claimed, consumer_state::consumed);
}

result<void> store::release(std::string_view partition, std::string_view consumer, row_list rows) {
  return move_marks(partition, consumer, rows, consumer_state::claimed, std::nullopt);
}

result<std::uint64_t> store::release_all(std::string_view partition, std::string_view consumer) {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  const auto& names = found.schema->consumers;
  const auto who = std::find(names.begin(), names.end(), consumer) - names.begin();
  std::vector<row_id> claimed;
  found.rows.for_each([&](std::uint64_t id, const row_entry& row) {
    if (state_for(row, static_cast<std::uint16_t>(who)) == consumer_state::claimed)
      claimed.emplace_back(id);
  });
  if (claimed.empty()) return 0;
  const auto released = release(partition, consumer, claimed);
  ensure(released.has_value(), "rows that are claimed can be released");
  return claimed.size();
}

// ---- The cut -----------------------------------------------------------------------------------

snapshot store::capture() {
  arena_.seal();
  return snapshot(contents_);
}

void store::restore(const snapshot& state) {
  contents restored = state.state();
  restored.sequence = std::max(restored.sequence, contents_.sequence) + 1;
  restored.next_row = std::max(restored.next_row, contents_.next_row);
  restored.next_segment = std::max(restored.next_segment, contents_.next_segment);
  arena_.seal();
  sweep_.reset();
  contents_ = std::move(restored);
  partition_numbers_.clear();
  finders_.clear();
  finders_.resize(contents_.partitions.size());
  contents_.partitions.for_each([this](std::uint64_t number, const partition_state& partition) {
    partition_numbers_.emplace(partition.schema->name, number);
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      if (!row.body->key.empty()) finders_[number].keys.emplace(row.body->key, id);
      if (row.state == row_state::committed) finders_[number].tags.insert(id, row.body->tags);
    });
  });
}

} // namespace weir::dataplane
