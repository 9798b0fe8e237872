#include "dataplane/segment_file.hpp"

#include "dataplane/checksum.hpp"
#include "dataplane/compression.hpp"
#include "dataplane/wire.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::uint64_t header_magic = 0x6d67657372696577; // "weirsegm"
constexpr std::uint64_t end_magic = 0x646e657372696577;    // "weirsend"
constexpr std::uint32_t chunk_magic = 0x6b6e6863;          // "chnk"
constexpr std::size_t header_fixed_bytes = 48;
constexpr std::size_t header_column_bytes = 16;
constexpr std::size_t checksum_bytes = 16;
constexpr std::size_t chunk_record_bytes = 64;
constexpr std::size_t end_record_bytes = 48;
/// No LZ4 frame grows by more than this when it is decoded.
constexpr std::uint64_t expansion_max = 256;
constexpr std::uint64_t columns_max =
    (frame_content_max - header_fixed_bytes - checksum_bytes) / header_column_bytes;

/// Elements that gain from a shuffle, and whose type says so.
std::size_t shuffle_of(dtype type) {
  const std::uint64_t bytes = element_bytes(type);
  return bytes == 2 || bytes == 4 ? static_cast<std::size_t>(bytes) : 1;
}

std::vector<std::byte> encode_header(const segment_header& header) {
  std::vector<std::byte> payload;
  detail::put(payload, header_magic);
  detail::put(payload, segment_format_version);
  detail::put(payload, static_cast<std::uint32_t>(header.columns.size()));
  detail::put(payload, header.segment);
  detail::put(payload, header.epoch.incarnation);
  detail::put(payload, header.epoch.life);
  detail::put(payload, header.epoch.number);
  for (const segment_column& column : header.columns) {
    detail::put(payload, column.partition);
    detail::put(payload, column.field);
    detail::put(payload, static_cast<std::uint8_t>(column.type));
    detail::put(payload, std::uint8_t{0});
    detail::put(payload, column.bytes);
  }
  detail::put(payload, checksum_of(payload));
  return payload;
}

/// What stands in front of a data frame.
struct chunk_record {
  std::uint32_t column = 0;
  std::uint64_t offset = 0;
  std::uint32_t content_bytes = 0;
  std::uint32_t frame_bytes = 0;
  std::uint32_t shuffle = 1;
  checksum128 frame_checksum;
};

std::vector<std::byte> encode_record(const chunk_record& record) {
  std::vector<std::byte> payload;
  detail::put(payload, chunk_magic);
  detail::put(payload, record.column);
  detail::put(payload, record.offset);
  detail::put(payload, record.content_bytes);
  detail::put(payload, record.frame_bytes);
  detail::put(payload, record.shuffle);
  detail::put(payload, std::uint32_t{0});
  detail::put(payload, record.frame_checksum);
  detail::put(payload, checksum_of(payload));
  ensure(payload.size() == chunk_record_bytes, "a chunk record has its size");
  return payload;
}

// ---- Writing -----------------------------------------------------------------------------------

class segment_writer {
public:
  segment_writer(const segment_content& content, const byte_sink& sink)
      : content_(content), sink_(sink) {}

  result<std::uint64_t> write() {
    ensure(content_.pieces.size() == content_.header.columns.size(), "every column has its pieces");
    ensure(content_.header.columns.size() <= columns_max, "a segment has few enough columns");
    if (auto put = skippable(encode_header(content_.header)); !put)
      return failure(std::move(put.error()));
    for (std::size_t column = 0; column < content_.pieces.size(); ++column)
      if (auto put = write_column(column); !put) return failure(std::move(put.error()));
    std::vector<std::byte> end;
    detail::put(end, end_magic);
    detail::put(end, chunks_);
    detail::put(end, bytes_);
    detail::put(end, std::uint64_t{0});
    detail::put(end, checksum_of(end));
    ensure(end.size() == end_record_bytes, "the end of a segment has its size");
    if (auto put = skippable(end); !put) return failure(std::move(put.error()));
    return bytes_;
  }

private:
  result<void> append(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    return sink_(bytes);
  }

