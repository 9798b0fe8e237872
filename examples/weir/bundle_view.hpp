/// A bundle that is looked at by itself: no run, no configuration, no lock. What `weir inspect`,
/// `verify`, `export` and `diff` have in common.
#pragma once

#include "actors/checkpoint/restore.hpp"
#include "dataplane/bundle_reader.hpp"
#include "dataplane/segment_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Every part but the policy, decoded and checked against the others.
struct bundle_view {
  std::string path;
  restored_states parts;
  /// False for a store that was saved by itself: there are rows, and no groups.
  bool of_a_run = true;
};

/// The directory that was named on the command line: a link such as `latest` is followed, and
/// slashes at the end are dropped. `not_found` or `invalid_argument` if no bundle can be there; for
/// a run or a checkpoint directory the text lists its bundles.
[[nodiscard]] result<std::string> bundle_path(dataplane::disk& storage, const std::string& named);

/// Every file of the manifest is there, a file, readable, and of its size; and the policy's files
/// are of the kind that they are called. Checksums are not compared: `dataplane::verify_bundle`.
[[nodiscard]] std::vector<dataplane::bundle_problem>
check_files(dataplane::disk& storage, const std::string& path, const dataplane::manifest& content);

/// `path` is the bundle's directory, whatever it is called. Errors: not_found, corrupt or
/// unsupported, naming the file.
[[nodiscard]] result<bundle_view> view_bundle(dataplane::disk& storage, const std::string& path);

/// One file of `data_plane/segments`, as it lies on the disk.
struct segment_view {
  std::uint64_t id = 0;
  std::uint64_t file_bytes = 0;
  dataplane::loaded_segment content;
  /// Other bundles that have the same file.
  std::vector<dataplane::bundle_name> sharers;
};

/// All of them, in the order of their ids; `see` is called with one at a time, and only one is in
/// memory.
[[nodiscard]] result<void> for_each_segment(dataplane::disk& storage, const bundle_view& bundle,
                                            const std::function<void(const segment_view&)>& see);

/// The state of each group that the bundle names: ready, claimed, admitted, reserved, in_reserve.
struct group_standing {
  group_id group = {};
  group_state state = group_state::none;
  sample_id sample = {};
  std::int64_t target_step = -1;

  friend bool operator==(const group_standing&, const group_standing&) = default;
};
/// Sorted by group.
[[nodiscard]] std::vector<group_standing> groups_of(const restored_states& parts);

/// The value of a cell, in the memory of the bundle that was read.
[[nodiscard]] std::span<const std::byte> bytes_of(const dataplane::contents& all,
                                                  const dataplane::cell& one);

/// "1/1/7": a cut, as messages spell it, without spaces.
[[nodiscard]] std::string short_text(epoch_id epoch);

} // namespace weir
