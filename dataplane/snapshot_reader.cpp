#include "dataplane/index_file.hpp"
#include "dataplane/index_generated.h"
#include "dataplane/row_decoder.hpp"
#include "dataplane/schema_editor.hpp"
#include "dataplane/segment_file.hpp"
#include "dataplane/snapshot_file.hpp"
#include "messages/limits.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

namespace weir::dataplane {

namespace {

tl::unexpected<error> broken(std::string text) {
  return failure(errc::corrupt, std::move(text));
}

/// Opens the text of an error with the file that it is about.
tl::unexpected<error> in_file(const std::string& path, error reason) {
  reason.text = path + ": " + reason.text;
  return failure(std::move(reason));
}

/// Files of segments that are read at a time.
constexpr std::size_t files_open_max = 64;

/// Values in a segment's file, dead ones too.
std::uint64_t content_bytes(const segment_header& header) {
  std::uint64_t bytes = 0;
  for (const segment_column& column : header.columns)
    bytes += column.bytes;
  return bytes;
}

/// A segment's file that is being read.
struct loading_segment {
  const index::SegmentRecord* record = nullptr;
  std::unique_ptr<file> source;
  std::unique_ptr<segment_loading> loading;
  /// Why it could not be opened.
  std::optional<error> reason;
};

result<void> open_segment(disk& storage, const std::string& path, chunk_buffers& buffers,
                          loading_segment& one) {
  auto opened = storage.open(path);
  if (!opened) return failure(std::move(opened.error()));
  one.source = std::move(*opened);
  const auto size = one.source->size();
  if (!size) return failure(size.error());
  if (*size != one.record->file_bytes())
    return broken("has " + std::to_string(*size) + " bytes, the index says " +
                  std::to_string(one.record->file_bytes()));
  auto loading = segment_loading::begin(*one.source, buffers);
  if (!loading) return failure(std::move(loading.error()));
  one.loading = std::move(*loading);
  return {};
}

result<known_segment> known_of(const index::SegmentRecord& record, loaded_segment content) {
  const auto* loaded = &content;
  const epoch_id epoch{record.incarnation(), record.life(), record.number()};
  if (loaded->header.segment != record.id() || loaded->header.epoch != epoch)
    return broken("is segment " + std::to_string(loaded->header.segment) + " of cut " +
                  to_string(loaded->header.epoch) + ", the index says cut " + to_string(epoch));
  known_segment known;
  known.id = record.id();
  known.live_cells = record.live_cells();
  for (std::size_t at = 0; at < loaded->header.columns.size(); ++at) {
    const segment_column& column = loaded->header.columns[at];
    if (!known.columns.emplace(std::pair{column.partition, column.field}, at).second)
      return broken("has a column twice");
  }
  const std::uint64_t bytes = content_bytes(loaded->header);
  if (bytes != record.content_bytes())
    return broken("has " + std::to_string(bytes) + " bytes of content, the index says " +
                  std::to_string(record.content_bytes()));
  known.loaded = std::move(content);
  return known;
}

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

result<partition_schema> decode_schema(const index::Partition& record, std::uint32_t version) {
  partition_schema schema;
  schema.name = record.name() == nullptr ? std::string() : record.name()->str();
  if (!name_allowed(schema.name)) return broken("a partition has an impossible name");
  std::set<std::string> seen;
  const std::size_t fields = record.fields() == nullptr ? 0 : record.fields()->size();
  if (fields > fields_max) return broken("partition \"" + schema.name + "\" has too many fields");
  for (std::size_t at = 0; at < fields; ++at) {
    const auto* field = record.fields()->Get(static_cast<flatbuffers::uoffset_t>(at));
    const auto type = dtype_from(field->dtype(), version);
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
  snapshot_reader(disk& storage, const std::string& directory, const job_runner& run)
      : storage_(storage), directory_(directory), run_(run) {}

  result<snapshot> read(epoch_id expected) {
    const std::string path = index_path();
    auto opened = storage_.open(join(directory_, path));
    if (!opened) return failure(std::move(opened.error()));
    index_reader reader(**opened);
    const auto epoch = reader.begin();
    if (!epoch) return in_file(path, epoch.error());
    version_ = reader.version();
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
    links_since_whole_ = header.links_since_whole();
    partitions_expected_ = header.partitions();
    segments_expected_ = header.segments();
    if (all_.next_row == 0 || all_.next_segment == 0 || partitions_expected_ > partitions_max)
      return broken("has impossible counts");
    return {};
  }

  result<void> take_segments(const index::Segments& list) {
    if (!all_.partitions.empty() || list.segments() == nullptr) return broken("is out of place");
    std::vector<loading_segment> round;
    std::uint64_t last = segments_.empty() ? 0 : segments_.back().id;
    for (const index::SegmentRecord* record : *list.segments()) {
      if (record->id() <= last || record->id() >= all_.next_segment || record->live_cells() == 0)
        return broken("lists an impossible segment " + std::to_string(record->id()));
      last = record->id();
      round.emplace_back().record = record;
      if (round.size() < files_open_max) continue;
      if (auto done = load(round); !done) return done;
      round.clear();
    }
    return load(round);
  }

  /// Reads some segments, one after the other; those who read share each of them.
  result<void> load(std::vector<loading_segment>& round) {
    std::vector<std::function<void()>> jobs;
    for (loading_segment& one : round)
      jobs.emplace_back([this, &one] {
        const std::string path = join(directory_, segment_path(one.record->id()));
        auto opened = open_segment(storage_, path, buffers_, one);
        if (!opened) one.reason = std::move(opened.error());
      });
    run(jobs);
    jobs.clear();
    for (loading_segment& one : round)
      for (std::size_t worker = 0; !one.reason && worker < one.loading->workers(); ++worker)
        jobs.emplace_back([&one] { one.loading->work(); });
    run(jobs);
    for (loading_segment& one : round) {
      // From here to the end of the round errors are about that file.
      in_segment_file_ = true;
      const std::string path = segment_path(one.record->id());
      if (one.reason) return in_file(path, std::move(*one.reason));
      auto loaded = one.loading->finish();
      if (!loaded) return in_file(path, std::move(loaded.error()));
      auto known = known_of(*one.record, std::move(*loaded));
      if (!known) return in_file(path, std::move(known.error()));
      in_segment_file_ = false;
      segments_.push_back(std::move(*known));
    }
    return {};
  }

  void run(const std::vector<std::function<void()>>& jobs) const {
    if (run_) return run_(jobs);
    for (const auto& job : jobs)
      job();
  }

  result<void> take_partition(const index::Partition& record) {
    if (segments_.size() != segments_expected_ || rows_left_ != 0 ||
        record.number() != all_.partitions.size() || record.number() >= partitions_expected_)
      return broken("is out of place");
    auto schema = decode_schema(record, version_);
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
      if (segment.found_cells != segment.live_cells ||
          segment.found_bytes > content_bytes(segment.loaded.header))
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
      all_.segments.insert(segment.id, {segment.loaded.memory, segment.found_bytes,
                                        segment.found_cells, content_bytes(segment.loaded.header)});
    return snapshot(std::move(all_));
  }

public:
  /// Where everything stands. @pre `read` succeeded
  result<snapshot_files> files(const manifest& content) const {
    snapshot_files listed{
        .epoch = content.epoch, .links_since_whole = links_since_whole_, .segments = {}};
    for (const known_segment& segment : segments_) {
      const manifest_file* file = content.find(segment_path(segment.id));
      if (file == nullptr)
        return in_file(segment_path(segment.id), {errc::corrupt, "the manifest does not name it"});
      segment_layout layout;
      for (std::size_t at = 0; at < segment.loaded.begins.size(); ++at)
        layout.add(segment.loaded.begins[at], segment.loaded.header.columns[at].bytes, 0);
      layout.finish();
      listed.segments.emplace(
          segment.id,
          written_segment{.file = *file,
                          .epoch = segment.loaded.header.epoch,
                          .content_bytes = content_bytes(segment.loaded.header),
                          .layout = std::make_shared<segment_layout>(std::move(layout))});
    }
    return listed;
  }

private:
  disk& storage_;
  const std::string& directory_;
  const job_runner& run_;
  chunk_buffers buffers_;
  contents all_;
  std::uint64_t links_since_whole_ = 0;
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
  std::uint32_t version_ = 0;
  bool in_segment_file_ = false;
  bool ended_ = false;
};

} // namespace

result<snapshot> read_snapshot(disk& storage, const std::string& directory, epoch_id epoch,
                               const job_runner& run) {
  return snapshot_reader(storage, directory, run).read(epoch);
}

result<loaded_snapshot> load_snapshot(disk& storage, const std::string& directory,
                                      const manifest& content, const job_runner& run) {
  snapshot_reader reader(storage, directory, run);
  auto state = reader.read(content.epoch);
  if (!state) return failure(std::move(state.error()));
  auto files = reader.files(content);
  if (!files) return failure(std::move(files.error()));
  return loaded_snapshot{std::move(*state),
                         std::make_shared<const snapshot_files>(std::move(*files))};
}

} // namespace weir::dataplane
