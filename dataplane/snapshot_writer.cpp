#include "dataplane/compaction.hpp"
#include "dataplane/index_file.hpp"
#include "dataplane/index_generated.h"
#include "dataplane/segment_file.hpp"
#include "dataplane/snapshot_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::size_t rows_per_chunk = 4096;
constexpr std::size_t chunk_bytes_target = std::size_t{4} * 1024 * 1024;
constexpr std::size_t segments_per_chunk = 4096;
/// Written files whose sync goes on while the next ones are written.
constexpr std::size_t unsynced_max = 3;

// ---- Rows --------------------------------------------------------------------------------------

/// Calls `visit(id, row)` in the order of the ids, while it returns true. A row lies behind two
/// pointers, in memory of its own: those of the next rows are fetched meanwhile.
template <class Visitor>
void for_each_row(const persistent_map<row_entry>& rows, Visitor&& visit) {
  constexpr std::size_t ahead = 8;
  std::array<std::pair<std::uint64_t, const row_entry*>, 2 * ahead> seen{};
  std::size_t found = 0;
  std::size_t visited = 0;
  bool going_on = true;
  const auto visit_one = [&] {
    const auto& [id, row] = seen[visited++ % seen.size()];
    going_on = visit(id, *row);
    return going_on;
  };
  rows.for_each([&](std::uint64_t id, const row_entry& row) {
    __builtin_prefetch(row.body.get());
    seen[found++ % seen.size()] = {id, &row};
    if (found - visited > ahead)
      __builtin_prefetch(seen[(found - ahead) % seen.size()].second->body->cells.data());
    return found - visited < seen.size() || visit_one();
  });
  while (going_on && visited < found)
    visit_one();
}

// ---- Segments ----------------------------------------------------------------------------------

/// An item for each of some segments. Neighbours are mostly of one segment: what was found last is
/// kept, also that there is none.
template <class Item>
class by_segment {
public:
  /// No effect if the segment has one.
  void add(std::uint64_t segment, Item item) {
    items_.try_emplace(segment, std::move(item));
    last_segment_.reset();
  }
  /// Null if the segment was not added.
  [[nodiscard]] Item* find(std::uint64_t segment) {
    if (last_segment_ != segment) {
      const auto found = items_.find(segment);
      last_ = found == items_.end() ? nullptr : &found->second;
      last_segment_ = segment;
    }
    return last_;
  }
  /// @pre the segment was added
  [[nodiscard]] Item& at(std::uint64_t segment) { return items_.at(segment); }
  [[nodiscard]] bool empty() const { return items_.empty(); }

private:
  std::unordered_map<std::uint64_t, Item> items_;
  std::optional<std::uint64_t> last_segment_; ///< The one that was asked for last.
  Item* last_ = nullptr;
};

/// The live values of some segments, listed in the order of their rows.
class segment_gatherer {
public:
  using column_key = std::pair<std::uint32_t, std::uint16_t>;
  struct column_pieces {
    dtype type = dtype::u8;
    std::uint64_t bytes = 0;
    std::vector<std::span<const std::byte>> pieces;
  };
  using columns = std::map<column_key, column_pieces>;

  void want(std::uint64_t id, const segment& memory) { wanted_.add(id, {&memory, {}}); }

  void gather(const contents& all) {
    all.partitions.for_each([this](std::uint64_t number, const partition_state& partition) {
      for_each_row(partition.rows, [&](std::uint64_t, const row_entry& row) {
        for (const cell& one : row.body->cells)
          add(static_cast<std::uint32_t>(number), partition.schema->fields[one.field].type, one);
        return true;
      });
    });
  }

  /// Where the values of a wanted segment will stand in its file.
  [[nodiscard]] segment_layout layout_of(std::uint64_t id) {
    segment_layout layout;
    const wanted_segment& wanted = wanted_.at(id);
    const std::byte* const begin = wanted.memory->bytes(0, 0).data();
    for (const auto& [key, column] : wanted.found) {
      std::uint64_t position = 0;
      for (const auto piece : column.pieces) {
        layout.add(static_cast<std::uint64_t>(piece.data() - begin), piece.size(), position);
        position += piece.size();
      }
    }
    layout.finish();
    return layout;
  }

