/// On what terms the next bundle is written: what it may link, and how fast it is written beside
/// generation. The checkpoint actor's side sets them, the owner of the data plane keeps to them.
///
/// A bundle may link segments of its base: the newest that was published, or the one that was
/// restored. Its files are known to the owner that wrote or loaded them; that it was published, to
/// the store of bundles. Only where both agree on the bundle is anything linked.
///
/// Pacing: the pool's threads rest where processors are wanted by others (`give_way`); a bounded
/// rate leaves memory and disk to others as well. A short bundle is written at once: the bound is
/// over time. Nobody is paced while somebody waits for the bundle (`blocking_pool::hurry`).
#pragma once

#include "actors/runtime/world.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/write_pacer.hpp"
#include "messages/ids.hpp"

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
};

/// Thread-safe: used on the pool, and a write that an aborted checkpoint left behind may still run
/// beside the next.
class write_terms {
public:
  explicit write_terms(write_rules rules = {}) : rules_(rules) {}

  // ---- The checkpoint actor's side -------------------------------------------------------------

  /// The bundle at `directory` is the newest of this history, and durable.
  void published(std::string directory, epoch_id epoch);

  // ---- The owner's side ------------------------------------------------------------------------

  /// All segments of a bundle were written, linked or loaded.
  void wrote(std::shared_ptr<const dataplane::snapshot_files> files);
  /// A write failed: the next bundle is written whole.
  void forget();
  /// What to link. Forgets the files of other bundles but the newest written.
  [[nodiscard]] std::optional<dataplane::snapshot_base> base();
  [[nodiscard]] const write_rules& rules() const { return rules_; }
  /// A hook for one writer, which rests as the rate and its pool's share say; empty without a rate.
  /// `time` outlives it.
  [[nodiscard]] dataplane::write_pace pace(const clock& time) const;

private:
  const write_rules rules_;
  std::mutex mutex_; ///< For all below.
  std::string directory_;
  epoch_id epoch_ = {};
  std::shared_ptr<const dataplane::snapshot_files> base_;
  std::shared_ptr<const dataplane::snapshot_files> newest_;
};

/// Of one bundle. @pre there is a rate
[[nodiscard]] dataplane::write_pacer pacer_of(const write_rules& rules);

} // namespace weir