  result<void> skippable(std::span<const std::byte> payload) {
    std::vector<std::byte> frame;
    append_skippable_frame(frame, payload);
    return append(frame);
  }

  result<void> write_column(std::size_t column) {
    std::uint64_t offset = 0;
    gathered_.clear();
    for (std::span<const std::byte> piece : content_.pieces[column]) {
      while (!piece.empty()) {
        // A whole chunk within one piece is written from where it lies.
        if (gathered_.empty() && piece.size() >= frame_content_max) {
          auto put = write_chunk(column, std::exchange(offset, offset + frame_content_max),
                                 piece.first(frame_content_max));
          if (!put) return put;
          piece = piece.subspan(frame_content_max);
          continue;
        }
        const std::size_t taken = std::min(piece.size(), frame_content_max - gathered_.size());
        gathered_.insert(gathered_.end(), piece.begin(),
                         piece.begin() + static_cast<std::ptrdiff_t>(taken));
        piece = piece.subspan(taken);
        if (gathered_.size() < frame_content_max) continue;
        if (auto put = write_gathered(column, offset); !put) return put;
      }
    }
    if (!gathered_.empty())
      if (auto put = write_gathered(column, offset); !put) return put;
    ensure(offset == content_.header.columns[column].bytes, "a column has the bytes it says");
    return {};
  }

  result<void> write_gathered(std::size_t column, std::uint64_t& offset) {
    auto put = write_chunk(column, offset, gathered_);
    offset += gathered_.size();
    gathered_.clear();
    return put;
  }

  result<void> write_chunk(std::size_t column, std::uint64_t offset,
                           std::span<const std::byte> content) {
    ++chunks_;
    const std::size_t shuffle = shuffle_of(content_.header.columns[column].type);
    chunk_record record{.column = static_cast<std::uint32_t>(column),
                        .offset = offset,
                        .content_bytes = static_cast<std::uint32_t>(content.size()),
                        .frame_bytes = 0,
                        .shuffle = 1,
                        .frame_checksum = {}};
    if (!compresses(content, shuffle)) return write_stored(record, content);
    record.shuffle = static_cast<std::uint32_t>(shuffle);
    if (shuffle > 1) {
      shuffled_.resize(content.size());
      shuffle_bytes(content, shuffle, shuffled_);
      content = shuffled_;
    }
    compress_frame(content, frame_);
    record.frame_bytes = static_cast<std::uint32_t>(frame_.size());
    record.frame_checksum = checksum_of(frame_);
    if (auto put = skippable(encode_record(record)); !put) return put;
    return append(frame_);
  }

  result<void> write_stored(chunk_record record, std::span<const std::byte> content) {
    const auto head = stored_frame_head(content.size());
    checksum_stream sum;
    sum.update(head);
    sum.update(content);
    sum.update(stored_frame_tail);
    record.frame_checksum = sum.digest();
    record.frame_bytes =
        static_cast<std::uint32_t>(head.size() + content.size() + stored_frame_tail.size());
    if (auto put = skippable(encode_record(record)); !put) return put;
    if (auto put = append(head); !put) return put;
    if (auto put = append(content); !put) return put;
    return append(stored_frame_tail);
  }

  const segment_content& content_;
  const byte_sink& sink_;
  std::uint64_t bytes_ = 0;
  std::uint64_t chunks_ = 0;
  std::vector<std::byte> gathered_;
  std::vector<std::byte> shuffled_;
  std::vector<std::byte> frame_;
};

// ---- Reading -----------------------------------------------------------------------------------

/// The last 16 bytes are the checksum of those before.
bool seals_itself(std::span<const std::byte> payload) {
  if (payload.size() < checksum_bytes) return false;
  const std::size_t covered = payload.size() - checksum_bytes;
  return detail::wire_reader(payload.subspan(covered)).take_checksum() ==
         checksum_of(payload.first(covered));
}

class segment_reader {
public:
  explicit segment_reader(file& source) : source_(source) {}

