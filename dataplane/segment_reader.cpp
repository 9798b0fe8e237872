/// Reading a segment's file, by several threads: whoever is free reads the records of the next part
/// while the others load theirs.
///
/// The bound is the disk, or one pass over fresh memory: what the system copies out of its cache is
/// hashed a piece at a time, while it is still in the processor's own. To read all records first
/// would be a walk over the disk, in steps of which each waits for it.
#include "dataplane/checksum.hpp"
#include "dataplane/segment_file.hpp"
#include "dataplane/segment_format.hpp"
#include "dataplane/wire.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace weir::dataplane {

using namespace detail;

namespace {

/// Read and hashed at a time: with what it is copied from, less than a core's own cache.
constexpr std::size_t piece_bytes = std::size_t{64} * 1024;
/// Content of one part, about: small, so that threads end at the same time.
constexpr std::uint64_t part_bytes = std::uint64_t{4} << 20;
/// Threads at one segment, at most.
constexpr std::uint64_t workers_max = 16;

tl::unexpected<error> broken_at(std::uint64_t position, const std::string& what) {
  return failure(errc::corrupt, what + " at byte " + std::to_string(position));
}

/// The last 16 bytes are the checksum of those before.
bool seals_itself(std::span<const std::byte> payload) {
  if (payload.size() < checksum_bytes) return false;
  const std::size_t covered = payload.size() - checksum_bytes;
  return wire_reader(payload.subspan(covered)).take_checksum() ==
         checksum_of(payload.first(covered));
}

/// Loads chunks one after the other.
class chunk_loader {
public:
  chunk_loader(file& source, chunk_buffer& buffer) : source_(source), buffer_(buffer) {}

  /// @pre `target` has the bytes of the record's content
  result<void> load(const chunk_record& record, std::uint64_t position,
                    std::span<std::byte> target) {
    const bool may_be_stored =
        record.shuffle == 1 && record.frame_bytes == stored_frame_bytes(record.content_bytes);
    if (may_be_stored) {
      const auto stored = load_stored(record, position, target);
      if (!stored || *stored) return stored ? result<void>{} : failure(stored.error());
    }
    checksum_stream sum;
    const auto frame = buffer_.frame.of(record.frame_bytes);
    if (auto done = read_hashed(position, frame, sum); !done) return done;
    if (sum.digest() != record.frame_checksum)
      return broken_at(position, "the checksum of a chunk differs");
    if (record.shuffle == 1) return decompress_frame(frame, target);
    const auto shuffled = buffer_.shuffled.of(record.content_bytes);
    if (auto done = decompress_frame(frame, shuffled); !done) return done;
    unshuffle_bytes(shuffled, record.shuffle, target);
    return {};
  }

private:
  result<void> read(std::uint64_t position, std::span<std::byte> target) {
    const auto got = source_.read_at(position, target);
    if (!got) return failure(got.error());
    if (*got != target.size()) return broken_at(position, "truncated: a chunk is incomplete");
    return {};
  }

  result<void> read_hashed(std::uint64_t position, std::span<std::byte> target,
                           checksum_stream& sum) {
    while (!target.empty()) {
      const auto piece = target.first(std::min(target.size(), piece_bytes));
      if (auto done = read(position, piece); !done) return done;
      sum.update(piece);
      position += piece.size();
      target = target.subspan(piece.size());
    }
    return {};
  }

  /// Content that stands in its frame as it is goes straight to where it belongs. Returns false if
  /// the frame is of another kind.
  result<bool> load_stored(const chunk_record& record, std::uint64_t position,
                           std::span<std::byte> target) {
    const auto expected = stored_frame_head(record.content_bytes);
    std::array<std::byte, expected.size()> head{};
    if (auto done = read(position, head); !done) return failure(std::move(done.error()));
    if (head != expected) return false;
    checksum_stream sum;
    sum.update(head);
    if (auto done = read_hashed(position + head.size(), target, sum); !done)
      return failure(std::move(done.error()));
    std::array<std::byte, stored_frame_tail.size()> tail{};
    if (auto done = read(position + head.size() + target.size(), tail); !done)
      return failure(std::move(done.error()));
    sum.update(tail);
    if (sum.digest() != record.frame_checksum)
      return broken_at(position, "the checksum of a chunk differs");
    if (tail != stored_frame_tail)
      return broken_at(position, "a chunk does not end where it should");
    return true;
  }

