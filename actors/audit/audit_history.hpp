/// The state of every group along one legal history, with the rules that each event must obey. It
/// can go back to an earlier mark, so that each incarnation continues from the cut that it restored
/// and every event is applied once.
#pragma once

#include "actors/audit/audit_log.hpp"
#include "actors/conservation.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir::detail {

/// Where an event stands, for problems.
struct event_place {
  std::string_view file;
  std::uint64_t line = 0;
};

class group_history {
public:
  explicit group_history(problem_list& problems) : problems_(&problems) {}

  /// The whole state, cheap to take and to go back to.
  struct mark;
  [[nodiscard]] mark here() const;
  /// Undoes everything since the mark. @pre Marks are gone back to in reverse order.
  void go_back(const mark& to);

  /// What the events that follow go by; absent where the log does not say.
  void begin_life(const std::optional<generation_terms>& terms) { totals_.terms = terms; }

  void apply(const event_place& place, std::string_view owner, const group_event& what);
  void apply(const event_place& place, std::string_view owner, const handed_out_event& what);
  void apply(const event_place& place, std::string_view owner, const step_finished_event& what);

  /// All events of the cut are applied: compares what the owners said, and the parts.
  void check_cut(const event_place& place, const cut_event& cut);
  /// The state as a restore finds it: what was claimed is ready.
  void restore();
  void check_end(const event_place& place, finish_reason reason);
  /// Fills the totals of the report.
  void total(audit_report& report) const;

private:
  struct group_record {
    group_state state = group_state::none;
    std::optional<sample_id> sample;
    std::int64_t target_step = -1;
    std::optional<weight_version> admission_version;
    std::optional<std::uint64_t> window;
    std::optional<weight_version> start_version;
    std::optional<weight_version> end_version;
    std::int64_t claimed_step = -1;
    weight_version claimed_version = {};
    /// Of its newest event.
    event_place place;
  };

  /// All that is not of one group.
  struct totals {
    cut_tallies tallies;
    std::array<std::uint64_t, event_reasons> dropped = {};
    group_id next_group;
    std::optional<sample_id> newest_sample;
    /// Positions of an epoch, known once one has ended.
    std::optional<std::uint64_t> epoch_length;
    weight_version version;
    std::uint64_t steps_finished = 0;
    std::uint64_t staleness_max = 0;
    /// Groups that are claimed, with the trainer's version at the claim: one batch, so a small map.
    std::map<group_id, weight_version> claimed;
    /// Largest trainer's version of a consumed group.
    std::optional<weight_version> newest_consumed;
    std::optional<generation_terms> terms;
    std::string ledger_owner;
    std::string data_owner;
  };

  void problem(const event_place& place, audit_rule rule, std::string text);
  group_record& change(group_id group);
  void check_transition(const event_place& place, std::string_view owner, const group_event& what,
                        const group_record& before);
  void check_owner(const event_place& place, std::string_view owner, const group_event& what,
                   bool is_ledger);
  void move(const group_event& what, group_record& record);
  void note_fields(const group_event& what, group_record& record);
  void check_label(const event_place& place, const group_event& what,
                   const std::optional<weight_version>& version, std::string_view label);
  void check_versions(const event_place& place, const group_event& what,
                      const group_record& record);
  void check_admission_version(const event_place& place, const group_event& what,
                               const group_record& record);
  void check_made_by(const event_place& place, const group_event& what, const group_record& record);
  void check_pin(const event_place& place, const group_event& what, const group_record& record);
  void check_claim(const event_place& place, const group_event& what, const group_record& record);
  void check_sample(const event_place& place, const handed_out_event& what);
  void check_sample(const event_place& place, const group_event& what, group_record& record);
  void check_step_is_whole(const event_place& place, epoch_id epoch);

  problem_list* problems_;
  totals totals_;
  std::unordered_map<group_id, group_record> groups_;
  std::vector<group_id> consumed_;
  /// What each change replaced; nothing when the group was unknown.
  std::vector<std::pair<group_id, std::optional<group_record>>> undo_;
};

struct group_history::mark {
  totals saved;
  std::size_t undo_size = 0;
  std::size_t consumed_size = 0;
};

} // namespace weir::detail
