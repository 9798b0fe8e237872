/// The checkpoint actor's side of the barrier: one consistent cut over several actors while
/// generation streams on.
///
///     announcing  Announce to everybody, until each said Announced, or for a moment
///     quiescing   Quiesce to every origin, until each said Quiesced: no lease is out
///     capturing   Cut to every owner, until each said Captured
///     resuming    Resume to every origin, until each said Resumed and whether its gate had held
///     publishing  the cut is given out; the shell writes and publishes the bundle
///
/// An announcement changes nothing; it wakes threads and fetches into the caches what a barrier
/// touches, while the gates are still open. Nobody needs to answer it.
///
/// Resume goes out as soon as the last owner captured: whatever is checked or written comes after
/// the gates are open. The cut is given out only if every gate held without a break, no owner was
/// tainted, and the tallies balance (README.md, rules 3, 7, 9).
///
/// Answers count by (epoch, participant, stage), never by order; whatever is late, doubled or from
/// nobody does nothing. Every stage has a deadline: announcing then goes on, any other one aborts
/// the epoch with an error that names each actor that did not answer. An actor that is known dead
/// fails the epoch at once.
///
/// Requests that come during a checkpoint are answered by the next one. An unbalanced cut is
/// retried once, since a message could have been lost between two counters; the second ends the
/// run: a state that lost or doubled a group never heals.
///
/// Pure: every input returns what to do, in order. Time is an argument.
#pragma once

#include "actors/audit/event.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir {

struct barrier_options {
  /// How long answers to an announcement are waited for; 0: nothing is announced.
  std::int64_t announce_timeout_ns = 1'000'000;
  std::int64_t quiesce_timeout_ns = 5'000'000'000;
  std::int64_t capture_timeout_ns = 5'000'000'000;
  /// Until every origin said that its gate is open again.
  std::int64_t resume_timeout_ns = 5'000'000'000;
  /// After which a gate opens by itself. @pre More than quiesce and capture timeouts together.
  std::int64_t hold_limit_ns = 12'000'000'000;
};

/// Requests that may wait for the next checkpoint.
inline constexpr std::size_t waiting_requests_max = 1024;

/// Names a request to its asker, chosen by the shell.
struct request_ticket {
  std::uint64_t value = 0;
  friend constexpr bool operator==(request_ticket, request_ticket) = default;
};

/// An owner's answer to a Cut.
struct captured_report {
  sequence_number sequence = {};
  cut_tallies tallies = {};
  bool tainted = false;
  std::uint64_t mutations = 0;
  /// Of the trainer: the step that its captured state is after; -1 from others.
  std::int64_t trainer_step = -1;
};

/// What is known of an actor that did not answer: its oldest lease, that lease's origin and age.
struct lease_report {
  std::string actor;
  std::string oldest_lease;
};

struct cut_timings {
  /// From the first Quiesce to the last Resumed: at least as long as any gate was closed.
  std::int64_t hold_ns = 0;
  /// From the first Quiesce to the last Quiesced: the longest leased transaction.
  std::int64_t drain_ns = 0;
  /// From the first Cut to the last Captured.
  std::int64_t capture_ns = 0;
};

/// A cut that may be published.
struct cut_facts {
  epoch_id epoch = {};
  /// In the order of the owners.
  std::vector<owner_sequence> owners;
  cut_tallies tallies = {};
  std::uint64_t mutations = 0;
  /// -1 when no owner is a trainer.
  std::int64_t trainer_step = -1;
  cut_timings timings = {};
};

// What the shell does, in the order given.
/// To every participant, once each. Whatever comes of it counts as `announced`.
struct send_announce {
  std::string to;
  epoch_id epoch;
};
struct send_quiesce {
  std::string to;
  epoch_id epoch;
  std::int64_t hold_limit_ns;
};
struct send_cut {
  std::string to;
  epoch_id epoch;
};
struct send_resume {
  std::string to;
  epoch_id epoch;
};
/// Opens a gate, drops a capture. To every participant, once each.
struct send_abort {
  std::string to;
  epoch_id epoch;
};
/// To an owner: its capture is in a published bundle.
struct send_release {
  std::string to;
  epoch_id epoch;
};
/// Write and publish the bundle, then tell `published` or `publish_failed`.
struct publish_cut {
  cut_facts cut;
};
/// The request was served: the bundle of this cut is published. `unchanged`: nothing mutated since
/// the newest bundle, which is therefore the answer, and none was written.
struct answer_published {
  std::vector<request_ticket> tickets;
  epoch_id epoch;
  bool unchanged = false;
};
/// The request was not served; a later one may be.
struct answer_refused {
  std::vector<request_ticket> tickets;
  error why;
};
/// The state lost or doubled a group: the run ends with the numbers.
struct end_run {
  error why;
};
using barrier_effect =
    std::variant<send_announce, send_quiesce, send_cut, send_resume, send_abort, send_release,
                 publish_cut, answer_published, answer_refused, end_run>;
