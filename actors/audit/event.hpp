/// What a run writes down about every prompt group, so that anyone can prove afterwards that none
/// was lost and none was trained twice.
///
/// An event belongs to one owner (an actor with durable state) and has the next sequence number of
/// that owner. Numbers start at 1 **in every incarnation**: an owner stores none, and (incarnation,
/// owner, sequence) names an event. An owner appends its events in the same turn in which it
/// changes its state, before it answers, so that the order of the log never contradicts causality;
/// the sequence that it reports in `Captured` is that of its newest event, 0 when it has had none.
///
/// A cut therefore names a prefix of each owner's events. What lies beyond the cut that a later
/// incarnation restored never happened (audit.hpp rolls it back).
///
/// Who writes which transition of a group:
///
/// | owner   | transitions |
/// |---------|-------------|
/// | sampler | none -> reserved, reserved -> admitted, admitted -> admitted (a retry), reserved |
/// |         | or admitted -> dropped, none or reserved -> in_reserve, in_reserve -> reserved, |
/// |         | admitted or dropped, ready -> admitted (`drop_replay`), ready or |
/// |         | admitted -> reserved (shadow mode) |
/// | replay  | admitted -> ready, ready -> claimed, claimed -> ready, claimed -> consumed, |
/// |         | ready -> dropped, ready -> ready (another target) |
///
/// A restore writes no transition: that claimed groups are ready again is part of its meaning.
#pragma once

#include "actors/conservation.hpp"
#include "messages/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weir {

/// Where a group is. `none`: the dataloader has not handed it out, or its reserve is under way.
enum class group_state : std::uint8_t {
  none,
  reserved,
  admitted,
  ready,
  claimed,
  consumed,
  dropped,
  in_reserve,
};
inline constexpr std::size_t group_states = 8;

/// The word of a state in events, in tallies of `Captured` and in errors, for example "in_reserve".
[[nodiscard]] constexpr std::string_view to_string(group_state state) noexcept {
  constexpr std::array<std::string_view, group_states> names = {
      "none", "reserved", "admitted", "ready", "claimed", "consumed", "dropped", "in_reserve"};
  return names[static_cast<std::size_t>(state)];
}

/// Why a group made a transition that its life does not demand. The first drop reasons are those
/// of the schema's DropReason, in the same order.
enum class event_reason : std::uint8_t {
  none,
  stale,
  data_failure,
  infra_failure,
  end_of_data,
  poisoned,
  retry,       ///< admitted -> admitted: another attempt.
  drop_replay, ///< ready -> admitted: the user asked for fresh samples.
  restamped,   ///< ready -> ready, admitted or in_reserve -> admitted: another stamp.
  promoted,    ///< ready -> ready: an earlier step needs it; its own is repaid.
  /// ready or admitted -> reserved: the sampler's buffer is not restored, see reserve_again.hpp.
  not_restored,
};
inline constexpr std::size_t event_reasons = 11;

[[nodiscard]] constexpr std::string_view to_string(event_reason reason) noexcept {
  constexpr std::array<std::string_view, event_reasons> names = {
      "none",  "stale",       "data_failure", "infra_failure", "end_of_data", "poisoned",
      "retry", "drop_replay", "restamped",    "promoted",      "not_restored"};
  return names[static_cast<std::size_t>(reason)];
}

/// One transition of one group. Fields that a transition does not know stay absent.
struct group_event {
  group_id group = {};
  group_state from = group_state::none;
  group_state to = group_state::none;
  event_reason reason = event_reason::none;
  /// Content attempt: raised by a retry for a data failure and by `drop_replay`.
  std::uint32_t attempt = 0;
  /// Of the transition none -> reserved (or in_reserve): which record the prompt is.
  std::optional<sample_id> sample = {};
  /// The training step that the group is stamped for, from its admission on; -1 without stamps.
  std::int64_t target_step = -1;
  /// From admission on; with the window in force then. The window of an admission, or of a new
  /// stamp, is absent when the sampler does not bound staleness by it.
  std::optional<weight_version> admission_version = {};
  std::optional<std::uint64_t> window = {};
  /// Version of the first and of the last token that is kept, from ready on.
  std::optional<weight_version> start_version = {};
  std::optional<weight_version> end_version = {};
  /// Of ready -> claimed and claimed -> consumed: the step, and the trainer's version at the claim.
  std::int64_t step = -1;
  std::optional<weight_version> trainer_version = {};
  /// The leased transaction under which it happened; 0 when the owner decided alone.
  std::uint64_t transaction = 0;

  friend bool operator==(const group_event&, const group_event&) = default;
};
static_assert(std::is_trivially_copyable_v<group_event>);

/// dataloader: `count` prompts left it, groups `first`, `first + 1`, ..., at consecutive positions
/// of one epoch. A batch that crosses an epoch's edge is two events.
struct handed_out_event {
  group_id first = {};
  std::uint64_t count = 0;
  sample_id sample = {};