  /// One of the wanted segments, ready to be written.
  [[nodiscard]] segment_content take(std::uint64_t id, epoch_id epoch) {
    segment_content content{.header = {.segment = id, .epoch = epoch, .columns = {}}, .pieces = {}};
    for (auto& [key, column] : wanted_.at(id).found) {
      content.header.columns.push_back({key.first, key.second, column.type, column.bytes});
      content.pieces.push_back(std::move(column.pieces));
    }
    return content;
  }

private:
  struct wanted_segment {
    const segment* memory = nullptr;
    columns found;
  };

  void add(std::uint32_t partition, dtype type, const cell& one) {
    wanted_segment* const wanted = one.bytes == 0 ? nullptr : wanted_.find(one.segment);
    if (wanted == nullptr) return;
    column_pieces& column = wanted->found[{partition, one.field}];
    const auto bytes = wanted->memory->bytes(one.offset, one.bytes);
    column.type = type;
    column.bytes += one.bytes;
    // Values that were written together are one piece.
    if (!column.pieces.empty()) {
      auto& last = column.pieces.back();
      if (last.data() + last.size() == bytes.data()) {
        last = {last.data(), last.size() + bytes.size()};
        return;
      }
    }
    column.pieces.push_back(bytes);
  }

  by_segment<wanted_segment> wanted_;
};

// ---- Where values stand ------------------------------------------------------------------------

/// The file of a segment, asked for the values of one row after the other.
struct value_file {
  layout_walk layout;
  std::uint32_t position = 0; ///< Of the segment in the index.
  bool complete = true;       ///< Has every value that it was asked for.
};

// ---- The index ---------------------------------------------------------------------------------

/// Rows of one partition until they fill a chunk.
struct row_lists {
  std::vector<index::RowRecord> rows;
  std::vector<index::CellRecord> cells;
  std::vector<std::uint64_t> extents;
  std::vector<index::TagRecord> tags;
  std::vector<index::MarkRecord> marks;
  std::vector<std::uint8_t> keys;
  std::vector<std::uint8_t> texts;

  [[nodiscard]] bool full() const {
    const std::size_t bytes =
        rows.size() * sizeof(index::RowRecord) + cells.size() * sizeof(index::CellRecord) +
        extents.size() * sizeof(std::uint64_t) + tags.size() * sizeof(index::TagRecord) +
        marks.size() * sizeof(index::MarkRecord) + keys.size() + texts.size();
    return rows.size() >= rows_per_chunk || bytes >= chunk_bytes_target;
  }
};

void append_text(std::vector<std::uint8_t>& target, std::string_view text) {
  target.insert(target.end(), text.begin(), text.end());
}

index::TagRecord encode_tag(const row_tag& one, std::vector<std::uint8_t>& texts) {
  if (const auto* number = std::get_if<std::int64_t>(&one.value))
    return {std::bit_cast<std::uint64_t>(*number), one.name, 1};
  if (const auto* real = std::get_if<double>(&one.value))
    return {std::bit_cast<std::uint64_t>(*real), one.name, 2};
  const auto& text = std::get<std::string>(one.value);
  append_text(texts, text);
  return {text.size(), one.name, 3};
}

class index_encoder {
public:
  index_encoder(const contents& all, const snapshot_files& files, byte_sink sink)
      : all_(all), files_(files), writer_(std::move(sink)) {}

  result<void> write(epoch_id epoch, std::span<const index::SegmentRecord> segments) {
    if (auto put = writer_.begin(epoch); !put) return put;
    if (auto put = write_header(segments.size()); !put) return put;
    if (auto put = write_segments(segments); !put) return put;
    result<void> outcome;
    all_.partitions.for_each([&](std::uint64_t number, const partition_state& partition) {
      outcome = write_partition(static_cast<std::uint32_t>(number), partition);
      return outcome.has_value();
    });
    if (!outcome) return outcome;
    return put_chunk(index::Body::End, index::CreateEnd(builder_, writer_.chunks() + 1,
                                                        all_.staged_rows + all_.committed_rows)
                                           .Union());
  }

private:
  result<void> put_chunk(index::Body kind, flatbuffers::Offset<void> body) {
    builder_.Finish(index::CreateChunk(builder_, kind, body));
    auto put = writer_.append(std::as_bytes(std::span(builder_.GetBufferPointer(), //
                                                      builder_.GetSize())));
    builder_.Clear();
    return put;
  }

