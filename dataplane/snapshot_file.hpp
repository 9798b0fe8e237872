/// A snapshot as the folder data_plane/ of a bundle, and back.
///
/// Writing: one pass over the index lists the live values of some segments at a time, which are
/// then written column by column; a last pass writes the index. Both passes go over the same rows
/// in the same order, so that the second knows where the first put each value by counting. Memory
/// beyond the snapshot's own stays below 128 MiB, whatever the payload.
///
/// Reading builds a complete new snapshot or returns an error; nothing is repaired and nothing is
/// half read. The store takes it by `store::restore`.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/section_file.hpp"
#include "dataplane/snapshot.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir::dataplane {

/// Called with the number of bytes that were just appended, at most 4 MiB each time: the place to
/// bound the rate and to give way. An error stops the writing and is returned.
using write_pace = std::function<result<void>(std::uint64_t bytes)>;

/// "data_plane/index.fb".
[[nodiscard]] std::string index_path();
/// "data_plane/segments/0000000000000007.seg".
[[nodiscard]] std::string segment_path(std::uint64_t segment);

/// Writes into the unfinished bundle at `directory` and returns its sections, each synced, for
/// `bundle_writer::add`. Any thread; the store may go on. Blocks while it writes.
[[nodiscard]] result<std::vector<finished_section>>
write_snapshot(disk& storage, const std::string& directory, epoch_id epoch, const snapshot& state,
               const write_pace& pace = {});

/// Reads and verifies data_plane/ of the bundle at `directory`, which is of the cut `epoch`.
/// `corrupt` for damage and disagreement, `unsupported` for a newer format, `not_found` for a
/// missing file; the text begins with the file.
[[nodiscard]] result<snapshot> read_snapshot(disk& storage, const std::string& directory,
                                             epoch_id epoch);

} // namespace weir::dataplane
