/// MANIFEST: what makes a directory a bundle. It names every file with its size and checksum, and
/// ends with its own, so that a bundle without a valid one is not a bundle. Layout in FORMAT.md.
///
///   0   8  "weirmani"
///   8   4  format version
///   12  4  bytes of the body
///   16  n  body: FlatBuffer `wire::Manifest`
///   16+n 16 XXH3-128 of all before it, low half first, little endian
///
/// The first 16 and the last 16 bytes keep their meaning in every version: an older program can
/// tell damage from a newer format.
#pragma once

#include "dataplane/bundle_name.hpp"
#include "dataplane/checksum.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::dataplane {

/// The newest format that this program writes and reads; it reads no older one yet.
inline constexpr std::uint32_t manifest_version = 1;
/// Bounds, checked at both ends.
inline constexpr std::uint64_t manifest_bytes_max = 256ULL * 1024 * 1024;
inline constexpr std::size_t manifest_files_max = 1'000'000;

/// One file of a bundle.
struct manifest_file {
  /// Relative to the bundle, see `is_bundle_path`.
  std::string path;
  std::uint64_t bytes = 0;
  checksum128 checksum;

  friend bool operator==(const manifest_file&, const manifest_file&) = default;
};

/// The bundle whose history this one continues.
struct manifest_parent {
  std::string name;
  /// Of the parent's whole MANIFEST file: tells it from another bundle of that name.
  checksum128 manifest_checksum;

  friend bool operator==(const manifest_parent&, const manifest_parent&) = default;
};

/// Where one owner's history stood at the cut.
struct owner_sequence {
  std::string owner;
  sequence_number sequence;

  friend bool operator==(const owner_sequence&, const owner_sequence&) = default;
};

struct metric_value {
  std::string name;
  double value = 0;

  friend bool operator==(const metric_value&, const metric_value&) = default;
};

struct manifest {
  std::string run_id;
  /// Of the cut; its `incarnation` is the one that published the bundle.
  epoch_id epoch;
  /// The captured trainer step.
  std::uint64_t step = 0;
  std::optional<manifest_parent> parent;
  /// Sorted by path, each once.
  std::vector<manifest_file> files;
  std::vector<owner_sequence> owners;
  std::vector<metric_value> metrics;

  friend bool operator==(const manifest&, const manifest&) = default;

  /// The file of that path, or null.
  [[nodiscard]] const manifest_file* find(std::string_view path) const;
  [[nodiscard]] std::optional<double> metric(std::string_view name) const;
};

/// Returns the bytes of a MANIFEST; `exhausted` beyond the bounds.
/// @pre the files are sorted by path, without duplicates, and valid bundle paths
[[nodiscard]] result<std::vector<std::byte>> encode_manifest(const manifest& content);

/// The inverse. `corrupt` for damage of any kind, a single bit included; `unsupported` for an
/// intact one of another format version, naming both versions. The error does not name the file.
[[nodiscard]] result<manifest> decode_manifest(std::span<const std::byte> bytes);

} // namespace weir::dataplane
