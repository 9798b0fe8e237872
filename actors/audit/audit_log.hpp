/// The log of one incarnation, decoded and checked line by line: what the audit works on.
#pragma once

#include "actors/audit/audit.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::detail {

/// Counts every problem and keeps the first of them.
class problem_list {
public:
  explicit problem_list(audit_report& report) : report_(&report) {}

  void add(std::string_view file, std::uint64_t line, audit_rule rule, std::string text) {
    ++report_->problems_total;
    if (report_->problems.size() >= audit_problems_max) return;
    report_->problems.push_back({std::string(file), line, rule, std::move(text)});
  }

private:
  audit_report* report_;
};

/// An event that changes the state of the run: of a group, of the dataloader, of the trainer.
/// Where its content lies depends on its kind: most are of groups, and those are kept compact.
struct state_event {
  std::uint64_t line = 0;
  sequence_number sequence = {};
  /// Into incarnation_log::owners.
  std::uint32_t owner = 0;
  bool is_group = false;
  /// Into incarnation_log::groups, or into others.
  std::uint32_t index = 0;
};

struct logged_cut {
  std::uint64_t line = 0;
  cut_event cut;
};

struct incarnation_log {
  weir::incarnation incarnation = {};
  std::string_view name;
  std::uint64_t lines = 0;
  bool torn_tail = false;

  std::vector<std::string> owners;
  /// Newest sequence of each owner.
  std::vector<sequence_number> newest;
  std::vector<state_event> events;
  std::vector<group_event> groups;
  /// handed_out_event and step_finished_event.
  std::vector<event> others;

  /// In the order of the log, which is that of their epochs.
  std::vector<logged_cut> cuts;
  std::vector<std::pair<std::uint64_t, published_event>> published;
  std::optional<generation_terms> terms;
  std::optional<std::pair<std::uint64_t, restored_event>> restored;
  std::optional<std::pair<std::uint64_t, finish_reason>> finished;

  /// Index of an owner, new or known.
  std::uint32_t owner_index(std::string_view owner);
};

/// Decodes a file. A last line without newline that does not decode is the kill's and tolerated.
[[nodiscard]] incarnation_log read_log(const event_file& file, problem_list& problems);

/// Newest event of an owner in a cut, or nothing when the cut does not know the owner.
[[nodiscard]] std::optional<sequence_number> sequence_of(const std::vector<owner_sequence>& owners,
                                                         std::string_view owner);

} // namespace weir::detail