  file& source_;
  chunk_buffer& buffer_;
};

} // namespace

/// The frame of the file: header, records, end.
class segment_loading::scanner {
public:
  explicit scanner(file& source) : source_(source) {}

  /// The header.
  result<void> begin() {
    const auto size = source_.size();
    if (!size) return failure(size.error());
    file_bytes_ = *size;
    left_ = *size;
    if (auto done = read_header(*size); !done) return done;
    loaded_.stored_bytes.resize(header().columns.size());
    return allocate(*size);
  }

  /// The records of the next chunks, or at last the end of the file. @pre `!ended()`
  result<std::vector<chunk_place>> next() {
    std::vector<chunk_place> part;
    std::uint64_t bytes = 0;
    while (bytes < part_bytes && column_ < header().columns.size()) {
      const std::uint64_t begin = position_;
      if (auto done = read_chunk(part.emplace_back()); !done)
        return failure(std::move(done.error()));
      bytes += part.back().record.content_bytes;
      loaded_.stored_bytes[column_] += position_ - begin;
      if (offset_ < header().columns[column_].bytes) continue;
      ++column_;
      offset_ = 0;
    }
    if (column_ < header().columns.size()) return part;
    ended_ = true;
    if (auto done = read_end(); !done) return failure(std::move(done.error()));
    return part;
  }
  [[nodiscard]] bool ended() const { return ended_; }

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] file& source() const { return source_; }
  /// Where the content of a chunk belongs.
  [[nodiscard]] std::span<std::byte> target_of(const chunk_record& record) const {
    return {base_ + loaded_.begins[record.column] + record.offset, record.content_bytes};
  }
  [[nodiscard]] loaded_segment finish() {
    loaded_.memory = std::move(memory_);
    return std::move(loaded_);
  }

