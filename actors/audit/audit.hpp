/// The audit: reads the events of every incarnation of a run and proves, or disproves, that no
/// prompt was lost and none was trained twice.
///
/// Offline and pure: the caller reads the files. Linear in the number of events.
///
/// **What survived.** An incarnation restores a bundle; the bundle's cut names, for each owner, the
/// prefix of its events that the bundle holds. Everything of the older incarnation beyond that
/// prefix is rolled back, and so on to the first incarnation. The events within a cut come first,
/// then those of the next cut, then the rest: since a cut is consistent, this order is a legal
/// history, and where it is not, the cut was wrong.
///
/// **What is checked** (proof.md):
/// - `log`: each line decodes (a torn last line is the kill, not a fault); sequences have no gap;
///   parents exist; epochs increase; each cut is published at most once, as its manifest says.
/// - `conservation`: at each cut, the tallies that the owners reported are those that their events
///   add up to, and handed out = reserved + admitted + ready + claimed + consumed + dropped +
///   in_reserve.
/// - `ownership`: each group is handed out once and follows only legal transitions, from the state
///   it is in, by the owner of that state; none is consumed twice; a drop has a reason.
/// - `staleness`: trainer version - start version <= the window in force at admission, of each
///   group that is claimed or consumed, unless its sampler promised none (ready_first); a stamped
///   group is trained in the step of its stamp.
/// - `versions`: admission version <= start version <= end version <= trainer's version, and no
///   label names a version that no step had published by then.
/// - `leak`: after `end_of_data` no group is reserved, admitted, ready, claimed or in the reserve;
///   after `steps_reached` none is claimed.
#pragma once

#include "actors/audit/event.hpp"
#include "messages/error.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

enum class audit_rule : std::uint8_t {
  log,
  conservation,
  ownership,
  staleness,
  versions,
  leak,
};
[[nodiscard]] std::string_view to_string(audit_rule rule) noexcept;

/// The log of one incarnation. `name` and `text` outlive the audit.
struct event_file {
  weir::incarnation incarnation = {};
  std::string_view name;
  std::string_view text;
};

/// What a MANIFEST says of its bundle; `epoch.incarnation` wrote it.
struct bundle_facts {
  std::string bundle;
  epoch_id epoch = {};
  std::string parent;
  std::vector<owner_sequence> owners;
};

/// One broken rule. `line` counts from 1; 0 when it concerns no line.
struct audit_problem {
  std::string file;
  std::uint64_t line = 0;
  audit_rule rule = audit_rule::log;
  std::string text;

  friend bool operator==(const audit_problem&, const audit_problem&) = default;
};
/// "events-3.jsonl:17: ownership: group 12: consumed twice".
[[nodiscard]] std::string to_string(const audit_problem& problem);

/// What became of one incarnation.
struct incarnation_audit {
  weir::incarnation incarnation = {};
  /// Part of the surviving history, up to the cut that its successor restored.
  bool survives = false;
  /// Where it started: empty for a new run.
  std::string restored_bundle;
  std::uint64_t events = 0;
  /// Events that a restore undid; all of them when the incarnation does not survive.
  std::uint64_t rolled_back = 0;
  std::uint64_t bundles_published = 0;
  bool torn_tail = false;
  std::optional<finish_reason> finished = {};
};

struct audit_report {
  /// Of the surviving history.
  std::uint64_t handed_out = 0;
  std::array<std::uint64_t, group_states> in_state = {};
  /// Indexed by `event_reason`.
  std::array<std::uint64_t, event_reasons> dropped = {};
  std::uint64_t steps_finished = 0;
  /// Largest staleness of a consumed group.
  std::uint64_t staleness_max = 0;
  /// Consumed groups of the surviving history, in order of training: to compare two runs.
  std::vector<group_id> consumed;

  std::uint64_t problems_total = 0;
  /// The first `audit_problems_max` of them.
  std::vector<audit_problem> problems;
  std::vector<incarnation_audit> incarnations;

  [[nodiscard]] bool clean() const { return problems_total == 0; }
};
inline constexpr std::size_t audit_problems_max = 1000;

/// Audits a run. `files` in any order, one for each incarnation; `bundles` are the manifests that
/// still exist (retired bundles are known from the log). @pre incarnations of `files` differ.
[[nodiscard]] audit_report audit(std::span<const event_file> files,
                                 std::span<const bundle_facts> bundles);

} // namespace weir