using barrier_effects = std::vector<barrier_effect>;

class barrier_state {
public:
  enum class stage : std::uint8_t {
    idle,
    announcing,
    quiescing,
    capturing,
    resuming,
    publishing,
    ended
  };

  /// `life`: of the checkpoint actor within this incarnation, given out by the graph; together they
  /// make epochs increase for ever. `has_bundle`: this incarnation restored one and nothing mutated
  /// since, so that the first checkpoint may find nothing to write. Names are unique in each list;
  /// an actor may be in both.
  barrier_state(barrier_options options, incarnation run_life, std::uint64_t life,
                std::vector<std::string> origins, std::vector<std::string> owners, bool has_bundle);

  /// Asks for a checkpoint: starts one, or waits for the running one to end.
  [[nodiscard]] barrier_effects request(std::int64_t now, request_ticket ticket);

  /// It answered the announcement, or cannot.
  [[nodiscard]] barrier_effects announced(std::int64_t now, std::string_view name, epoch_id epoch);
  [[nodiscard]] barrier_effects quiesced(std::int64_t now, std::string_view origin, epoch_id epoch);
  [[nodiscard]] barrier_effects captured(std::int64_t now, std::string_view owner, epoch_id epoch,
                                         const captured_report& report);
  [[nodiscard]] barrier_effects resumed(std::int64_t now, std::string_view origin, epoch_id epoch,
                                        bool held);
  /// A message to this participant failed, or it answered with an error, or it is dead.
  [[nodiscard]] barrier_effects failed(std::int64_t now, std::string_view name, epoch_id epoch,
                                       const error& why);
  /// The bundle is durable under its name.
  [[nodiscard]] barrier_effects published(std::int64_t now, epoch_id epoch);
  /// It is not; what was written is thrown away by the shell.
  [[nodiscard]] barrier_effects publish_failed(std::int64_t now, epoch_id epoch, const error& why);
  /// Time passed. `leases` is what the shell knows of `unanswered()`, for the error's text.
  [[nodiscard]] barrier_effects tick(std::int64_t now, std::span<const lease_report> leases);

  /// When the stage times out; nothing while idle, publishing or ended.
  [[nodiscard]] std::optional<std::int64_t> deadline() const;
  /// Whose answer the stage waits for, in the order of the participants.
  [[nodiscard]] std::vector<std::string> unanswered() const;
  [[nodiscard]] stage now_in() const { return stage_; }
  /// A request came during the checkpoint that is under way.
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
  /// The running epoch, or the last one.
  [[nodiscard]] epoch_id epoch() const { return epoch_; }

private:
  struct participant {
    std::string name;
    bool answered = false;
    bool held = false;
  };
  struct owner_part : participant {
    captured_report report;
  };

  barrier_effects start(std::int64_t now);
  void announce(barrier_effects& effects);
  void quiesce(std::int64_t now, barrier_effects& effects);
  void cut(std::int64_t now, barrier_effects& effects);
  void resume(std::int64_t now, barrier_effects& effects);
  void decide(std::int64_t now, barrier_effects& effects);
  void give_up(std::int64_t now, const error& why, barrier_effects& effects);
  void unbalanced(std::int64_t now, const error& why, barrier_effects& effects);
  void finish(std::int64_t now, barrier_effects& effects);
  void abort_all(barrier_effects& effects) const;
  void abort_owners(barrier_effects& effects) const;
  [[nodiscard]] std::vector<std::string> everybody() const;
  [[nodiscard]] cut_facts facts() const;
  [[nodiscard]] error timeout_error(std::int64_t now, std::span<const lease_report> leases) const;
  [[nodiscard]] bool expects(stage wanted, epoch_id epoch) const;

  barrier_options options_;
  epoch_id epoch_;
  std::vector<participant> origins_;
  std::vector<owner_part> owners_;
  stage stage_ = stage::idle;
  std::int64_t stage_started_ns_ = 0;
  std::int64_t started_ns_ = 0;
  cut_timings timings_ = {};
  std::vector<request_ticket> serving_;
  std::vector<request_ticket> waiting_;
  bool has_bundle_;
  epoch_id newest_published_ = {};
  bool was_unbalanced_ = false;
};

} // namespace weir
