#include "dataplane/segment_file.hpp"

#include "dataplane/checksum.hpp"
#include "dataplane/compression.hpp"
#include "dataplane/segment_format.hpp"
#include "dataplane/wire.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

using namespace detail;

/// Content of a compressed chunk: it is shuffled and compressed, and later decoded and unshuffled,
/// within a core's own cache. Every element size divides it.
constexpr std::size_t compressed_chunk_bytes = std::size_t{256} * 1024;

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

  /// At most 4 MiB: one chunk as it is, or compressed ones.
  result<void> write_chunk(std::size_t column, std::uint64_t offset,
                           std::span<const std::byte> content) {
    const std::size_t shuffle = shuffle_of(content_.header.columns[column].type);
    chunk_record record{.column = static_cast<std::uint32_t>(column),
                        .offset = offset,
                        .content_bytes = static_cast<std::uint32_t>(content.size()),
                        .frame_bytes = 0,
                        .shuffle = 1,
                        .frame_checksum = {}};
    if (!compresses(content, shuffle)) return write_stored(record, content);
    record.shuffle = static_cast<std::uint32_t>(shuffle);
    while (!content.empty()) {
      const auto piece = content.first(std::min(content.size(), compressed_chunk_bytes));
      if (auto put = write_compressed(record, piece); !put) return put;
      record.offset += piece.size();
      content = content.subspan(piece.size());
    }
    return {};
  }

  result<void> write_compressed(chunk_record record, std::span<const std::byte> content) {
    ++chunks_;
    record.content_bytes = static_cast<std::uint32_t>(content.size());
    if (record.shuffle > 1) {
      shuffled_.resize(content.size());
      shuffle_bytes(content, record.shuffle, shuffled_);
      content = shuffled_;
    }
    compress_frame(content, frame_);
    record.frame_bytes = static_cast<std::uint32_t>(frame_.size());
    record.frame_checksum = checksum_of(frame_);
    if (auto put = skippable(encode_record(record)); !put) return put;
    return append(frame_);
  }

  result<void> write_stored(chunk_record record, std::span<const std::byte> content) {
    ++chunks_;
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

} // namespace

result<std::uint64_t> write_segment(const segment_content& content, const byte_sink& sink) {
  return segment_writer(content, sink).write();
}

} // namespace weir::dataplane
