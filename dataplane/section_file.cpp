#include "dataplane/section_file.hpp"

#include "dataplane/direct_file.hpp"
#include "dataplane/spare_tree.hpp"
#include "dataplane/wire.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

/// "weirsect" as a little-endian number.
constexpr std::uint64_t magic = 0x7463657372696577;
constexpr std::uint32_t header_version = 1;
constexpr std::size_t covered_bytes = 48;
constexpr std::size_t copy_chunk_bytes = std::size_t{1} << 20;
/// What is hashed while it is in the processor's cache, where the disk's copy left it.
constexpr std::size_t hashed_bytes = std::size_t{256} << 10;
/// Of what is not copied: one request to the disk, as long as nothing gives way.
constexpr std::size_t uncopied_bytes_max = std::size_t{4} << 20;

static_assert(covered_bytes + 16 == section_header_bytes);

result<void> copy_section(disk& storage, const std::string& source, const std::string& directory,
                          const manifest_file& expected, epoch_id epoch) {
  auto opened = storage.open(source);
  if (!opened) return failure(std::move(opened.error()));
  auto section = section_file::create(storage, directory, expected.path, epoch);
  if (!section) return failure(std::move(section.error()));
  std::vector<std::byte> chunk(copy_chunk_bytes);
  for (std::uint64_t offset = 0; offset < expected.bytes;) {
    const auto count = (*opened)->read_at(offset, chunk);
    if (!count) return failure(count.error());
    if (*count == 0) break;
    if (auto appended = section->append(std::span(chunk).first(*count)); !appended) return appended;
    offset += *count;
  }
  const auto finished = section->finish();
  if (!finished) return failure(finished.error());
  if (finished->file != expected)
    return failure(errc::corrupt, source + ": differs from its manifest");
  return {};
}

} // namespace

result<void> link_section(disk& storage, const std::string& source, const std::string& directory,
                          const manifest_file& expected, epoch_id epoch) {
  if (auto made = make_section_folders(storage, directory, expected.path); !made) return made;
  auto given = storage.link(source, join(directory, expected.path));
  if (!given && given.error().code == errc::unsupported)
    given = copy_section(storage, source, directory, expected, epoch);
  return given;
}

result<void> make_section_folders(disk& storage, const std::string& directory,
                                  const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    auto made = storage.make_directory(join(directory, path.substr(0, slash)));
    if (!made && made.error().code != errc::already_exists) return made;
  }
  return {};
}

result<section_file> section_file::create(disk& storage, const std::string& directory,
                                          std::string path, epoch_id epoch, write_pace pace) {
  if (!is_bundle_path(path))
    return failure(errc::invalid_argument, path + ": cannot be the name of a bundle's file");
  const std::string target = join(directory, path);
  auto opened = storage.create_over(spare_path(target), target);
  if (!opened && opened.error().code == errc::not_found) { // The first file of its folder.
    if (auto made = make_section_folders(storage, directory, path); !made)
      return failure(std::move(made.error()));
    opened = storage.create(target);
  }
  if (!opened) return failure(std::move(opened.error()));
  return section_file(std::move(*opened), std::move(path), epoch, std::move(pace));
}

result<void> section_file::append(std::span<const std::byte> bytes) {
  ensure(opened_ != nullptr, "nothing is appended to a finished section");
  while (!bytes.empty()) {
    const auto limit = needs_no_copy(bytes, bytes_) ? uncopied_bytes_max : hashed_bytes;
    const auto piece = bytes.first(std::min(bytes.size(), limit));
    if (auto appended = opened_->append(piece); !appended) return appended;
    if (auto counted = count(piece); !counted) return counted;
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

result<void> section_file::count(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), hashed_bytes));
    checksum_.update(piece);
    bytes_ += piece.size();
    if (pace_)
      if (auto paced = pace_(piece.size()); !paced) return paced;
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

void section_file::start_sync() {
  ensure(opened_ != nullptr, "a finished section is synced");
  opened_->start_sync();
}

result<finished_section> section_file::finish() {
  ensure(opened_ != nullptr, "a section is finished once");
  const std::unique_ptr<file> closing = std::move(opened_);
  if (auto closed = closing->close_for_tree(); !closed) return failure(std::move(closed.error()));
  return finished_section{described(), epoch_};
}

std::vector<std::byte> encode_section_header(const section_header& header) {
  std::vector<std::byte> bytes;
  bytes.reserve(section_header_bytes);
  detail::put(bytes, magic);
  detail::put(bytes, header_version);
  detail::put(bytes, std::uint32_t{0});
  detail::put(bytes, header.epoch.incarnation);
  detail::put(bytes, header.epoch.life);
  detail::put(bytes, header.epoch.number);
  detail::put(bytes, header.payload_bytes);
  detail::put(bytes, checksum_of(bytes));
  ensure(bytes.size() == section_header_bytes, "a section header has its size");
  return bytes;
}

bool has_section_header(std::span<const std::byte> bytes) {
  return detail::wire_reader(bytes).take<std::uint64_t>() == magic;
}

result<section_header> decode_section_header(std::span<const std::byte> bytes) {
  if (bytes.size() < section_header_bytes)
    return failure(errc::corrupt, "truncated to " + std::to_string(bytes.size()) + " bytes");
  if (!has_section_header(bytes)) return failure(errc::corrupt, "does not begin as a section");
  const auto covered = bytes.first(covered_bytes);
  const auto stated = detail::wire_reader(bytes.subspan(covered_bytes, 16)).take_checksum();
  if (checksum_of(covered) != stated)
    return failure(errc::corrupt, "the checksum of the section's header differs");
  detail::wire_reader reader(covered.subspan(8));
  const auto version = reader.take<std::uint32_t>();
  if (version != header_version)
    return failure(errc::unsupported, "section format " + std::to_string(version) +
                                          ", and this program reads format " +
                                          std::to_string(header_version));
  std::ignore = reader.take<std::uint32_t>(); // Zero in this version.
  section_header header;
  header.epoch.incarnation = reader.take<std::uint64_t>();
  header.epoch.life = reader.take<std::uint64_t>();
  header.epoch.number = reader.take<std::uint64_t>();
  header.payload_bytes = reader.take<std::uint64_t>();
  return header;
}

result<finished_section> write_section(disk& storage, const std::string& directory,
                                       std::string path, epoch_id epoch,
                                       std::span<const std::byte> payload, write_pace pace) {
  auto section = section_file::create(storage, directory, std::move(path), epoch, std::move(pace));
  if (!section) return failure(std::move(section.error()));
  const auto header = encode_section_header({epoch, payload.size()});
  if (auto appended = section->append(header); !appended)
    return failure(std::move(appended.error()));
  if (auto appended = section->append(payload); !appended)
    return failure(std::move(appended.error()));
  return section->finish();
}

result<std::span<const std::byte>> section_payload(std::span<const std::byte> section,
                                                   epoch_id epoch) {
  const auto header = decode_section_header(section);
  if (!header) return failure(header.error());
  const auto payload = section.subspan(section_header_bytes);
  if (payload.size() != header->payload_bytes)
    return failure(errc::corrupt, "truncated or extended: has " + std::to_string(payload.size()) +
                                      " bytes of content, says " +
                                      std::to_string(header->payload_bytes));
  if (header->epoch != epoch)
    return failure(errc::corrupt, "belongs to the cut " + to_string(header->epoch) +
                                      ", and the bundle to " + to_string(epoch));
  return payload;
}

} // namespace weir::dataplane
