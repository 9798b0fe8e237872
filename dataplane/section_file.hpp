/// One file of an unfinished bundle, written by the owner of its content.
///
/// Owners write their captured sections off the barrier, at the same time, possibly in other
/// processes: all that they need is the directory of the unfinished bundle and the epoch. What
/// `finish` returns goes to whoever publishes (`bundle_writer::add`), which compares the epoch, so
/// that a section of an aborted barrier that comes late cannot get into the next one's bundle.
///
/// Sections of our own encoding additionally begin with a header of 64 bytes that names the epoch,
/// and `bundle_writer::publish` compares that with what is on the disk:
///
///   0   8  "weirsect"            24  8  life
///   8   4  header version, 1     32  8  number
///   12  4  zero                  40  8  bytes of the payload behind the header
///   16  8  incarnation           48  16 XXH3-128 of the 48 bytes before
#pragma once

#include "dataplane/checksum.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/manifest.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

/// A section that is written whole, and not durable yet: what the manifest will say about it.
struct finished_section {
  manifest_file file;
  epoch_id epoch;

  friend bool operator==(const finished_section&, const finished_section&) = default;
};

/// Called with the number of bytes that were just appended, at most 256 KiB each time: the place to
/// bound the rate and to give way. An error stops the writing and is returned.
using write_pace = std::function<result<void>(std::uint64_t bytes)>;

/// Appends bytes, hashing them as they pass. Used by one thread at a time; any error is final, and
/// the file stays behind for `bundle_writer` to remove.
class section_file {
public:
  /// Creates `path` (see `is_bundle_path`) in the unfinished bundle at `directory`, with its
  /// folders. `invalid_argument` for another path, `already_exists` if the section was begun
  /// before.
  [[nodiscard]] static result<section_file> create(disk& storage, const std::string& directory,
                                                   std::string path, epoch_id epoch,
                                                   write_pace pace = {});

  [[nodiscard]] result<void> append(std::span<const std::byte> bytes);
  /// Has the disk begin with the sync, where it can in the background. @pre everything was appended
  void start_sync();
  /// Closes. Bytes and name become durable in `bundle_writer::publish`, at the latest.
  /// @pre not finished before
  [[nodiscard]] result<finished_section> finish();

  /// What the manifest will say of what was appended.
  [[nodiscard]] manifest_file described() const { return {path_, bytes_, checksum_.digest()}; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

private:
  section_file(std::unique_ptr<file> opened, std::string path, epoch_id epoch, write_pace pace)
      : opened_(std::move(opened)), path_(std::move(path)), epoch_(epoch), pace_(std::move(pace)) {}

  /// Hashes what was appended.
  result<void> count(std::span<const std::byte> bytes);

  std::unique_ptr<file> opened_;
  std::string path_;
  epoch_id epoch_;
  write_pace pace_;
  std::uint64_t bytes_ = 0;
  checksum_stream checksum_;
};

/// Makes the folders of the section `path` in an unfinished bundle. Their names become durable when
/// the bundle is published.
[[nodiscard]] result<void> make_section_folders(disk& storage, const std::string& directory,
                                                const std::string& path);

/// Gives an unfinished bundle a file that another bundle has at `source`: a hard link, or, where
/// links are impossible, a copy that is verified while it is made (a copy must not give damage a
/// second life with a fresh checksum) and synced. `corrupt`: it is not what `expected` says.
[[nodiscard]] result<void> link_section(disk& storage, const std::string& source,
                                        const std::string& directory, const manifest_file& expected,
                                        epoch_id epoch);

inline constexpr std::size_t section_header_bytes = 64;

/// What a section of our own encoding begins with.
struct section_header {
  epoch_id epoch;
  std::uint64_t payload_bytes = 0;

  friend bool operator==(const section_header&, const section_header&) = default;
};

[[nodiscard]] std::vector<std::byte> encode_section_header(const section_header& header);
/// Whether `bytes` begin as a section of our own encoding does (so that they must have a header).
[[nodiscard]] bool has_section_header(std::span<const std::byte> bytes);
/// `corrupt` for damage, `unsupported` for a newer header. Needs the first 64 bytes only.
[[nodiscard]] result<section_header> decode_section_header(std::span<const std::byte> bytes);

/// Writes a whole section of our own encoding: header, then `payload`.
[[nodiscard]] result<finished_section> write_section(disk& storage, const std::string& directory,
                                                     std::string path, epoch_id epoch,
                                                     std::span<const std::byte> payload,
                                                     write_pace pace = {});
/// The payload of a section that was read whole: `corrupt` unless header, length and epoch are
/// those of `epoch`, the bundle's own.
[[nodiscard]] result<std::span<const std::byte>> section_payload(std::span<const std::byte> section,
                                                                 epoch_id epoch);

} // namespace weir::dataplane
