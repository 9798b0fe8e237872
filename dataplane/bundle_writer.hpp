/// Writes one bundle and publishes it: after `publish` returned, the bundle survives power loss,
/// and before the rename in it nothing of the bundle can be taken for one.
///
/// The order, each step complete before the next begins, and what a crash after it leaves:
///
///   1  every section written (by its owner)               leftover `.tmp-*`, removed at a restore
///   2  MANIFEST written                                   the same
///   3  all of it synced: files, folders, the directory    the same
///   4  renamed to step_N, never over anything             leftover or a complete bundle
///   5  the checkpoint directory synced                    the complete bundle
///   6  `latest` replaced, the directory synced again      the same; `latest` is never trusted
///   7  only now may older bundles be retired (the caller, `retire_bundles`)
///
/// One sync of all is enough, in whatever order its parts reach the disk, since nothing below a
/// `.tmp-*` is ever believed. That it comes after MANIFEST is not redundant: otherwise power loss
/// after 7 can leave step_N without its MANIFEST, and no older bundle. `tests/crash` enumerates the
/// states and sees it when any file or folder is left out.
///
/// An error of a sync is final for this bundle: it is removed, and no later bundle links its files.
#pragma once

#include "dataplane/bundle_name.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/manifest.hpp"
#include "dataplane/section_file.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::dataplane {

/// A bundle that was published by this process or verified by it.
struct bundle {
  bundle_name name;
  manifest content;
  /// Of the whole MANIFEST file: what a child names as its parent.
  checksum128 manifest_checksum;

  friend bool operator==(const bundle&, const bundle&) = default;
};

/// What MANIFEST says besides the files.
struct publication {
  std::string run_id;
  std::uint64_t step = 0;
  std::optional<manifest_parent> parent = std::nullopt;
  std::vector<owner_sequence> owners = {};
  std::vector<metric_value> metrics = {};
  /// Asked immediately before the bundle gets its name; an error stops there. It reads INCARNATION
  /// again (`run_directory::check_current`), so that a process that was thought dead cannot
  /// publish.
  std::function<result<void>()> still_current;
};

struct publish_outcome {
  bundle published;
  /// Why `latest` does not name it. The bundle is durable and complete all the same.
  std::optional<error> pointer_failure;
};

/// One unfinished bundle. Moves between threads, used by one at a time; owners write their sections
/// into `directory()` meanwhile. Dropped without `publish` or `discard` it leaves its directory to
/// the next restore.
class bundle_writer {
public:
  /// Makes `.tmp-<incarnation>-<epoch>/` in `checkpoint_directory`, which exists, or has the spare
  /// tree be it. `already_exists` if that epoch has one: an epoch is handed out once, so this is a
  /// bug upstream.
  [[nodiscard]] static result<bundle_writer> begin(disk& storage, std::string checkpoint_directory,
                                                   epoch_id epoch);

  /// Where the sections are written.
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] epoch_id epoch() const { return epoch_; }
  /// Begins a section; pass what its `finish` returns to `add`.
  [[nodiscard]] result<section_file> create(std::string path);
  /// Takes a finished section. `conflict` if it belongs to another epoch, `already_exists` if the
  /// path was added before.
  [[nodiscard]] result<void> add(finished_section section);

  /// Gives the bundle the file `path` of a published bundle of the same directory: a hard link, or
  /// a verified copy where links are impossible. `source` stays pinned until this writer is done:
  /// name it in `pinned` when retiring. `not_found` if `source` has no such file.
  [[nodiscard]] result<void> link_file(const bundle& source, const std::string& path);
  /// `link_file` for every file below `folder` ("policy"); returns how many there were.
  [[nodiscard]] result<std::size_t> link_folder(const bundle& source, std::string_view folder);
  /// Bundles that must not be retired before this writer is done.
  [[nodiscard]] std::span<const bundle_name> pinned() const { return pinned_; }

  /// Publishes, in the order above, under the next free name of the step. An error means that
  /// nothing was published, and names the file; the directory is removed then, as far as possible.
  /// @pre called once, and not after `discard`
  [[nodiscard]] result<publish_outcome> publish(publication what);

  /// Removes the directory, as far as possible: the barrier was aborted, or a section failed.
  void discard();

private:
  bundle_writer(disk& storage, std::string checkpoint_directory, epoch_id epoch);

  [[nodiscard]] result<publish_outcome> publish_in_order(publication& what);
  [[nodiscard]] result<bundle> complete_tree(publication& what);
  [[nodiscard]] result<void> check_sections();
  [[nodiscard]] bool has_sections(const std::string& folder) const;
  [[nodiscard]] result<void> remove_spare();
  [[nodiscard]] result<void> check_section(const manifest_file& expected);
  [[nodiscard]] result<bundle> write_manifest(publication& what);
  [[nodiscard]] result<bundle_name> rename_to_free_name(std::uint64_t step);
  [[nodiscard]] result<void> sync_name(bundle_name name);
  [[nodiscard]] result<void> point_latest(bundle_name name);

  disk* storage_;
  std::string checkpoint_directory_;
  std::string directory_;
  epoch_id epoch_;
  /// By path, as the manifest wants them.
  std::map<std::string, manifest_file> files_;
  /// Paths that were linked: their headers name an earlier epoch.
  std::map<std::string, bundle_name> linked_;
  std::vector<bundle_name> pinned_;
  /// Found of the tree that this bundle began with, and of no use: whole paths.
  std::vector<directory_entry> spare_;
  bool done_ = false;
};

/// Whether the files of a retired bundle go, or those of one stay for the next to be written over
/// (`spare_tree.hpp`): then call `remove_spare_tree` when the run is over.
enum class retired_files : std::uint8_t { removed, kept_for_next };

/// Removes bundles: all are renamed to `.retired-*` and that is synced before the first file goes,
/// so that no crash leaves a name of a bundle on half a bundle. May take long: call it off the
/// barrier, with names from `bundles_to_retire`. A bundle that is gone already is no error; the
/// first other error stops it, and the next restore or call finishes the work.
[[nodiscard]] result<void> retire_bundles(disk& storage, const std::string& checkpoint_directory,
                                          std::span<const bundle_name> names,
                                          retired_files files = retired_files::removed);

} // namespace weir::dataplane
