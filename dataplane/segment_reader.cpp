/// Reading a segment's file: first its frame, from record to record, then its chunks in any order.
///
/// The bound is one pass over memory: what the system copies out of its cache is hashed a piece at
/// a time, while it is still in the processor's own.
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

/// Read and hashed at a time: less than a core's own cache.
constexpr std::size_t piece_bytes = std::size_t{256} * 1024;
/// Content of one part, about.
constexpr std::uint64_t part_bytes = std::uint64_t{8} << 20;

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

/// Memory that is not cleared before it is overwritten, used again for the next chunk.
class scratch {
public:
  [[nodiscard]] std::span<std::byte> of(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return {memory_.get(), bytes};
  }

private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

/// Loads chunks one after the other.
class chunk_loader {
public:
  explicit chunk_loader(file& source) : source_(source) {}

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
    const auto frame = frame_.of(record.frame_bytes);
    if (auto done = read_hashed(position, frame, sum); !done) return done;
    if (sum.digest() != record.frame_checksum)
      return broken_at(position, "the checksum of a chunk differs");
    if (record.shuffle == 1) return decompress_frame(frame, target);
    const auto shuffled = shuffled_.of(record.content_bytes);
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
  scratch frame_;
  scratch shuffled_;
};

} // namespace

/// The frame of the file: header, records, end.
class segment_scanner {
public:
  explicit segment_scanner(file& source) : source_(source) { made_.source_ = &source; }

  result<segment_loading> scan() {
    auto size = source_.size();
    if (!size) return failure(std::move(size.error()));
    left_ = *size;
    if (auto done = read_header(*size); !done) return failure(std::move(done.error()));
    if (auto done = allocate(*size); !done) return failure(std::move(done.error()));
    for (std::size_t column = 0; column < header().columns.size(); ++column)
      if (auto done = read_column(column); !done) return failure(std::move(done.error()));
    if (auto done = read_end(); !done) return failure(std::move(done.error()));
    divide();
    return std::move(made_);
  }

private:
  [[nodiscard]] segment_header& header() { return made_.loaded_.header; }

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
    wire_reader frame(taken_);
    const auto magic = frame.take<std::uint32_t>();
    const auto bytes = frame.take<std::uint32_t>();
    if (magic != skippable_magic || bytes < bytes_min || bytes > bytes_max)
      return broken(std::string(what) + " is damaged");
    return take(bytes, what);
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
      made_.loaded_.begins.push_back(total);
      total += align_tensor(column.bytes);
      if (total / expansion_max > file_bytes + align_tensor(1))
        return broken("the header of the segment says more bytes than the file can hold");
    }
    made_.memory_ = segment::allocate(total);
    if (!made_.memory_)
      return failure(errc::exhausted, "no memory for a segment of " + std::to_string(total) +
                                          " bytes: restore on a larger machine");
    return {};
  }

  result<void> read_column(std::size_t column) {
    const segment_column expected = header().columns[column];
    const std::uint64_t begin = position_;
    std::uint64_t offset = 0;
    while (offset < expected.bytes) {
      chunk_record record;
      if (auto done = read_record(record); !done) return done;
      const bool shuffles = record.shuffle == 1 || record.shuffle == shuffle_of(expected.type);
      if (record.column != column || record.offset != offset || !shuffles ||
          record.content_bytes == 0 || record.content_bytes > frame_content_max ||
          record.content_bytes > expected.bytes - offset ||
          record.content_bytes % element_bytes(expected.type) != 0 ||
          record.frame_bytes > frame_bytes_max(record.content_bytes))
        return broken("a chunk does not continue its column");
      if (record.frame_bytes > left_) return broken("truncated: a chunk is incomplete");
      made_.chunks_.push_back({record, position_});
      position_ += record.frame_bytes;
      left_ -= record.frame_bytes;
      offset += record.content_bytes;
    }
    made_.loaded_.stored_bytes.push_back(position_ - begin);
    return {};
  }

  result<void> read_record(chunk_record& record) {
    auto done = take_skippable(chunk_record_bytes, chunk_record_bytes, "the record of a chunk");
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
    if (auto done = take_skippable(end_record_bytes, end_record_bytes, "the end of the segment");
        !done)
      return done;
    wire_reader reader(taken_);
    if (reader.take<std::uint64_t>() != end_magic || !seals_itself(taken_) ||
        reader.take<std::uint64_t>() != made_.chunks_.size() ||
        reader.take<std::uint64_t>() != begin || reader.take<std::uint64_t>() != 0)
      return broken("the end of the segment is damaged");
    if (left_ != 0) return broken(std::to_string(left_) + " bytes too many");
    return {};
  }

  void divide() {
    std::uint64_t bytes = 0;
    std::size_t first = 0;
    for (std::size_t chunk = 0; chunk < made_.chunks_.size(); ++chunk) {
      bytes += made_.chunks_[chunk].record.content_bytes;
      if (bytes < part_bytes) continue;
      made_.parts_.emplace_back(std::exchange(first, chunk + 1), chunk + 1);
      bytes = 0;
    }
    if (first < made_.chunks_.size()) made_.parts_.emplace_back(first, made_.chunks_.size());
  }

  file& source_;
  std::uint64_t position_ = 0;
  std::uint64_t left_ = 0;
  std::uint32_t version_ = 0;
  segment_loading made_;
  std::vector<std::byte> taken_;
};

result<segment_loading> segment_loading::begin(file& source) {
  return segment_scanner(source).scan();
}

result<void> segment_loading::load(std::size_t part) const {
  chunk_loader loader(*source_);
  for (std::size_t chunk = parts_[part].first; chunk < parts_[part].second; ++chunk) {
    const chunk_record& record = chunks_[chunk].record;
    const auto target =
        memory_->writable(loaded_.begins[record.column] + record.offset, record.content_bytes);
    if (auto done = loader.load(record, chunks_[chunk].position, target); !done) return done;
  }
  return {};
}

loaded_segment segment_loading::finish() {
  loaded_.memory = std::move(memory_);
  return std::move(loaded_);
}

result<loaded_segment> read_segment(file& source) {
  auto loading = segment_loading::begin(source);
  if (!loading) return failure(std::move(loading.error()));
  for (std::size_t part = 0; part < loading->parts(); ++part)
    if (auto done = loading->load(part); !done) return failure(std::move(done.error()));
  return loading->finish();
}

} // namespace weir::dataplane
