#include "dataplane/manifest.hpp"

#include "dataplane/manifest_generated.h"
#include "dataplane/wire.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

/// "weirmani" as a little-endian number.
constexpr std::uint64_t magic = 0x696e616d72696577;
constexpr std::size_t header_bytes = 16;
constexpr std::size_t checksum_bytes = 16;

wire::Hash to_wire(checksum128 sum) {
  return {sum.low, sum.high};
}

checksum128 from_wire(const wire::Hash* hash) {
  if (hash == nullptr) return {};
  return {hash->low(), hash->high()};
}

void encode_body(flatbuffers::FlatBufferBuilder& builder, const manifest& content) {
  std::vector<flatbuffers::Offset<wire::ManifestFile>> files;
  for (const manifest_file& file : content.files) {
    const wire::Hash sum = to_wire(file.checksum);
    const auto path = builder.CreateString(file.path);
    files.push_back(wire::CreateManifestFile(builder, path, file.bytes, &sum));
  }
  std::vector<flatbuffers::Offset<wire::OwnerSequence>> owners;
  for (const owner_sequence& owner : content.owners) {
    const auto name = builder.CreateString(owner.owner);
    owners.push_back(wire::CreateOwnerSequence(builder, name, owner.sequence.value));
  }
  std::vector<flatbuffers::Offset<wire::MetricValue>> metrics;
  for (const metric_value& metric : content.metrics) {
    const auto name = builder.CreateString(metric.name);
    metrics.push_back(wire::CreateMetricValue(builder, name, metric.value));
  }
  flatbuffers::Offset<wire::ManifestParent> parent;
  if (content.parent) {
    const wire::Hash sum = to_wire(content.parent->manifest_checksum);
    const auto name = builder.CreateString(content.parent->name);
    parent = wire::CreateManifestParent(builder, name, &sum);
  }
  const auto run_id = builder.CreateString(content.run_id);
  const auto file_vector = builder.CreateVector(files);
  const auto owner_vector = builder.CreateVector(owners);
  const auto metric_vector = builder.CreateVector(metrics);
  builder.Finish(wire::CreateManifest(builder, run_id, content.epoch.incarnation,
                                      content.epoch.life, content.epoch.number, content.step,
                                      parent, file_vector, owner_vector, metric_vector));
}

/// The frame is intact and of our version: returns the body.
result<std::span<const std::byte>> unframe(std::span<const std::byte> bytes) {
  if (bytes.size() < header_bytes + checksum_bytes)
    return failure(errc::corrupt, "truncated to " + std::to_string(bytes.size()) + " bytes");
  const std::size_t body_bytes = bytes.size() - header_bytes - checksum_bytes;
  detail::wire_reader header(bytes.first(header_bytes));
  if (header.take<std::uint64_t>() != magic)
    return failure(errc::corrupt, "does not begin as a manifest");
  const auto version = header.take<std::uint32_t>();
  const auto stated_bytes = header.take<std::uint32_t>();
  if (stated_bytes != body_bytes)
    return failure(errc::corrupt, "truncated or extended: has " + std::to_string(body_bytes) +
                                      " bytes of content, says " + std::to_string(stated_bytes));
  const checksum128 stated = detail::wire_reader(bytes.last(checksum_bytes)).take_checksum();
  if (checksum_of(bytes.first(header_bytes + body_bytes)) != stated)
    return failure(errc::corrupt, "checksum differs from the stated " + to_string(stated));
  // Only now: a damaged version number must not pass for a newer program's manifest.
  if (version != manifest_version)
    return failure(errc::unsupported, "format " + std::to_string(version) +
                                          ", and this program reads format " +
                                          std::to_string(manifest_version));
  return bytes.subspan(header_bytes, body_bytes);
}

result<std::vector<manifest_file>> decode_files(const wire::Manifest& body) {
  if (body.files()->size() > manifest_files_max)
    return failure(errc::corrupt, "names too many files");
  std::vector<manifest_file> files;
  files.reserve(body.files()->size());
  for (const wire::ManifestFile* entry : *body.files()) {
    manifest_file file{entry->path()->str(), entry->bytes(), from_wire(entry->checksum())};
    if (!is_bundle_path(file.path))
      return failure(errc::corrupt, "names a file outside the bundle: " + file.path);
    if (!files.empty() && files.back().path >= file.path)
      return failure(errc::corrupt, "names files out of order at " + file.path);
    files.push_back(std::move(file));
  }
  return files;
}

result<manifest> decode_body(const wire::Manifest& body) {
  auto files = decode_files(body);
  if (!files) return failure(std::move(files.error()));
  manifest content;
  content.run_id = body.run_id()->str();
  content.epoch = {body.incarnation(), body.life(), body.number()};
  content.step = body.step();
  content.files = std::move(*files);
  if (const wire::ManifestParent* parent = body.parent())
    content.parent = manifest_parent{parent->name()->str(), from_wire(parent->manifest_checksum())};
  for (const wire::OwnerSequence* owner : *body.owners())
    content.owners.push_back({owner->owner()->str(), sequence_number(owner->sequence())});
  for (const wire::MetricValue* metric : *body.metrics())
    content.metrics.push_back({metric->name()->str(), metric->value()});
  return content;
}

} // namespace

const manifest_file* manifest::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(
      files, path, {}, [](const manifest_file& file) { return std::string_view(file.path); });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

std::optional<double> manifest::metric(std::string_view name) const {
  const auto found = std::ranges::find(metrics, name, &metric_value::name);
  if (found == metrics.end()) return std::nullopt;
  return found->value;
}

result<std::vector<std::byte>> encode_manifest(const manifest& content) {
  if (content.files.size() > manifest_files_max)
    return failure(errc::exhausted, "a bundle of " + std::to_string(content.files.size()) +
                                        " files: at most " + std::to_string(manifest_files_max) +
                                        " are possible");
  const auto out_of_order =
      std::ranges::adjacent_find(content.files, std::ranges::greater_equal{}, &manifest_file::path);
  ensure(out_of_order == content.files.end(), "a manifest names its files in order, each once");
  for (const manifest_file& file : content.files)
    ensure(is_bundle_path(file.path), "a manifest names only files inside its bundle");

  flatbuffers::FlatBufferBuilder builder;
  encode_body(builder, content);
  const std::span body = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  const std::size_t total = header_bytes + body.size() + checksum_bytes;
  if (total > manifest_bytes_max)
    return failure(errc::exhausted, "a manifest of " + std::to_string(total) +
                                        " bytes: larger than this program can read");
  std::vector<std::byte> bytes;
  bytes.reserve(total);
  detail::put(bytes, magic);
  detail::put(bytes, manifest_version);
  detail::put(bytes, static_cast<std::uint32_t>(body.size()));
  bytes.insert(bytes.end(), body.begin(), body.end());
  detail::put(bytes, checksum_of(bytes));
  ensure(bytes.size() == total, "a manifest has the size that was computed");
  return bytes;
}

result<manifest> decode_manifest(std::span<const std::byte> bytes) {
  const auto body = unframe(bytes);
  if (!body) return failure(body.error());
  // The bytes are what a writer wrote, but not necessarily a writer of ours: verify all the same.
  const auto* start = reinterpret_cast<const std::uint8_t*>(body->data());
  flatbuffers::Verifier verifier(start, body->size(), 8, 8 * manifest_files_max);
  if (!wire::VerifyManifestBuffer(verifier))
    return failure(errc::corrupt, "the content is not a manifest's");
  return decode_body(*wire::GetManifest(start));
}

} // namespace weir::dataplane
