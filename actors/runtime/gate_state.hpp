/// The decisions of a mutation gate, without coroutine, clock or actor: who may start a mutation,
/// when everything is settled, and which barrier this gate believes in.
///
/// A transaction is one lease and what was sent under it. It is settled when the lease was released
/// and every request sent under it was answered, or its owner is known to be dead; cancellation and
/// deadlines end waits, never a transaction.
///
/// Epochs only grow. Quiesce closes the gate for a newer epoch than any seen; at or below it does
/// nothing. Resume or Abort of the newest epoch opens; of a newer one opens too (the gate missed
/// its Quiesce) and counts as seen; of an older one does nothing. A gate held longer than its own
/// limit opens by itself, whatever it believes about the checkpoint actor; what Resume is answered
/// keeps such a cut from being published.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace weir {

class gate_state {
public:
  using time = std::chrono::nanoseconds;
  using transaction_id = std::uint64_t;

  [[nodiscard]] bool open() const noexcept { return !closed_; }
  /// The newest epoch that this gate was told of.
  [[nodiscard]] epoch_id last_epoch() const noexcept { return last_epoch_; }
  [[nodiscard]] std::size_t unsettled() const noexcept { return transactions_.size(); }

  /// Starts a transaction. @pre open()
  [[nodiscard]] transaction_id enter(time now);
  /// The newest epoch that the gate had been told of when the transaction started. An owner tells
  /// by it on which side of a cut a request belongs: one that drains after Quiesce keeps its side.
  [[nodiscard]] epoch_id granted_at(transaction_id id) const;
  /// Every transaction below it is settled.
  [[nodiscard]] transaction_id settled_before() const noexcept {
    return transactions_.empty() ? next_transaction_ : transactions_.begin()->first;
  }
  /// A request goes out under the lease; returns its step within the transaction.
  /// @pre the lease was not released
  [[nodiscard]] std::uint32_t sent(transaction_id id);
  /// A request that was sent under it was answered, or its owner is dead.
  void answered(transaction_id id);
  /// The holder is done with it.
  void released(transaction_id id);

  /// Closes for `epoch`, at most until `now + hold_limit`. False: ignored, not newer than the last.
  [[nodiscard]] bool close(epoch_id epoch, time now, time hold_limit);
  /// Whether the gate is closed for `epoch` and every transaction is settled.
  [[nodiscard]] bool quiesced(epoch_id epoch) const noexcept;
  /// Opens for Resume. True when this gate was quiesced for `epoch` and has stayed closed since;
  /// a repeated Resume gets the same answer again.
  [[nodiscard]] bool resume(epoch_id epoch);
  /// Opens for Abort, by the same rule about epochs.
  void abort(epoch_id epoch);
  /// Opens by itself when the hold limit has passed; true when it did.
  [[nodiscard]] bool expire(time now) noexcept;
  /// When the gate opens by itself. @pre !open()
  [[nodiscard]] time hold_deadline() const noexcept { return hold_deadline_; }

  struct oldest_lease {
    transaction_id id;
    time age;
    std::size_t unanswered; ///< Requests without an answer.
    bool released;          ///< Only answers are missing.
  };
  /// What keeps the gate from being quiesced, if anything.
  [[nodiscard]] std::optional<oldest_lease> oldest(time now) const;

  void check_invariants() const noexcept;

private:
  struct transaction {
    time since;
    epoch_id granted_at;
    std::size_t unanswered = 0;
    std::uint32_t steps = 0;
    bool released = false;
  };

  void settle(std::map<transaction_id, transaction>::iterator place);
  /// Whether a Resume or Abort of `epoch` opens this gate; remembers the epoch.
  [[nodiscard]] bool opens(epoch_id epoch) noexcept;
  void open_now() noexcept { closed_ = false; }

  std::map<transaction_id, transaction> transactions_;
  transaction_id next_transaction_ = 1;
  epoch_id last_epoch_;
  time hold_deadline_{0};
  bool closed_ = false;
  bool resumed_ = false;      ///< Resume of last_epoch_ was answered ...
  bool resumed_held_ = false; ///< ... with this.
};

} // namespace weir
