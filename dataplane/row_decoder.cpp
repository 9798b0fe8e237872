#include "dataplane/row_decoder.hpp"

#include "dataplane/index_file.hpp"

#include <algorithm>
#include <bit>

namespace weir::dataplane {

namespace {

tl::unexpected<error> broken(std::string text) {
  return failure(errc::corrupt, std::move(text));
}

/// Whether a number was not seen before in this row.
bool first_time(std::vector<std::uint16_t>& seen, std::uint16_t number) {
  if (std::find(seen.begin(), seen.end(), number) != seen.end()) return false;
  seen.push_back(number);
  return true;
}

} // namespace

result<row_entry> row_decoder::decode(const index::RowRecord& record, row_lists_reader& lists) {
  auto body = std::make_shared<row_body>();
  row_entry row;
  if (record.state() != 1 && record.state() != 2)
    return broken("state " + std::to_string(record.state()) + " does not exist");
  row.state = static_cast<row_state>(record.state());
  if (record.key_bytes() > key_bytes_max) return broken("the key is too long");
  body->key = lists.key(record.key_bytes());
  if (auto done = decode_tags(record.tags(), lists, *body); !done)
    return failure(std::move(done.error()));
  if (auto done = decode_marks(record.marks(), lists, row); !done)
    return failure(std::move(done.error()));
  seen_.clear();
  for (std::uint16_t at = 0; at < record.cells(); ++at) {
    const auto* cell_record = lists.cell();
    if (cell_record == nullptr) break;
    if (auto done = decode_cell(*cell_record, lists, *body); !done)
      return failure(std::move(done.error()));
  }
  if (lists.ran_out()) return broken("the lists of the chunk are too short");
  row.body = std::move(body);
  return row;
}

result<void> row_decoder::decode_tags(std::uint16_t count, row_lists_reader& lists,
                                      row_body& body) {
  seen_.clear();
  for (std::uint16_t at = 0; at < count; ++at) {
    const auto* record = lists.tag();
    if (record == nullptr) return {};
    if (record->name() >= schema_.tag_names.size() || !first_time(seen_, record->name()))
      return broken("tag " + std::to_string(record->name()) + " does not exist or stands twice");
    tag_value value;
    if (record->kind() == 1)
      value = std::bit_cast<std::int64_t>(record->value());
    else if (record->kind() == 2)
      value = std::bit_cast<double>(record->value());
    else if (record->kind() == 3 && record->value() <= tag_text_bytes_max)
      value = lists.tag_text(record->value());
    else
      return broken("a tag has kind " + std::to_string(record->kind()) + " and value " +
                    std::to_string(record->value()));
    body.tags.push_back({record->name(), std::move(value)});
  }
  return {};
}

result<void> row_decoder::decode_marks(std::uint16_t count, row_lists_reader& lists,
                                       row_entry& row) {
  seen_.clear();
  if (count > 0 && row.state == row_state::staged) return broken("it is staged and has a consumer");
  for (std::uint16_t at = 0; at < count; ++at) {
    const auto* record = lists.mark();
    if (record == nullptr) return {};
    const bool known = record->state() == 1 || record->state() == 2;
    if (!known || record->consumer() >= schema_.consumers.size() ||
        !first_time(seen_, record->consumer()))
      return broken("consumer " + std::to_string(record->consumer()) +
                    " does not exist, stands twice, or has no state that exists");
    row.marks.push_back({record->consumer(), static_cast<consumer_state>(record->state())});
  }
  return {};
}

result<void> row_decoder::decode_cell(const index::CellRecord& record, row_lists_reader& lists,
                                      row_body& body) {
  if (record.field() >= schema_.fields.size() || !first_time(seen_, record.field()))
    return broken("field " + std::to_string(record.field()) + " does not exist or stands twice");
  const field_info& field = schema_.fields[record.field()];
  cell one;
  one.field = record.field();
  one.rank = record.rank();
  one.first_extent = static_cast<std::uint32_t>(body.extents.size());
  for (unsigned at = 0; at < record.rank() && !lists.ran_out(); ++at)
    body.extents.push_back(lists.extent());
  if (lists.ran_out()) return {};
  const auto bytes = cell_bytes(field.type, body.shape_of(one));
  if (!bytes || (is_opaque(field.type) && one.rank != 1))
    return broken("field \"" + field.name + "\" has an impossible shape");
  one.bytes = *bytes;
  if (auto done = place(record, field, one); !done) return done;
  body.cells.push_back(one);
  return {};
}

result<void> row_decoder::place(const index::CellRecord& record, const field_info& field,
                                cell& one) {
  if (one.bytes == 0)
    return record.segment() == no_segment && record.offset() == 0
               ? result<void>{}
               : broken("field \"" + field.name + "\" has no bytes and a place");
  if (record.segment() >= segments_.size())
    return broken("field \"" + field.name + "\" lies in a segment that is not listed");
  known_segment& segment = segments_[record.segment()];
  const auto at = segment.columns.find({partition_, one.field});
  if (at == segment.columns.end() || segment.loaded.header.columns[at->second].type != field.type)
    return broken("field \"" + field.name + "\" lies in segment " + std::to_string(segment.id) +
                  ", which has no column of it with dtype " + std::string(to_string(field.type)));
  const std::uint64_t column_bytes = segment.loaded.header.columns[at->second].bytes;
  if (record.offset() > column_bytes || one.bytes > column_bytes - record.offset() ||
      record.offset() % element_bytes(field.type) != 0)
    return broken("field \"" + field.name + "\" lies outside of its column");
  const auto value =
      segment.loaded.memory->bytes(segment.loaded.begins[at->second] + record.offset(), one.bytes);
  if (field.type == dtype::utf8 && !is_utf8(value))
    return broken("field \"" + field.name + "\" is not UTF-8");
  one.segment = segment.id;
  one.offset = segment.loaded.begins[at->second] + record.offset();
  segment.found_bytes += one.bytes;
  segment.found_cells += 1;
  return {};
}

} // namespace weir::dataplane