  result<void> write_header(std::size_t segments) {
    return put_chunk(index::Body::Header,
                     index::CreateHeader(builder_, all_.sequence, all_.next_row, all_.next_segment,
                                         all_.partitions.size(), segments, all_.staged_rows,
                                         all_.committed_rows, all_.claims, all_.live_bytes,
                                         files_.links_since_whole)
                         .Union());
  }

  result<void> write_segments(std::span<const index::SegmentRecord> segments) {
    for (std::uint32_t position = 0; position < segments.size(); ++position)
      values_.add(segments[position].id(),
                  {layout_walk(*files_.segments.at(segments[position].id()).layout), position});
    while (!segments.empty()) {
      const auto some = segments.first(std::min(segments.size(), segments_per_chunk));
      segments = segments.subspan(some.size());
      const auto list = builder_.CreateVectorOfStructs(some.data(), some.size());
      auto put = put_chunk(index::Body::Segments, index::CreateSegments(builder_, list).Union());
      if (!put) return put;
    }
    return {};
  }

  result<void> write_partition(std::uint32_t number, const partition_state& partition) {
    const partition_schema& schema = *partition.schema;
    std::vector<flatbuffers::Offset<index::Field>> fields;
    for (const field_info& field : schema.fields) {
      const auto name = builder_.CreateString(field.name);
      fields.push_back(index::CreateField(builder_, name, static_cast<std::uint8_t>(field.type)));
    }
    const auto field_list = builder_.CreateVector(fields);
    const auto tag_list = builder_.CreateVectorOfStrings(schema.tag_names);
    const auto consumer_list = builder_.CreateVectorOfStrings(schema.consumers);
    const auto name = builder_.CreateString(schema.name);
    auto put = put_chunk(index::Body::Partition,
                         index::CreatePartition(builder_, number, name, field_list, tag_list,
                                                consumer_list, partition.rows.size())
                             .Union());
    if (!put) return put;
    for_each_row(partition.rows, [&](std::uint64_t id, const row_entry& row) {
      add_row(id, row);
      if (lists_.full()) put = write_rows(number);
      return put.has_value();
    });
    if (put && !lists_.rows.empty()) put = write_rows(number);
    return put;
  }

  void add_row(std::uint64_t id, const row_entry& row) {
    const row_body& body = *row.body;
    lists_.rows.emplace_back(
        id, static_cast<std::uint32_t>(body.key.size()),
        static_cast<std::uint16_t>(body.tags.size()), static_cast<std::uint16_t>(body.cells.size()),
        static_cast<std::uint16_t>(row.marks.size()), static_cast<std::uint8_t>(row.state));
    append_text(lists_.keys, body.key);
    for (const row_tag& one : body.tags)
      lists_.tags.push_back(encode_tag(one, lists_.texts));
    for (const consumer_mark& mark : row.marks)
      lists_.marks.emplace_back(mark.consumer, static_cast<std::uint8_t>(mark.state));
    for (const cell& one : body.cells) {
      const auto shape = body.shape_of(one);
      lists_.extents.insert(lists_.extents.end(), shape.begin(), shape.end());
      lists_.cells.push_back(encode_cell(one));
    }
  }

  index::CellRecord encode_cell(const cell& one) {
    if (one.bytes == 0) return {0, no_segment, one.field, one.rank};
    value_file* const file = values_.find(one.segment);
    ensure(file != nullptr, "a segment with a live value has a file");
    const auto offset = file->layout.find(one.field, one.offset, one.bytes);
    ensure(offset.has_value(), "the file of a segment holds every live value");
    return {*offset, file->position, one.field, one.rank};
  }

