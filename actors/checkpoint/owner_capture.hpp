/// An owner's side of the barrier: which Cut counts, the one capture that it may keep, and whether
/// that capture can be trusted.
///
/// - A Cut at or below the newest epoch seen does nothing; so does a late Abort. An Abort raises
///   the newest epoch seen, so that its own late Cut does nothing either.
/// - At most one unpublished capture exists; a newer Cut replaces it.
/// - A leased request is always applied, since refusing it would leave half of a transaction for
///   ever. It taints a capture that may hold the other half's absence: a lease of an older epoch
///   than the capture's arrived after the capture, or a lease of the capture's epoch (or a newer
///   one) arrived before the Cut did. A tainted capture is never written.
///
/// A lease carries the newest epoch that its gate had seen when it was granted; an owner compares.
/// Fencing off earlier incarnations and dead instances of an origin is the runtime's affair, before
/// a request comes here, and an Abort does not raise that fence.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace weir {

/// What `Captured` reports besides the owner's own tallies and event sequence.
struct capture_facts {
  epoch_id epoch = {};
  bool tainted = false;
  /// Mutations since the newest capture that was published (or since the start).
  std::uint64_t mutations = 0;

  friend bool operator==(const capture_facts&, const capture_facts&) = default;
};

/// Epochs, taint and mutation counts, without the capture itself.
class capture_ledger {
public:
  /// Whether a leased request may be applied. Always, whatever its epoch: refusing it would leave
  /// half of its transaction for ever. Only a suspended rule (messages/rule.hpp) refuses.
  [[nodiscard]] result<void> admissible(epoch_id lease_epoch) const;
  /// A leased request was applied. Counts a mutation. `lease_epoch` is the lease's.
  void applied(epoch_id lease_epoch);
  /// A mutation without a lease, for example the first capture of a fresh state.
  void mutated() { ++mutations_; }

  /// Whether a Cut would be obeyed.
  [[nodiscard]] bool accepts(epoch_id epoch) const;
  /// Obeys a Cut. @pre accepts(epoch).
  capture_facts cut(epoch_id epoch);
  /// Drops the capture of this epoch and everything older. Returns whether one was dropped.
  bool abort(epoch_id epoch);
  /// The bundle is published: mutations count from this capture on, and it is dropped. False when
  /// it was not kept, or was tainted after it was written, which is a fault of an origin's gate.
  bool release(epoch_id epoch);

  /// `conflict` unless the capture of exactly this epoch is kept and untainted.
  [[nodiscard]] result<void> publishable(epoch_id epoch) const;

  [[nodiscard]] epoch_id newest_epoch() const { return newest_; }
  /// Newest epoch of any lease that was applied.
  [[nodiscard]] epoch_id newest_lease() const { return ahead_; }
  [[nodiscard]] std::optional<epoch_id> kept() const;
  /// Mutations since the newest published capture.
  [[nodiscard]] std::uint64_t mutations() const { return mutations_ - published_; }

private:
  struct kept_capture {
    epoch_id epoch = {};
    std::uint64_t mutations = 0;
    bool tainted = false;
  };

  epoch_id newest_ = {};
  /// Newest epoch of any lease: at or beyond a Cut, it came before that Cut did.
  epoch_id ahead_ = {};
  std::uint64_t mutations_ = 0;
  std::uint64_t published_ = 0;
  std::optional<kept_capture> kept_;
  /// Older leases are refused; stays at its start unless a rule is suspended.
  epoch_id fence_ = {};
};

/// The ledger with the capture. `Captured` is what the owner pins in O(1): a snapshot, a
/// copy-on-write page table. A writer shares it, so that it outlives an Abort for as long as it is
/// being read; what was written is thrown away by whoever asked.
template <class Captured>
class owner_capture {
public:
  [[nodiscard]] result<void> admissible(epoch_id lease_epoch) const {
    return ledger_.admissible(lease_epoch);
  }
  void applied(epoch_id lease_epoch) { ledger_.applied(lease_epoch); }
  void mutated() { ledger_.mutated(); }

  /// Obeys a Cut: calls `capture()` and keeps what it returns. Nothing when the Cut is stale: it is
  /// then not answered.
  template <std::invocable Capture>
  [[nodiscard]] std::optional<capture_facts> cut(epoch_id epoch, Capture&& capture) {
    if (!ledger_.accepts(epoch)) return std::nullopt;
    captured_ = std::make_shared<const Captured>(std::forward<Capture>(capture)());
    return ledger_.cut(epoch);
  }

  bool abort(epoch_id epoch) {
    const bool dropped = ledger_.abort(epoch);
    if (dropped) captured_.reset();
    return dropped;
  }

  bool release(epoch_id epoch) {
    const bool released = ledger_.release(epoch);
    if (!ledger_.kept()) captured_.reset();
    return released;
  }

  /// What to write for this epoch; `conflict` when it is gone, another one, or tainted. Ask
  /// `publishable` again once it is written, before answering.
  [[nodiscard]] result<std::shared_ptr<const Captured>> section(epoch_id epoch) const {
    if (auto fine = ledger_.publishable(epoch); !fine) return failure(fine.error());
    return captured_;
  }
  [[nodiscard]] result<void> publishable(epoch_id epoch) const {
    return ledger_.publishable(epoch);
  }

  [[nodiscard]] const capture_ledger& ledger() const { return ledger_; }

private:
  capture_ledger ledger_;
  std::shared_ptr<const Captured> captured_;
};

} // namespace weir
