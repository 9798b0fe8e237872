/// The directory of one run: who may use it, and how many lives the run has had.
///
///   lock         flock for the life of the object; names the holder for whoever finds it taken.
///                What a dead process left in it is no obstacle: the kernel released the lock
///   INCARNATION  the number of the newest life, decimal; raised durably before anything else of a
///                restore, so that two lives never share one, whatever crashes in between
///
/// A process that is fenced (its lock lost with a network mount, say) and wakes up again is stopped
/// by INCARNATION: it asks `check_current` before each publish.
#pragma once

#include "dataplane/disk.hpp"
#include "dataplane/posix_disk.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <memory>
#include <string>
#include <utility>

namespace weir::dataplane {

/// Who takes the directory; `started` is for people, in the caller's words ("2025-03-01 12:00:00").
struct run_holder {
  process_identity process;
  std::string started;
};

/// A run directory that this process holds exclusively. Released by destruction, or by death.
class run_directory {
public:
  /// Makes the directory if it is missing, and takes its lock. `already_exists` if another process,
  /// or another object of this one, holds it: the text names pid and host of that holder.
  [[nodiscard]] static result<run_directory> acquire(disk& storage, std::string path,
                                                     const run_holder& holder);

  /// The number in INCARNATION, 0 when there is no such file yet. `corrupt` if it is no number.
  [[nodiscard]] result<incarnation> read_incarnation() const;
  /// Begins a life: durably writes max(INCARNATION, `highest_in_manifests`) + 1 and returns it.
  /// After an error the number may be used up, which is harmless.
  [[nodiscard]] result<incarnation> raise_incarnation(incarnation highest_in_manifests);
  /// `conflict` if INCARNATION is no longer `mine`: this process is a zombie and must not publish.
  [[nodiscard]] result<void> check_current(incarnation mine) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// "<run directory>/events-<incarnation>.jsonl".
  [[nodiscard]] std::string events_path(incarnation life) const;

private:
  run_directory(disk& storage, std::string path, std::unique_ptr<file_lock> held)
      : storage_(&storage), path_(std::move(path)), held_(std::move(held)) {}

  [[nodiscard]] std::string incarnation_path() const;

  disk* storage_;
  std::string path_;
  std::unique_ptr<file_lock> held_;
};

} // namespace weir::dataplane