  result<void> write_rows(std::uint32_t partition) {
    const row_lists some = std::exchange(lists_, {});
    const auto rows = builder_.CreateVectorOfStructs(some.rows);
    const auto cells = builder_.CreateVectorOfStructs(some.cells);
    const auto extents = builder_.CreateVector(some.extents);
    const auto tags = builder_.CreateVectorOfStructs(some.tags);
    const auto marks = builder_.CreateVectorOfStructs(some.marks);
    const auto keys = builder_.CreateVector(some.keys);
    const auto texts = builder_.CreateVector(some.texts);
    return put_chunk(index::Body::Rows, index::CreateRows(builder_, partition, rows, cells, extents,
                                                          tags, marks, keys, texts)
                                            .Union());
  }

  const contents& all_;
  const snapshot_files& files_;
  index_writer writer_;
  flatbuffers::FlatBufferBuilder builder_;
  by_segment<value_file> values_;
  row_lists lists_;
};

// ---- All of it ---------------------------------------------------------------------------------

class snapshot_writer {
public:
  snapshot_writer(disk& storage, const std::string& directory, epoch_id epoch, const contents& all,
                  const increment_options& options)
      : storage_(storage), directory_(directory), epoch_(epoch), all_(all), options_(options) {}

  result<written_snapshot> write() {
    files_.epoch = epoch_;
    if (auto linked = link_segments(); !linked) return failure(std::move(linked.error()));
    if (auto written = write_segments(); !written) return failure(std::move(written.error()));
    if (auto written = write_index(); !written) return failure(std::move(written.error()));
    if (auto synced = finish_down_to(0); !synced) return failure(std::move(synced.error()));
    out_.files = std::make_shared<const snapshot_files>(std::move(files_));
    return std::move(out_);
  }

private:
  // ---- What is linked ----

  result<void> link_segments() {
    if (!options_.base || options_.base->files->links_since_whole + 1 >= options_.full_every)
      return {};
    const snapshot_files& base = *options_.base->files;
    for (const std::uint64_t id : linkable_segments(base)) {
      const written_segment& known = base.segments.at(id);
      auto linked = link_section(storage_, join(options_.base->directory, known.file.path),
                                 directory_, known.file, epoch_);
      // It was written from what is in memory, and can be again.
      if (!linked && linked.error().code == errc::not_found) continue;
      if (!linked) return linked;
      out_.sections.push_back({known.file, epoch_});
      out_.linked_bytes += known.file.bytes;
      files_.segments.emplace(id, known);
      files_.links_since_whole = base.links_since_whole + 1;
    }
    return {};
  }

  std::vector<std::uint64_t> linkable_segments(const snapshot_files& base) const {
    std::vector<std::uint64_t> found;
    by_segment<value_file> values;
    all_.segments.for_each([&](std::uint64_t id, const segment_entry& entry) {
      const auto known = base.segments.find(id);
      if (known == base.segments.end() ||
          mostly_dead(entry.live_bytes, known->second.content_bytes))
        return;
      found.push_back(id);
      // A file of all that was ever placed in its segment has every value. Of another one the rest
      // may have been staged when it was written.
      if (known->second.content_bytes < entry.placed_bytes)
        values.add(id, {layout_walk(*known->second.layout)});
    });
    if (values.empty()) return found;
    all_.partitions.for_each([&](std::uint64_t, const partition_state& partition) {
      for_each_row(partition.rows, [&](std::uint64_t, const row_entry& row) {
        for (const cell& one : row.body->cells)
          if (value_file* const file = one.bytes > 0 ? values.find(one.segment) : nullptr)
            if (!file->layout.find(one.field, one.offset, one.bytes)) file->complete = false;
        return true;
      });
    });
    std::erase_if(found, [&](std::uint64_t id) {
      const value_file* const file = values.find(id);
      return file != nullptr && !file->complete;
    });
    return found;
  }

  // ---- What is written ----

