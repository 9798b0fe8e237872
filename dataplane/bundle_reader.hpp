/// Finds, checks and reads published bundles.
///
/// Names are never trusted: not `latest`, not the highest number. What parses as the name of a
/// bundle is judged by its MANIFEST and its files, and the newest is that of the highest epoch,
/// because a restore from an older bundle starts another history whose steps are lower again.
#pragma once

#include "dataplane/bundle_name.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/manifest.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir::dataplane {

/// What is wrong with one file of a bundle.
struct bundle_problem {
  /// Relative to the bundle; "MANIFEST" for the whole of it.
  std::string file;
  /// `corrupt` for damage, `unsupported` for a newer format, `io_failed` when it cannot be read.
  error reason;
};

/// A bundle that cannot be restored.
struct broken_bundle {
  bundle_name name;
  /// As far as MANIFEST could be read.
  std::optional<epoch_id> epoch;
  error reason;
};

/// Everything in a checkpoint directory, by manifest; the files' bytes were not read.
struct bundle_survey {
  /// Whose manifest is intact, newest (highest epoch) first.
  std::vector<bundle> readable;
  std::vector<broken_bundle> broken;
  /// Over all manifests and leftovers, abandoned ones too: the next incarnation is higher.
  incarnation highest_incarnation;
};

/// Opens a file that a manifest names, at `path`. `corrupt` if it is missing or of another size;
/// its bytes were not read.
[[nodiscard]] result<std::unique_ptr<file>> open_listed_file(disk& storage, const std::string& path,
                                                             const manifest_file& expected);

/// Lists the directory; a missing one is empty. An error only if it cannot be listed.
[[nodiscard]] result<bundle_survey> survey_bundles(disk& storage,
                                                   const std::string& checkpoint_directory);

/// What a restore begins from.
struct bundle_choice {
  bundle chosen;
  /// Newer than the chosen one and passed over, each with the reason. To be reported, with the
  /// distance that is lost, and then set aside by `abandon_newer`.
  std::vector<broken_bundle> passed_over;
};

/// The newest bundle that is valid in every byte; nothing if there is no bundle at all. `corrupt`
/// if there are bundles and none is valid: a run never starts over by itself. `unsupported` if one
/// that would be passed over is of a newer format: it is healthy, and going back behind it would
/// abandon a history.
[[nodiscard]] result<std::optional<bundle_choice>>
newest_valid_bundle(disk& storage, const std::string& checkpoint_directory,
                    const bundle_survey& survey);

/// The bundle of that name, its manifest checked: `not_found`, `corrupt` or `unsupported`
/// otherwise.
[[nodiscard]] result<bundle> open_bundle(disk& storage, const std::string& checkpoint_directory,
                                         bundle_name name);

/// The bundle at `path`, whatever its directory is called: `.abandoned-step_4` too. Its manifest is
/// checked, and gives the name where the directory's is none.
[[nodiscard]] result<bundle> open_bundle_at(disk& storage, const std::string& path);

/// One file of a bundle, whole, its size and checksum verified: what is returned is what was
/// written. `not_found` if the manifest does not name it. `corrupt` names the file and the reason.
[[nodiscard]] result<std::vector<std::byte>>
read_bundle_file(disk& storage, const std::string& checkpoint_directory, const bundle& source,
                 std::string_view path);
/// The same of the bundle at `bundle_path`.
[[nodiscard]] result<std::vector<std::byte>> read_listed_file(disk& storage,
                                                              const std::string& bundle_path,
                                                              const manifest& content,
                                                              std::string_view path);

/// The other bundles beside the one at `bundle_path` in which the file is the same inode: damage to
/// it is damage to all of them.
[[nodiscard]] std::vector<bundle_name> sharers_of(disk& storage, const std::string& bundle_path,
                                                  std::string_view file);

/// Reads every byte of the bundle at `path` (its own path, any name) and returns all that is wrong,
/// nothing for a sound one: missing, damaged, cut, additional files, a newer format. Names the
/// other bundles of the directory that share a damaged file.
[[nodiscard]] std::vector<bundle_problem> verify_bundle(disk& storage, const std::string& path);

/// Renames every bundle that is newer than `chosen` to `.abandoned-*`, durably, and returns the
/// names: they belong to another history. Where MANIFEST cannot be read, the name decides what is
/// newer.
[[nodiscard]] result<std::vector<std::string>>
abandon_newer(disk& storage, const std::string& checkpoint_directory, const bundle_survey& survey,
              const bundle& chosen);

/// Removes what earlier lives left unfinished: `.tmp-*`, `.retired-*`. Call it only with the run's
/// lock. Returns how many there were; the first error stops it, and nothing depends on the rest.
[[nodiscard]] result<std::size_t> remove_leftovers(disk& storage,
                                                   const std::string& checkpoint_directory);

} // namespace weir::dataplane
