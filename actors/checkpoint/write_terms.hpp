/// On what terms the next bundle is written: what it may link, and how fast it is written beside
/// generation. The checkpoint actor's side sets them, the owner of the data plane keeps to them.
///
/// A bundle may link segments of its base: the newest that was published, or the one that was
/// restored. Its files are known to the owner that wrote or loaded them; that it was published, to
/// the store of bundles. Only where both agree on the bundle is anything linked.
///
/// Pacing: the pool's threads have a low priority, which says who computes; a bounded rate leaves
/// memory and disk to others as well. A short bundle is written at once: the bound is over time.
#pragma once

#include "actors/runtime/world.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/write_pacer.hpp"
#include "messages/ids.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace weir {

struct write_rules {
  /// A bundle of so many links nothing.
  std::uint64_t full_every = 8;
  /// Of rows, while nobody waits for the bundle; 0: no bound.
  std::uint64_t bytes_per_second = std::uint64_t{256} << 20;
  /// Of all waiting for one bundle together: the asker's patience is not endless.
  std::chrono::nanoseconds pauses_max = std::chrono::seconds(150);
};

/// Thread-safe: used on the pool, and a write that an aborted checkpoint left behind may still run
/// beside the next.
class write_terms {
public:
  explicit write_terms(write_rules rules = {}) : rules_(rules) {}

  // ---- The checkpoint actor's side -------------------------------------------------------------

  /// The bundle at `directory` is the newest of this history, and durable.
  void published(std::string directory, epoch_id epoch);
  /// Somebody waits for the bundle that is written now.
  void set_urgent(bool urgent) { urgent_ = urgent; }

  // ---- The owner's side ------------------------------------------------------------------------

  /// All segments of a bundle were written, linked or loaded.
  void wrote(std::shared_ptr<const dataplane::snapshot_files> files);
  /// A write failed: the next bundle is written whole.
  void forget();
  /// What to link. Forgets the files of other bundles but the newest written.
  [[nodiscard]] std::optional<dataplane::snapshot_base> base();
  [[nodiscard]] const write_rules& rules() const { return rules_; }
  /// A hook for one writer on a thread of `env`'s pool, which waits there as the rate says; empty
  /// without a bound, while somebody waits, and where time is simulated. `env` outlives the hook.
  [[nodiscard]] dataplane::write_pace pace(const world& env) const;

private:
  const write_rules rules_;
  std::atomic<bool> urgent_ = false;
  std::mutex mutex_; ///< For all below.
  std::string directory_;
  epoch_id epoch_ = {};
  std::shared_ptr<const dataplane::snapshot_files> base_;
  std::shared_ptr<const dataplane::snapshot_files> newest_;
};

/// How long a writer at this rate is to wait after each piece, in all at most `pauses_max`.
class pauses {
public:
  explicit pauses(const write_rules& rules);
  [[nodiscard]] std::chrono::nanoseconds after(std::uint64_t bytes, std::int64_t now_ns);

private:
  dataplane::write_pacer pacer_;
  std::chrono::nanoseconds left_;
};

} // namespace weir