  friend bool operator==(const handed_out_event&, const handed_out_event&) = default;
};

/// trainer: the captured state is now the one after `step`; `version` is what it will publish.
struct step_finished_event {
  std::uint64_t step = 0;
  weight_version version = {};

  friend bool operator==(const step_finished_event&, const step_finished_event&) = default;
};

/// An owner's newest event in a cut.
struct owner_sequence {
  std::string owner;
  sequence_number sequence = {};

  friend bool operator==(const owner_sequence&, const owner_sequence&) = default;
};

/// What all owners together said of a cut: the terms of the conservation law.
struct cut_tallies {
  group_tally handed_out = {};
  /// Indexed by `group_state`; `none` stays empty.
  std::array<group_tally, group_states> in_state = {};

  [[nodiscard]] group_tally& of(group_state state) {
    return in_state[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] const group_tally& of(group_state state) const {
    return in_state[static_cast<std::size_t>(state)];
  }
  friend bool operator==(const cut_tallies&, const cut_tallies&) = default;
};

/// checkpoint: every owner captured. Written before the MANIFEST of the bundle, so that the log
/// alone tells what the bundle holds even after it was retired.
struct cut_event {
  epoch_id epoch = {};
  std::vector<owner_sequence> owners = {};
  cut_tallies tallies = {};

  friend bool operator==(const cut_event&, const cut_event&) = default;
};

/// checkpoint: the bundle of a cut is durable under its name. `parent` is the bundle that this
/// incarnation restored or published before, empty for the first of a run.
struct published_event {
  std::string bundle;
  epoch_id epoch = {};
  std::string parent = {};

  friend bool operator==(const published_event&, const published_event&) = default;
};

/// checkpoint: this incarnation starts from that cut; `epoch.incarnation` took it.
struct restored_event {
  std::string bundle;
  epoch_id epoch = {};

  friend bool operator==(const restored_event&, const restored_event&) = default;
};

/// What an incarnation goes by when it admits and generates groups.
struct generation_terms {
  /// W, of its sampler.
  std::uint64_t window = 0;
  /// With pinned weights: the oldest version that exists. A group is made by the later one of it
  /// and target step - W.
  std::optional<weight_version> oldest_pin = {};

  friend bool operator==(const generation_terms&, const generation_terms&) = default;
};

/// checkpoint: first line of every incarnation. Without a `restored` after it, the run is new.
struct incarnation_started_event {
  std::string run;
  std::optional<generation_terms> terms = {}; ///< Absent in logs of older programs.

  friend bool operator==(const incarnation_started_event&,
                         const incarnation_started_event&) = default;
};

enum class finish_reason : std::uint8_t {
  end_of_data,   ///< Every group must be consumed or dropped.
  steps_reached, ///< No group may be claimed; what was generated ahead stays where it is.
  stopped,       ///< Saved and unfinished: a later incarnation goes on.
  failed,        ///< As stopped, with an error.
};
inline constexpr std::size_t finish_reasons = 4;

[[nodiscard]] constexpr std::string_view to_string(finish_reason reason) noexcept {
  constexpr std::array<std::string_view, finish_reasons> names = {"end_of_data", "steps_reached",
                                                                  "stopped", "failed"};
  return names[static_cast<std::size_t>(reason)];
}

/// checkpoint: last line of an incarnation that was not killed.
struct run_finished_event {
  finish_reason reason = finish_reason::stopped;

  friend bool operator==(const run_finished_event&, const run_finished_event&) = default;
};

using event =
    std::variant<group_event, handed_out_event, step_finished_event, cut_event, published_event,
                 restored_event, incarnation_started_event, run_finished_event>;

/// An event with its name.
struct event_record {
  weir::incarnation incarnation = {};
  std::string owner;
  sequence_number sequence = {};
  event what;

  friend bool operator==(const event_record&, const event_record&) = default;
};

/// Where owners append. The sink knows its incarnation. An append never fails visibly: a sink that
/// could not write remembers it, and the next checkpoint, which needs the log durable up to its
/// cut, is told.
class event_sink {
public:
  event_sink() = default;
  event_sink(const event_sink&) = delete;
  event_sink& operator=(const event_sink&) = delete;
  virtual ~event_sink() = default;

  virtual void append(std::string_view owner, sequence_number sequence, const event& what) = 0;
};

/// One owner's side of the log: numbers its events. Belongs to the owner's state; not shared.
class event_stream {
public:
  /// `sink` outlives the stream.
  event_stream(event_sink& sink, std::string owner) : sink_(&sink), owner_(std::move(owner)) {}

  void append(const event& what) {
    newest_ = newest_.next();
    sink_->append(owner_, newest_, what);
  }
  /// Sequence of the newest event: what `Captured` reports. 0 before the first.
  [[nodiscard]] sequence_number newest() const { return newest_; }
  [[nodiscard]] const std::string& owner() const { return owner_; }

private:
  event_sink* sink_;
  std::string owner_;
  sequence_number newest_ = {};
};

} // namespace weir
