/// What the rollout actor dispatches, and in which order. Nothing here is durable: the ledger is,
/// and `plan_recovery` turns it into the first things to do after a restart.
///
/// Order after a restore: ADMITTED groups run in dispatch order, with their stamps, at once;
/// meanwhile RESERVED batches are admitted one after the other, each once, by its admission id;
/// ordinary batches come after the last of them. ADMITTED groups never wait for the gate, since
/// only they can make the trainer move it.
///
/// No batch is taken while a whole one only waits behind those in flight: it would gain nothing,
/// and without a gate nothing else bounds how many prompts are handed out.
///
/// The shell asks `next_move()`, does it under a lease, and reports what came of it.
#pragma once

#include "actors/replay/dispatch_permits.hpp"
#include "actors/sampler/failure_limits.hpp"
#include "actors/sampler/ledger.hpp"
#include "actors/sampler/sampler_state.hpp"

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace weir {

/// Groups that were reserved together and wait for admission.
struct reserved_batch {
  std::uint64_t admission = 0;
  std::vector<group_id> groups = {};

  friend bool operator==(const reserved_batch&, const reserved_batch&) = default;
};

/// A restored group whose attempts are used up.
struct spent_group {
  group_id group = {};
  drop_reason reason = drop_reason::poisoned;

  friend bool operator==(const spent_group&, const spent_group&) = default;
};

/// What a restored ledger asks for.
struct recovery_plan {
  /// To be dropped, not dispatched.
  std::vector<spent_group> spent = {};
  /// ADMITTED, in dispatch order: to be generated again with their stamps.
  std::vector<ledger_record> dispatch = {};
  /// In order of admission.
  std::vector<reserved_batch> readmit = {};
  std::uint64_t next_admission = 0;
  /// In the reserve.
  std::uint64_t spares = 0;
};

/// `unfinished` is the sampler's answer to ListUnfinished.
[[nodiscard]] recovery_plan plan_recovery(std::span<const ledger_record> unfinished,
                                          std::uint64_t next_admission,
                                          const failure_limits& limits);

/// What to do about the supply of groups.
enum class supply_move : std::uint8_t {
  reserve,        ///< Take `groups` prompts from the dataloader into `admission`.
  divert,         ///< Set a whole batch of `groups` aside; a shorter one joins `admission`.
  drain,          ///< Move at most `groups` spares into `admission`.
  admit,          ///< Await the gate, then admit `admission`.
  drop_remainder, ///< Drop the groups of `admission`: no whole step is left (end_of_data).
  wait,           ///< Nothing until a running group ends.
  finish,         ///< Nothing is left: say so to replay.
};
struct next_supply {
  supply_move move = supply_move::wait;
  std::uint64_t admission = 0;
  std::uint64_t groups = 0;

  friend bool operator==(const next_supply&, const next_supply&) = default;
};

struct rollout_limits {
  /// N.
  std::uint64_t groups_per_step = 32;
  /// `max_inflight_prompts`: rollouts that run at the same time.
  std::uint64_t inflight_max = 32;
  /// Whether the sampler stamps: then a short last batch could never be trained.
  bool stamps = true;
  /// Low-water mark of the reserve; 0 without one.
  std::uint64_t reserve_low = 0;
};

class rollout_state {
public:
  explicit rollout_state(rollout_limits limits);

  /// Takes over the plan of a restore; the groups of `dispatch` are running from here on.
  /// @pre Nothing was reserved or admitted yet.
  void recover(const recovery_plan& plan);

  [[nodiscard]] next_supply next_move() const;

  /// `groups` were reserved under `admission`, the one of `next_move`.
  void reserved(std::uint64_t admission, std::span<const group_id> groups);
  /// The dataloader has no prompt left.
  void end_data() { data_ended_ = true; }
  /// `admission` was admitted: its groups run, the tail waits under its new id.
  void admitted(std::uint64_t admission, const admission_outcome& outcome);
  /// The groups of `admission` were dropped.
  void dropped_reserved(std::uint64_t admission);
  /// Spares that the sampler has now.
  void spares_are(std::uint64_t spares) { spares_ = spares; }
  /// Whether a batch is to be set aside before anything else.
  [[nodiscard]] bool reserve_is_low() const {
    return !data_ended_ && spares_ < limits_.reserve_low;
  }
  /// A spare took the place of a dropped group: it runs from here on.
  void took_place(group_id spare) { running_.insert(spare); }
  /// A running group was committed, dropped or found to be gone. Gives its permit back.
  void finished(group_id group);

  /// In-flight permits, in dispatch order. A group gives its permit back while it backs off.
  void request_flight(group_id group, std::int64_t dispatch_index);
  [[nodiscard]] std::vector<group_id> grant_flights() { return flights_.grant(); }
  void end_flight(group_id group) { std::ignore = flights_.give_back(group); }
  [[nodiscard]] bool flying(group_id group) const { return flights_.holds(group); }

  [[nodiscard]] const std::deque<reserved_batch>& reserved_batches() const { return reserved_; }
  [[nodiscard]] const std::set<group_id>& running() const { return running_; }
  [[nodiscard]] std::uint64_t in_flight() const { return flights_.taken(); }
  [[nodiscard]] bool data_ended() const { return data_ended_; }
  [[nodiscard]] std::uint64_t spares() const { return spares_; }

  /// Aborts if an invariant does not hold.
  void check_invariants() const;

private:
  [[nodiscard]] next_supply at_the_end() const;

  rollout_limits limits_;
  std::uint64_t next_admission_ = 0;
  bool data_ended_ = false;
  std::uint64_t spares_ = 0;
  /// Oldest first; the front is the one to admit.
  std::deque<reserved_batch> reserved_;
  std::set<group_id> running_;
  dispatch_permits flights_;
};

} // namespace weir
