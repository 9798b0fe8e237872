#include "dataplane/index_file.hpp"

#include "dataplane/checksum.hpp"
#include "dataplane/wire.hpp"

#include <string>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::uint64_t magic = 0x78646e6972696577; // "weirindx"
constexpr std::size_t preamble_bytes = 56;
constexpr std::size_t chunk_header_bytes = 48;
constexpr std::size_t checksum_bytes = 16;

bool seals_itself(std::span<const std::byte> bytes) {
  const std::size_t covered = bytes.size() - checksum_bytes;
  return detail::wire_reader(bytes.subspan(covered)).take_checksum() ==
         checksum_of(bytes.first(covered));
}

} // namespace

result<void> index_writer::begin(epoch_id epoch) {
  std::vector<std::byte> preamble;
  detail::put(preamble, magic);
  detail::put(preamble, index_format_version);
  detail::put(preamble, std::uint32_t{0});
  detail::put(preamble, epoch.incarnation);
  detail::put(preamble, epoch.life);
  detail::put(preamble, epoch.number);
  detail::put(preamble, checksum_of(preamble));
  ensure(preamble.size() == preamble_bytes, "the preamble of an index has its size");
  return sink_(preamble);
}

result<void> index_writer::append(std::span<const std::byte> payload) {
  ensure(!payload.empty() && payload.size() <= index_chunk_bytes_max, "a chunk is of legal size");
  std::vector<std::byte> header;
  detail::put(header, chunks_++);
  detail::put(header, std::uint64_t{payload.size()});
  detail::put(header, checksum_of(payload));
  detail::put(header, checksum_of(header));
  ensure(header.size() == chunk_header_bytes, "the header of a chunk has its size");
  if (auto put = sink_(header); !put) return put;
  return sink_(payload);
}

result<void> index_reader::take(std::size_t bytes) {
  if (bytes > left_) return failure(errc::corrupt, "truncated in chunk " + std::to_string(chunks_));
  taken_.resize(bytes);
  const auto got = source_.read_at(position_, taken_);
  if (!got) return failure(got.error());
  if (*got != bytes) return failure(errc::corrupt, "truncated in chunk " + std::to_string(chunks_));
  position_ += bytes;
  left_ -= bytes;
  return {};
}

result<epoch_id> index_reader::begin() {
  const auto size = source_.size();
  if (!size) return failure(size.error());
  left_ = *size;
  if (auto done = take(preamble_bytes); !done) return failure(std::move(done.error()));
  detail::wire_reader reader(taken_);
  if (reader.take<std::uint64_t>() != magic || !seals_itself(taken_))
    return failure(errc::corrupt, "the preamble is damaged");
  version_ = reader.take<std::uint32_t>();
  if (version_ == 0 || version_ > index_format_version)
    return failure(errc::unsupported, "index format " + std::to_string(version_) +
                                          "; this program reads up to " +
                                          std::to_string(index_format_version));
  if (reader.take<std::uint32_t>() != 0)
    return failure(errc::unsupported, "the preamble has bits of a newer format");
  epoch_id epoch;
  epoch.incarnation = reader.take<std::uint64_t>();
  epoch.life = reader.take<std::uint64_t>();
  epoch.number = reader.take<std::uint64_t>();
  return epoch;
}

result<std::span<const std::byte>> index_reader::next() {
  if (auto done = take(chunk_header_bytes); !done) return failure(std::move(done.error()));
  detail::wire_reader reader(taken_);
  const auto ordinal = reader.take<std::uint64_t>();
  const auto bytes = reader.take<std::uint64_t>();
  const auto sum = reader.take_checksum();
  if (!seals_itself(taken_) || ordinal != chunks_ || bytes == 0 || bytes > index_chunk_bytes_max)
    return failure(errc::corrupt, "the header of chunk " + std::to_string(chunks_) + " is damaged");
  if (auto done = take(static_cast<std::size_t>(bytes)); !done)
    return failure(std::move(done.error()));
  if (checksum_of(taken_) != sum)
    return failure(errc::corrupt, "the checksum of chunk " + std::to_string(chunks_) + " differs");
  ++chunks_;
  return std::span<const std::byte>(taken_);
}

} // namespace weir::dataplane