  result<void> write_segments() {
    std::vector<std::uint64_t> group;
    std::uint64_t cells = 0;
    result<void> outcome;
    all_.segments.for_each([&](std::uint64_t id, const segment_entry& entry) {
      if (files_.segments.contains(id)) return true;
      if (!group.empty() && cells + entry.live_cells > segment_cells_max) {
        outcome = write_group(std::exchange(group, {}));
        cells = 0;
      }
      group.push_back(id);
      cells += entry.live_cells;
      return outcome.has_value();
    });
    if (outcome && !group.empty()) outcome = write_group(group);
    return outcome;
  }

  /// @pre the live cells of the group can be listed in little memory
  result<void> write_group(const std::vector<std::uint64_t>& group) {
    segment_gatherer gatherer;
    for (const std::uint64_t id : group)
      gatherer.want(id, *all_.segments.find(id)->memory);
    gatherer.gather(all_);
    for (const std::uint64_t id : group) {
      auto layout = std::make_shared<const segment_layout>(gatherer.layout_of(id));
      const segment_content content = gatherer.take(id, epoch_);
      const auto write = [&content](const byte_sink& sink) -> result<void> {
        const auto bytes = write_segment(content, sink);
        return bytes ? result<void>{} : failure(bytes.error());
      };
      if (auto written = write_file(segment_path(id), write); !written) return written;
      const manifest_file& file = out_.sections.back().file;
      out_.written_bytes += file.bytes;
      files_.segments.emplace(id,
                              written_segment{.file = file,
                                              .epoch = epoch_,
                                              .content_bytes = all_.segments.find(id)->live_bytes,
                                              .layout = std::move(layout)});
    }
    return {};
  }

  result<void> write_index() {
    std::vector<index::SegmentRecord> records;
    for (const auto& [id, known] : files_.segments)
      records.emplace_back(id, known.file.bytes, known.content_bytes,
                           all_.segments.find(id)->live_cells, known.epoch.incarnation,
                           known.epoch.life, known.epoch.number);
    return write_file(index_path(), [&](const byte_sink& sink) {
      return index_encoder(all_, files_, sink).write(epoch_, records);
    });
  }

  result<void> write_file(std::string path,
                          const std::function<result<void>(const byte_sink&)>& write) {
    auto section =
        section_file::create(storage_, directory_, std::move(path), epoch_, options_.pace);
    if (!section) return failure(std::move(section.error()));
    const byte_sink sink = [&](std::span<const std::byte> bytes) { return section->append(bytes); };
    if (auto written = write(sink); !written) return written;
    section->start_sync();
    out_.sections.push_back({section->described(), epoch_});
    unsynced_.push_back(std::move(*section));
    return finish_down_to(unsynced_max);
  }

  /// Closes files until only the newest `kept` are left open: what a file has to sync by itself is
  /// synced while the next ones are written.
  result<void> finish_down_to(std::size_t kept) {
    while (unsynced_.size() > kept) {
      const auto finished = unsynced_.front().finish();
      if (!finished) return failure(finished.error());
      unsynced_.pop_front();
    }
    return {};
  }

  disk& storage_;
  const std::string& directory_;
  epoch_id epoch_;
  const contents& all_;
  const increment_options& options_;
  snapshot_files files_;
  written_snapshot out_;
  std::deque<section_file> unsynced_;
};

} // namespace

std::string index_path() {
  return "data_plane/index.fb";
}

std::string segment_path(std::uint64_t segment) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "data_plane/segments/%016llx.seg",
                static_cast<unsigned long long>(segment));
  return text.data();
}

result<std::vector<finished_section>> write_snapshot(disk& storage, const std::string& directory,
                                                     epoch_id epoch, const snapshot& state,
                                                     const write_pace& pace) {
  auto written = write_increment(storage, directory, epoch, state, {.pace = pace});
  if (!written) return failure(std::move(written.error()));
  return std::move(written->sections);
}

result<written_snapshot> write_increment(disk& storage, const std::string& directory,
                                         epoch_id epoch, const snapshot& state,
                                         const increment_options& options) {
  return snapshot_writer(storage, directory, epoch, state.state(), options).write();
}

} // namespace weir::dataplane
