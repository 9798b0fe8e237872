#include "dataplane/index_file.hpp"
#include "dataplane/index_generated.h"
#include "dataplane/schema_editor.hpp"
#include "dataplane/segment_file.hpp"
#include "dataplane/snapshot_file.hpp"
#include "messages/limits.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::uint32_t no_segment = 0xffffffff;

tl::unexpected<error> broken(std::string text) {
  return failure(errc::corrupt, std::move(text));
}

/// Opens the text of an error with the file that it is about.
tl::unexpected<error> in_file(const std::string& path, error reason) {
  reason.text = path + ": " + reason.text;
  return failure(std::move(reason));
}

// ---- Segments ----------------------------------------------------------------------------------

/// One segment of the list, its columns by (partition, field).
struct known_segment {
  std::uint64_t id = 0;
  std::uint64_t live_cells = 0;
  loaded_segment loaded;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> columns;
  /// What the rows read so far have in it.
  std::uint64_t found_bytes = 0;
  std::uint64_t found_cells = 0;
};

result<known_segment> load_segment(file& source, const index::SegmentRecord& record) {
  const auto size = source.size();
  if (!size) return failure(size.error());
  if (*size != record.file_bytes())
    return broken("has " + std::to_string(*size) + " bytes, the index says " +
                  std::to_string(record.file_bytes()));
  auto loaded = read_segment(source);
  if (!loaded) return failure(std::move(loaded.error()));
  const epoch_id epoch{record.incarnation(), record.life(), record.number()};
  if (loaded->header.segment != record.id() || loaded->header.epoch != epoch)
    return broken("is segment " + std::to_string(loaded->header.segment) + " of cut " +
                  to_string(loaded->header.epoch) + ", the index says cut " + to_string(epoch));
  known_segment known;
  known.id = record.id();
  known.live_cells = record.live_cells();
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at < loaded->header.columns.size(); ++at) {
    const segment_column& column = loaded->header.columns[at];
    bytes += column.bytes;
    if (!known.columns.emplace(std::pair{column.partition, column.field}, at).second)
      return broken("has a column twice");
  }
  if (bytes != record.content_bytes())
    return broken("has " + std::to_string(bytes) + " bytes of content, the index says " +
                  std::to_string(record.content_bytes()));
  known.loaded = std::move(*loaded);
  return known;
}

// ---- Rows --------------------------------------------------------------------------------------

/// Takes items of the lists of a chunk in order; running out of them is remembered, not read past.
class row_lists_reader {
public:
  explicit row_lists_reader(const index::Rows& lists) : lists_(lists) {}

  /// The next item, or null.
  template <class List>
  [[nodiscard]] typename List::return_type take(const List* list, std::size_t& at) {
    if (list == nullptr || at >= list->size()) {
      short_ = true;
      return nullptr;
    }
    return list->Get(static_cast<flatbuffers::uoffset_t>(at++));
  }
  [[nodiscard]] const index::CellRecord* cell() { return take(lists_.cells(), cells_); }
  [[nodiscard]] const index::TagRecord* tag() { return take(lists_.tags(), tags_); }
  [[nodiscard]] const index::MarkRecord* mark() { return take(lists_.marks(), marks_); }

  [[nodiscard]] std::uint64_t extent() {
    const auto* list = lists_.extents();
    if (list == nullptr || extents_ >= list->size()) {
      short_ = true;
      return 0;
    }
    return list->Get(static_cast<flatbuffers::uoffset_t>(extents_++));
  }
  [[nodiscard]] std::string key(std::uint64_t bytes) { return text(lists_.keys(), keys_, bytes); }
  [[nodiscard]] std::string tag_text(std::uint64_t bytes) {
    return text(lists_.texts(), texts_, bytes);
  }

  [[nodiscard]] bool ran_out() const { return short_; }
  [[nodiscard]] bool used_up() const {
    const auto all = [](const auto* list, std::size_t at) {
      return at == (list == nullptr ? 0 : list->size());
    };
    return all(lists_.cells(), cells_) && all(lists_.tags(), tags_) &&
           all(lists_.marks(), marks_) && all(lists_.extents(), extents_) &&
           all(lists_.keys(), keys_) && all(lists_.texts(), texts_);
  }

private:
  std::string text(const flatbuffers::Vector<std::uint8_t>* list, std::size_t& at,
                   std::uint64_t bytes) {
    if (bytes == 0) return {};
    if (list == nullptr || bytes > list->size() - at) {
      short_ = true;
      return {};
    }
    const auto* first = reinterpret_cast<const char*>(list->data()) + at;
    at += static_cast<std::size_t>(bytes);
    return {first, static_cast<std::size_t>(bytes)};
  }