private:
  [[nodiscard]] segment_header& header() { return loaded_.header; }

  tl::unexpected<error> broken(const std::string& what) const { return broken_at(position_, what); }

  result<void> take(std::size_t bytes, const char* what) {
    if (bytes > left_) return broken(std::string("truncated: ") + what + " is incomplete");
    taken_.resize(bytes);
    const auto got = source_.read_at(position_, taken_);
    if (!got) return failure(got.error());
    if (*got != bytes) return broken(std::string("truncated: ") + what + " is incomplete");
    position_ += bytes;
    left_ -= bytes;
    return {};
  }

  /// Takes a skippable frame; its payload is in `taken_` then.
  result<void> take_skippable(std::size_t bytes_min, std::size_t bytes_max, const char* what) {
    if (auto done = take(skippable_header_bytes, what); !done) return done;
    const std::uint32_t bytes = frame_payload_bytes();
    if (bytes < bytes_min || bytes > bytes_max) return broken(std::string(what) + " is damaged");
    return take(bytes, what);
  }

  /// The same for a frame of a known size: one read.
  result<void> take_skippable(std::size_t bytes, const char* what) {
    if (auto done = take(skippable_header_bytes + bytes, what); !done) return done;
    if (frame_payload_bytes() != bytes) return broken(std::string(what) + " is damaged");
    taken_.erase(taken_.begin(), taken_.begin() + skippable_header_bytes);
    return {};
  }

  /// Of the skippable frame that was taken; 0 if it is another.
  [[nodiscard]] std::uint32_t frame_payload_bytes() const {
    wire_reader frame(taken_);
    const bool ours = frame.take<std::uint32_t>() == skippable_magic;
    const auto bytes = frame.take<std::uint32_t>();
    return ours ? bytes : 0;
  }

  result<void> read_header(std::uint64_t file_bytes) {
    if (auto done = take_skippable(header_fixed_bytes + checksum_bytes, frame_content_max,
                                   "the header of the segment");
        !done)
      return done;
    wire_reader reader(taken_);
    if (reader.take<std::uint64_t>() != header_magic || !seals_itself(taken_))
      return broken("the header of the segment is damaged");
    version_ = reader.take<std::uint32_t>();
    if (version_ == 0 || version_ > segment_format_version)
      return failure(errc::unsupported, "segment format " + std::to_string(version_) +
                                            "; this program reads up to " +
                                            std::to_string(segment_format_version));
    const auto columns = reader.take<std::uint32_t>();
    header().segment = reader.take<std::uint64_t>();
    header().epoch.incarnation = reader.take<std::uint64_t>();
    header().epoch.life = reader.take<std::uint64_t>();
    header().epoch.number = reader.take<std::uint64_t>();
    if (taken_.size() != header_fixed_bytes + columns * header_column_bytes + checksum_bytes)
      return broken("the header of the segment has another number of columns");
    for (std::uint32_t at = 0; at < columns; ++at)
      if (auto done = read_column_header(reader, file_bytes); !done) return done;
    return {};
  }

  result<void> read_column_header(wire_reader& reader, std::uint64_t file_bytes) {
    segment_column column;
    column.partition = reader.take<std::uint32_t>();
    column.field = reader.take<std::uint16_t>();
    const auto type = dtype_from(reader.take<std::uint8_t>(), version_);
    const auto zero = reader.take<std::uint8_t>();
    column.bytes = reader.take<std::uint64_t>();
    if (!type || zero != 0 || column.bytes == 0 || column.bytes % element_bytes(*type) != 0 ||
        column.bytes / expansion_max > file_bytes)
      return broken("the header of the segment has an impossible column");
    column.type = *type;
    header().columns.push_back(column);
    return {};
  }

  result<void> allocate(std::uint64_t file_bytes) {
    std::uint64_t total = 0;
    for (const segment_column& column : header().columns) {
      loaded_.begins.push_back(total);
      total += align_tensor(column.bytes);
      if (total / expansion_max > file_bytes + align_tensor(1))
        return broken("the header of the segment says more bytes than the file can hold");
    }
    memory_ = segment::allocate(total);
    if (!memory_)
      return failure(errc::exhausted, "no memory for a segment of " + std::to_string(total) +
                                          " bytes: restore on a larger machine");
    base_ = memory_->writable(0, total).data();
    return {};
  }

  /// One record, checked against its column; its frame is stepped over.
  result<void> read_chunk(chunk_place& chunk) {
    chunk_record& record = chunk.record;
    if (auto done = read_record(record); !done) return done;
    const segment_column& expected = header().columns[column_];
    const bool shuffles = record.shuffle == 1 || record.shuffle == shuffle_of(expected.type);
    if (record.column != column_ || record.offset != offset_ || !shuffles ||
        record.content_bytes == 0 || record.content_bytes > frame_content_max ||
        record.content_bytes > expected.bytes - offset_ ||
        record.content_bytes % element_bytes(expected.type) != 0 ||
        record.frame_bytes > frame_bytes_max(record.content_bytes))
      return broken("a chunk does not continue its column");
    if (record.frame_bytes > left_) return broken("truncated: a chunk is incomplete");
    chunk.position = position_;
    position_ += record.frame_bytes;
    left_ -= record.frame_bytes;
    offset_ += record.content_bytes;
    ++chunks_;
    return {};
  }

  result<void> read_record(chunk_record& record) {
    auto done = take_skippable(chunk_record_bytes, "the record of a chunk");
    if (!done) return done;
    wire_reader reader(taken_);
    if (reader.take<std::uint32_t>() != chunk_magic || !seals_itself(taken_))
      return broken("the record of a chunk is damaged");
    record.column = reader.take<std::uint32_t>();
    record.offset = reader.take<std::uint64_t>();
    record.content_bytes = reader.take<std::uint32_t>();
    record.frame_bytes = reader.take<std::uint32_t>();
    record.shuffle = reader.take<std::uint32_t>();
    if (reader.take<std::uint32_t>() != 0)
      return broken("the record of a chunk has bits of a newer format");
    record.frame_checksum = reader.take_checksum();
    return {};
  }

  result<void> read_end() {
    const std::uint64_t begin = position_;
    if (auto done = take_skippable(end_record_bytes, "the end of the segment"); !done) return done;
    wire_reader reader(taken_);
    if (reader.take<std::uint64_t>() != end_magic || !seals_itself(taken_) ||
        reader.take<std::uint64_t>() != chunks_ || reader.take<std::uint64_t>() != begin ||
        reader.take<std::uint64_t>() != 0)
      return broken("the end of the segment is damaged");
    if (left_ != 0) return broken(std::to_string(left_) + " bytes too many");
    return {};
  }

  file& source_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t left_ = 0;
  std::uint32_t version_ = 0;
  loaded_segment loaded_;
  std::shared_ptr<segment> memory_;
  std::byte* base_ = nullptr;
  std::size_t column_ = 0;   ///< Whose records are next.
  std::uint64_t offset_ = 0; ///< In its stream.
  std::uint64_t chunks_ = 0;
  bool ended_ = false;
  std::vector<std::byte> taken_;
};