  result<loaded_segment> read() {
    auto size = source_.size();
    if (!size) return failure(std::move(size.error()));
    left_ = *size;
    if (auto done = read_header(*size); !done) return failure(std::move(done.error()));
    if (auto done = allocate(*size); !done) return failure(std::move(done.error()));
    for (std::size_t column = 0; column < loaded_.header.columns.size(); ++column)
      if (auto done = read_column(column); !done) return failure(std::move(done.error()));
    if (auto done = read_end(); !done) return failure(std::move(done.error()));
    loaded_.memory = std::move(memory_);
    return std::move(loaded_);
  }

private:
  tl::unexpected<error> broken(const std::string& what) const {
    return failure(errc::corrupt, what + " at byte " + std::to_string(position_));
  }

  result<void> take(std::size_t bytes, const char* what) {
    if (bytes > left_) return broken(std::string("truncated: ") + what + " is incomplete");
    taken_.resize(bytes);
    return take_into(taken_, what);
  }

  result<void> take_into(std::span<std::byte> target, const char* what) {
    const auto got = target.size() <= left_ ? source_.read_at(position_, target)
                                            : result<std::size_t>(std::size_t{0});
    if (!got) return failure(got.error());
    if (*got != target.size()) return broken(std::string("truncated: ") + what + " is incomplete");
    position_ += target.size();
    left_ -= target.size();
    return {};
  }

  /// Takes a skippable frame; its payload is in `taken_` then.
  result<void> take_skippable(std::size_t bytes_min, std::size_t bytes_max, const char* what) {
    if (auto done = take(skippable_header_bytes, what); !done) return done;
    detail::wire_reader header(taken_);
    const auto magic = header.take<std::uint32_t>();
    const auto bytes = header.take<std::uint32_t>();
    if (magic != skippable_magic || bytes < bytes_min || bytes > bytes_max)
      return broken(std::string(what) + " is damaged");
    return take(bytes, what);
  }

  result<void> read_header(std::uint64_t file_bytes) {
    if (auto done = take_skippable(header_fixed_bytes + checksum_bytes, frame_content_max,
                                   "the header of the segment");
        !done)
      return done;
    detail::wire_reader reader(taken_);
    if (reader.take<std::uint64_t>() != header_magic || !seals_itself(taken_))
      return broken("the header of the segment is damaged");
    const auto version = reader.take<std::uint32_t>();
    if (version != segment_format_version)
      return failure(errc::unsupported, "segment format " + std::to_string(version) +
                                            "; this program reads " +
                                            std::to_string(segment_format_version));
    const auto columns = reader.take<std::uint32_t>();
    loaded_.header.segment = reader.take<std::uint64_t>();
    loaded_.header.epoch.incarnation = reader.take<std::uint64_t>();
    loaded_.header.epoch.life = reader.take<std::uint64_t>();
    loaded_.header.epoch.number = reader.take<std::uint64_t>();
    if (taken_.size() != header_fixed_bytes + columns * header_column_bytes + checksum_bytes)
      return broken("the header of the segment has another number of columns");
    for (std::uint32_t at = 0; at < columns; ++at)
      if (auto done = read_column_header(reader, file_bytes); !done) return done;
    return {};
  }

  result<void> read_column_header(detail::wire_reader& reader, std::uint64_t file_bytes) {
    segment_column column;
    column.partition = reader.take<std::uint32_t>();
    column.field = reader.take<std::uint16_t>();
    const auto type = dtype_from(reader.take<std::uint8_t>());
    const auto zero = reader.take<std::uint8_t>();
    column.bytes = reader.take<std::uint64_t>();
    if (!type || zero != 0 || column.bytes == 0 || column.bytes % element_bytes(*type) != 0 ||
        column.bytes / expansion_max > file_bytes)
      return broken("the header of the segment has an impossible column");
    column.type = *type;
    loaded_.header.columns.push_back(column);
    return {};
  }

  result<void> allocate(std::uint64_t file_bytes) {
    std::uint64_t total = 0;
    for (const segment_column& column : loaded_.header.columns) {
      loaded_.begins.push_back(total);
      total += align_tensor(column.bytes);
      if (total / expansion_max > file_bytes + align_tensor(1))
        return broken("the header of the segment says more bytes than the file can hold");
    }
    memory_ = segment::allocate(total);
    if (!memory_)
      return failure(errc::exhausted, "no memory for a segment of " + std::to_string(total) +
                                          " bytes: restore on a larger machine");
    return {};
  }