  const index::Rows& lists_;
  std::size_t cells_ = 0;
  std::size_t tags_ = 0;
  std::size_t marks_ = 0;
  std::size_t extents_ = 0;
  std::size_t keys_ = 0;
  std::size_t texts_ = 0;
  bool short_ = false;
};

/// Whether a number was not seen before in this row.
bool first_time(std::vector<std::uint16_t>& seen, std::uint16_t number) {
  if (std::find(seen.begin(), seen.end(), number) != seen.end()) return false;
  seen.push_back(number);
  return true;
}

/// Decodes the rows of one partition against its schema and the loaded segments.
class row_decoder {
public:
  row_decoder(std::uint32_t partition, const partition_schema& schema,
              std::vector<known_segment>& segments)
      : partition_(partition), schema_(schema), segments_(segments) {}

  /// An error without the row's name.
  result<row_entry> decode(const index::RowRecord& record, row_lists_reader& lists) {
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

private:
  result<void> decode_tags(std::uint16_t count, row_lists_reader& lists, row_body& body) {
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

  result<void> decode_marks(std::uint16_t count, row_lists_reader& lists, row_entry& row) {
    seen_.clear();
    if (count > 0 && row.state == row_state::staged)
      return broken("it is staged and has a consumer");
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

  result<void> decode_cell(const index::CellRecord& record, row_lists_reader& lists,
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
    if (!bytes) return broken("field \"" + field.name + "\" has an impossible shape");
    one.bytes = *bytes;
    if (auto done = place(record, field, one); !done) return done;
    body.cells.push_back(one);
    return {};
  }

  /// Turns the position in a column into one in memory.
  result<void> place(const index::CellRecord& record, const field_info& field, cell& one) {
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
    one.segment = segment.id;
    one.offset = segment.loaded.begins[at->second] + record.offset();
    segment.found_bytes += one.bytes;
    segment.found_cells += 1;
    return {};
  }

  std::uint32_t partition_;
  const partition_schema& schema_;
  std::vector<known_segment>& segments_;
  std::vector<std::uint16_t> seen_;
};

// ---- The index ---------------------------------------------------------------------------------

result<std::vector<std::string>>
decode_names(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list,
             std::size_t most, const char* kind) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const std::size_t count = list == nullptr ? 0 : list->size();
  if (count > most) return broken(std::string("has too many names of a ") + kind);
  for (std::size_t at = 0; at < count; ++at) {
    names.push_back(list->Get(static_cast<flatbuffers::uoffset_t>(at))->str());
    if (!name_allowed(names.back()) || !seen.insert(names.back()).second)
      return broken(std::string("has an impossible name of a ") + kind + ", or one twice");
  }
  return names;
}

result<partition_schema> decode_schema(const index::Partition& record) {
  partition_schema schema;
  schema.name = record.name() == nullptr ? std::string() : record.name()->str();
  if (!name_allowed(schema.name)) return broken("a partition has an impossible name");
  std::set<std::string> seen;
  const std::size_t fields = record.fields() == nullptr ? 0 : record.fields()->size();
  if (fields > fields_max) return broken("partition \"" + schema.name + "\" has too many fields");
  for (std::size_t at = 0; at < fields; ++at) {
    const auto* field = record.fields()->Get(static_cast<flatbuffers::uoffset_t>(at));
    const auto type = dtype_from(field->dtype());
    const std::string name = field->name() == nullptr ? std::string() : field->name()->str();
    if (!type || !name_allowed(name) || !seen.insert(name).second)
      return broken("partition \"" + schema.name + "\", field \"" + name +
                    "\": impossible name or dtype, or twice");
    schema.fields.push_back({name, *type});
  }
  auto tags = decode_names(record.tag_names(), tag_names_max, "tag");
  if (!tags) return failure(std::move(tags.error()));
  auto consumers = decode_names(record.consumers(), consumers_max, "consumer");
  if (!consumers) return failure(std::move(consumers.error()));
  schema.tag_names = std::move(*tags);
  schema.consumers = std::move(*consumers);
  return schema;
}

class snapshot_reader {
public:
  snapshot_reader(disk& storage, const std::string& directory)
      : storage_(storage), directory_(directory) {}

  result<snapshot> read(epoch_id expected) {
    const std::string path = index_path();
    auto opened = storage_.open(join(directory_, path));
    if (!opened) return failure(std::move(opened.error()));
    index_reader reader(**opened);
    const auto epoch = reader.begin();
    if (!epoch) return in_file(path, epoch.error());
    if (*epoch != expected)
      return in_file(path, {errc::corrupt, "is of cut " + to_string(*epoch) + ", the bundle of " +
                                               to_string(expected)});
    while (!ended_) {
      const auto payload = reader.next();
      if (!payload) return in_file(path, payload.error());
      if (auto done = take_chunk(*payload, reader.chunks()); !done)
        return failure(std::move(done.error())); // Names the file already.
    }
    if (!reader.at_end()) return in_file(path, {errc::corrupt, "goes on behind its end"});
    if (auto done = check_sums(); !done) return in_file(path, done.error());
    return finish();
  }

private:
  result<void> take_chunk(std::span<const std::byte> payload, std::uint64_t chunks) {
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(payload.data()),
                                   payload.size(), limits::verifier_depth_max,
                                   limits::verifier_tables_max);
    result<void> done;
    if (!index::VerifyChunkBuffer(verifier))
      done = broken("does not verify");
    else
      done = dispatch(*index::GetChunk(payload.data()), chunks);
    if (done || in_segment_file_) return done;
    done.error().text = "chunk " + std::to_string(chunks - 1) + " " + done.error().text;
    return in_file(index_path(), done.error());
  }

  result<void> dispatch(const index::Chunk& chunk, std::uint64_t chunks) {
    const bool first = chunks == 1;
    if (first != (chunk.body_type() == index::Body::Header)) return broken("is out of place");
    switch (chunk.body_type()) {
    case index::Body::Header:
      return take_header(*chunk.body_as_Header());
    case index::Body::Segments:
      return take_segments(*chunk.body_as_Segments());
    case index::Body::Partition:
      return take_partition(*chunk.body_as_Partition());
    case index::Body::Rows:
      return take_rows(*chunk.body_as_Rows());
    case index::Body::End:
      return take_end(*chunk.body_as_End(), chunks);
    case index::Body::NONE:
      break;
    }
    return failure(errc::unsupported, "is of a kind that this program does not know");
  }

  result<void> take_header(const index::Header& header) {
    all_.sequence = header.sequence();
    all_.next_row = header.next_row();
    all_.next_segment = header.next_segment();
    all_.staged_rows = header.staged_rows();
    all_.committed_rows = header.committed_rows();
    all_.claims = header.claims();
    all_.live_bytes = header.live_bytes();
    partitions_expected_ = header.partitions();
    segments_expected_ = header.segments();
    if (all_.next_row == 0 || all_.next_segment == 0 || partitions_expected_ > partitions_max)
      return broken("has impossible counts");
    return {};
  }

  result<void> take_segments(const index::Segments& list) {
    if (!all_.partitions.empty() || list.segments() == nullptr) return broken("is out of place");
    for (const index::SegmentRecord* record : *list.segments()) {
      const std::uint64_t last = segments_.empty() ? 0 : segments_.back().id;
      if (record->id() <= last || record->id() >= all_.next_segment || record->live_cells() == 0)
        return broken("lists an impossible segment " + std::to_string(record->id()));
      const std::string path = segment_path(record->id());
      // From here to the end of the round errors are about that file.
      in_segment_file_ = true;
      auto opened = storage_.open(join(directory_, path));
      if (!opened) return failure(std::move(opened.error()));
      auto known = load_segment(**opened, *record);
      if (!known) return in_file(path, std::move(known.error()));
      in_segment_file_ = false;
      segments_.push_back(std::move(*known));
    }
    return {};
  }

  result<void> take_partition(const index::Partition& record) {
    if (segments_.size() != segments_expected_ || rows_left_ != 0 ||
        record.number() != all_.partitions.size() || record.number() >= partitions_expected_)
      return broken("is out of place");
    auto schema = decode_schema(record);
    if (!schema) return failure(std::move(schema.error()));
    if (!names_.insert(schema->name).second)
      return broken("names partition \"" + schema->name + "\" again");
    schema_ = std::make_shared<const partition_schema>(std::move(*schema));
    all_.partitions.insert(record.number(), {schema_, {}});
    rows_left_ = record.rows();
    keys_.clear();
    return {};
  }

  result<void> take_rows(const index::Rows& lists) {
    if (!schema_ || record_count(lists) == 0 || record_count(lists) > rows_left_ ||
        lists.partition() + std::size_t{1} != all_.partitions.size())
      return broken("is out of place");
    partition_state& partition = *all_.partitions.mutate(lists.partition());
    row_decoder decoder(lists.partition(), *schema_, segments_);
    row_lists_reader items(lists);
    for (const index::RowRecord* record : *lists.rows()) {
      const auto named = [&] {
        return "partition \"" + schema_->name + "\", row " + std::to_string(record->id()) + ": ";
      };
      const auto last = partition.rows.last_key();
      if (record->id() == 0 || record->id() >= all_.next_row || (last && record->id() <= *last))
        return broken(named() + "the id is out of order");
      auto row = decoder.decode(*record, items);
      if (!row) return broken(named() + row.error().text);
      if (!row->body->key.empty() && !keys_.insert(row->body->key).second)
        return broken(named() + "the key is that of another row");
      count(*row);
      ids_.push_back(record->id());
      partition.rows.insert(record->id(), std::move(*row));
    }
    rows_left_ -= record_count(lists);
    return items.used_up() ? result<void>{} : broken("has more items than its rows");
  }

  static std::uint64_t record_count(const index::Rows& lists) {
    return lists.rows() == nullptr ? 0 : lists.rows()->size();
  }

  void count(const row_entry& row) {
    (row.state == row_state::staged ? staged_ : committed_) += 1;
    for (const consumer_mark& mark : row.marks)
      claims_ += mark.state == consumer_state::claimed ? 1 : 0;
  }

  result<void> take_end(const index::End& end, std::uint64_t chunks) {
    if (end.chunks() != chunks || end.rows() != ids_.size() || rows_left_ != 0)
      return broken("ends the index before all of it was there");
    ended_ = true;
    return {};
  }

  result<void> check_sums() {
    if (all_.partitions.size() != partitions_expected_ || segments_.size() != segments_expected_)
      return broken("partitions or segments are missing");
    if (staged_ != all_.staged_rows || committed_ != all_.committed_rows || claims_ != all_.claims)
      return broken("rows or claims are not as many as it says");
    std::uint64_t bytes = 0;
    for (const known_segment& segment : segments_) {
      bytes += segment.found_bytes;
      std::uint64_t content = 0;
      for (const segment_column& column : segment.loaded.header.columns)
        content += column.bytes;
      if (segment.found_cells != segment.live_cells || segment.found_bytes > content)
        return broken("the rows do not have the values of segment " + std::to_string(segment.id));
    }
    if (bytes != all_.live_bytes)
      return broken("the rows have " + std::to_string(bytes) + " bytes, it says " +
                    std::to_string(all_.live_bytes));
    std::sort(ids_.begin(), ids_.end());
    const auto twice = std::adjacent_find(ids_.begin(), ids_.end());
    if (twice != ids_.end())
      return broken("row " + std::to_string(*twice) + " stands in two partitions");
    return {};
  }

  snapshot finish() {
    for (known_segment& segment : segments_)
      all_.segments.insert(
          segment.id, {std::move(segment.loaded.memory), segment.found_bytes, segment.found_cells});
    return snapshot(std::move(all_));
  }

  disk& storage_;
  const std::string& directory_;
  contents all_;
  std::vector<known_segment> segments_;
  std::uint64_t partitions_expected_ = 0;
  std::uint64_t segments_expected_ = 0;
  std::shared_ptr<const partition_schema> schema_;
  std::set<std::string> names_;
  std::unordered_set<std::string> keys_;
  std::uint64_t rows_left_ = 0;
  std::uint64_t staged_ = 0;
  std::uint64_t committed_ = 0;
  std::uint64_t claims_ = 0;
  std::vector<std::uint64_t> ids_;
  bool in_segment_file_ = false;
  bool ended_ = false;
};

} // namespace

result<snapshot> read_snapshot(disk& storage, const std::string& directory, epoch_id epoch) {
  return snapshot_reader(storage, directory).read(epoch);
}

} // namespace weir::dataplane