segment_loading::segment_loading(std::unique_ptr<scanner> records, chunk_buffers& buffers)
    : records_(std::move(records)), buffers_(buffers) {}
segment_loading::~segment_loading() = default;

result<std::unique_ptr<segment_loading>> segment_loading::begin(file& source,
                                                                chunk_buffers& buffers) {
  auto records = std::make_unique<scanner>(source);
  if (auto begun = records->begin(); !begun) return failure(std::move(begun.error()));
  return std::unique_ptr<segment_loading>(new segment_loading(std::move(records), buffers));
}

std::size_t segment_loading::workers() const {
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(records_->file_bytes() / part_bytes, 1, workers_max));
}

void segment_loading::work() {
  auto buffer = buffers_.take();
  for (auto part = next_part(); !part.empty(); part = next_part())
    if (!load(part, *buffer)) break;
  buffers_.give_back(std::move(buffer));
}

std::vector<segment_loading::chunk_place> segment_loading::next_part() {
  const std::lock_guard held(mutex_);
  if (reason_ || records_->ended()) return {};
  auto part = records_->next();
  if (part) return std::move(*part);
  fail(records_->position(), std::move(part.error()));
  return {};
}

bool segment_loading::load(std::span<const chunk_place> part, chunk_buffer& buffer) {
  chunk_loader loader(records_->source(), buffer);
  for (const auto& [record, position] : part) {
    auto done = loader.load(record, position, records_->target_of(record));
    if (done) continue;
    const std::lock_guard held(mutex_);
    fail(position, std::move(done.error()));
    return false;
  }
  return true;
}

/// Every part that was begun is loaded as far as it goes, so that the first damage is always found.
void segment_loading::fail(std::uint64_t position, error reason) {
  if (reason_ && reason_position_ <= position) return;
  reason_ = std::move(reason);
  reason_position_ = position;
}

result<loaded_segment> segment_loading::finish() {
  if (reason_) return failure(std::move(*reason_));
  ensure(records_->ended(), "a segment is loaded to its end");
  return records_->finish();
}

result<loaded_segment> read_segment(file& source) {
  chunk_buffers buffers;
  auto loading = segment_loading::begin(source, buffers);
  if (!loading) return failure(std::move(loading.error()));
  (*loading)->work();
  return (*loading)->finish();
}

} // namespace weir::dataplane