  result<void> read_column(std::size_t column) {
    const segment_column& header = loaded_.header.columns[column];
    std::uint64_t offset = 0;
    while (offset < header.bytes) {
      chunk_record record;
      if (auto done = read_record(record); !done) return done;
      const bool shuffles = record.shuffle == 1 || record.shuffle == shuffle_of(header.type);
      if (record.column != column || record.offset != offset || !shuffles ||
          record.content_bytes == 0 || record.content_bytes > frame_content_max ||
          record.content_bytes > header.bytes - offset ||
          record.content_bytes % element_bytes(header.type) != 0 ||
          record.frame_bytes > frame_bytes_max(record.content_bytes))
        return broken("a chunk does not continue its column");
      if (auto done = read_chunk(record); !done) return done;
      offset += record.content_bytes;
      ++chunks_;
    }
    return {};
  }

  result<void> read_record(chunk_record& record) {
    auto done = take_skippable(chunk_record_bytes, chunk_record_bytes, "the record of a chunk");
    if (!done) return done;
    detail::wire_reader reader(taken_);
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

  result<void> read_chunk(const chunk_record& record) {
    const std::span<std::byte> target =
        memory_->writable(loaded_.begins[record.column] + record.offset, record.content_bytes);
    if (record.shuffle == 1 && record.frame_bytes == stored_frame_bytes(record.content_bytes)) {
      const auto stored = read_stored(record, target);
      if (!stored || *stored) return stored ? result<void>{} : failure(stored.error());
    }
    if (auto done = take(record.frame_bytes, "a chunk"); !done) return done;
    if (checksum_of(taken_) != record.frame_checksum)
      return broken("the checksum of a chunk differs");
    if (record.shuffle == 1) return decompress_frame(taken_, target);
    shuffled_.resize(record.content_bytes);
    if (auto done = decompress_frame(taken_, shuffled_); !done) return done;
    unshuffle_bytes(shuffled_, record.shuffle, target);
    return {};
  }

  /// Content that stands in its frame as it is goes straight to where it belongs. Returns false,
  /// and takes nothing, if the frame is of another kind.
  result<bool> read_stored(const chunk_record& record, std::span<std::byte> target) {
    const auto head = stored_frame_head(record.content_bytes);
    if (auto done = take(head.size(), "a chunk"); !done) return failure(std::move(done.error()));
    if (!std::ranges::equal(taken_, head)) {
      position_ -= head.size();
      left_ += head.size();
      return false;
    }
    if (auto done = take_into(target, "a chunk"); !done) return failure(std::move(done.error()));
    if (auto done = take(stored_frame_tail.size(), "a chunk"); !done)
      return failure(std::move(done.error()));
    checksum_stream sum;
    sum.update(head);
    sum.update(target);
    sum.update(taken_);
    if (sum.digest() != record.frame_checksum) return broken("the checksum of a chunk differs");
    if (!std::ranges::equal(taken_, stored_frame_tail))
      return broken("a chunk does not end where it should");
    return true;
  }

  result<void> read_end() {
    const std::uint64_t begin = position_;
    if (auto done = take_skippable(end_record_bytes, end_record_bytes, "the end of the segment");
        !done)
      return done;
    detail::wire_reader reader(taken_);
    if (reader.take<std::uint64_t>() != end_magic || !seals_itself(taken_) ||
        reader.take<std::uint64_t>() != chunks_ || reader.take<std::uint64_t>() != begin ||
        reader.take<std::uint64_t>() != 0)
      return broken("the end of the segment is damaged");
    if (left_ != 0) return broken(std::to_string(left_) + " bytes too many");
    return {};
  }

  file& source_;
  std::uint64_t position_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t chunks_ = 0;
  loaded_segment loaded_;
  std::shared_ptr<segment> memory_;
  std::vector<std::byte> taken_;
  std::vector<std::byte> shuffled_;
};

} // namespace

result<std::uint64_t> write_segment(const segment_content& content, const byte_sink& sink) {
  return segment_writer(content, sink).write();
}

result<loaded_segment> read_segment(file& source) {
  return segment_reader(source).read();
}

} // namespace weir::dataplane
