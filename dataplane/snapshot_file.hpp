/// A snapshot as the folder data_plane/ of a bundle, and back.
///
/// Writing: one pass over the index lists the live values of some segments at a time, which are
/// then written column by column; a last pass writes the index. Both passes go over the same rows
/// in the same order. Memory beyond the snapshot's own stays below 128 MiB, whatever the payload;
/// 24 bytes for each run of values that were written together come on top, for the next bundle.
///
/// Writing after an older bundle of the same history links the files of segments that are in it and
/// not mostly dead; the next bundle costs what changed. One bad sector hits every sharer, so that
/// every `full_every`th bundle is written whole.
///
/// Reading builds a complete new snapshot or returns an error; nothing is repaired and nothing is
/// half read. The store takes it by `store::restore`.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/section_file.hpp"
#include "dataplane/snapshot.hpp"
#include "dataplane/snapshot_files.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir::dataplane {

/// "data_plane/index.fb".
[[nodiscard]] std::string index_path();
/// "data_plane/segments/0000000000000007.seg".
[[nodiscard]] std::string segment_path(std::uint64_t segment);

/// Writes into the unfinished bundle at `directory` and returns its sections for
/// `bundle_writer::add`; they become durable when it publishes, or by `disk::sync_tree`. Any
/// thread; the store may go on. Blocks while it writes.
[[nodiscard]] result<std::vector<finished_section>>
write_snapshot(disk& storage, const std::string& directory, epoch_id epoch, const snapshot& state,
               const write_pace& pace = {});

/// A published bundle of this history to link to: the one that this life published or restored
/// last. It is not retired meanwhile, which holds for the newest durable one.
struct snapshot_base {
  std::string directory;
  std::shared_ptr<const snapshot_files> files; ///< As this store wrote or loaded them.
};

struct increment_options {
  write_pace pace = {};
  /// Without one all is written.
  std::optional<snapshot_base> base = std::nullopt;
  /// A bundle of so many is written whole; 1 links nothing.
  std::uint64_t full_every = 8;
};

struct written_snapshot {
  /// As of `write_snapshot`; linked files too, in the name of this cut.
  std::vector<finished_section> sections;
  /// To be the base of a later bundle, once this one is published.
  std::shared_ptr<const snapshot_files> files;
  /// Bytes of segment files that were written, and that were linked.
  std::uint64_t written_bytes = 0;
  std::uint64_t linked_bytes = 0;
};

/// `write_snapshot` that links what it can. A file of the base that cannot be linked is copied, and
/// verified meanwhile; one that is gone is written. After an error the next bundle should be
/// written without a base.
[[nodiscard]] result<written_snapshot> write_increment(disk& storage, const std::string& directory,
                                                       epoch_id epoch, const snapshot& state,
                                                       const increment_options& options);

/// Runs all of the jobs, in any order, some of them at the same time if it likes, and returns when
/// the last is done. Without one they run one after the other.
using job_runner = std::function<void(std::span<const std::function<void()>> jobs)>;

/// Reads and verifies data_plane/ of the bundle at `directory`, which is of the cut `epoch`.
/// `corrupt` for damage and disagreement, `unsupported` for a newer format, `not_found` for a
/// missing file; the text begins with the file. Segments are read and verified as jobs.
[[nodiscard]] result<snapshot> read_snapshot(disk& storage, const std::string& directory,
                                             epoch_id epoch, const job_runner& run = {});

struct loaded_snapshot {
  snapshot state;
  /// To be the base of the next bundle.
  std::shared_ptr<const snapshot_files> files;
};

/// The same, for a life that goes on from this bundle. `content` is the bundle's manifest.
[[nodiscard]] result<loaded_snapshot> load_snapshot(disk& storage, const std::string& directory,
                                                    const manifest& content,
                                                    const job_runner& run = {});

} // namespace weir::dataplane
