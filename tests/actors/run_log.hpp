/// Writes the logs of a made-up run, incarnation by incarnation, and keeps the groups' states by
/// itself, so that the tallies of its cuts do not come from the code under test.
#pragma once

#include "actors/audit/audit.hpp"
#include "actors/audit/event_codec.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::testing {

class run_log {
public:
  struct state {
    std::map<std::uint64_t, group_state> groups;
    std::map<std::uint64_t, std::uint64_t> start_versions;
    std::uint64_t next_group = 0;
    std::uint64_t version = 0;
    std::string newest_bundle;
  };
  /// What a restore needs.
  struct saved {
    state at;
    epoch_id epoch;
    std::string bundle;
  };

  explicit run_log(std::uint64_t epoch_length = 1'000'000) : epoch_length_(epoch_length) {}

  void start(const std::optional<generation_terms>& terms = {}) {
    texts_.emplace_back();
    names_.push_back("events-" + std::to_string(texts_.size()) + ".jsonl");
    sequences_.clear();
    cuts_ = 0;
    append("checkpoint", incarnation_started_event{.run = "r", .terms = terms});
  }
  void restore(const saved& from) {
    start();
    append("checkpoint", restored_event{.bundle = from.bundle, .epoch = from.epoch});
    now = from.at;
    now.newest_bundle = from.bundle;
    for (auto& [group, where] : now.groups)
      if (where == group_state::claimed) where = group_state::ready;
  }

  void append(const std::string& owner, const event& what) {
    append(owner, ++sequences_[owner], what);
  }
  void append(const std::string& owner, std::uint64_t sequence, const event& what) {
    encode_event(texts_.back(), incarnation(texts_.size()), owner, sequence_number(sequence), what);
  }
  void append_text(const std::string& text) { texts_.back() += text; }

  /// Hands a batch out and reserves it.
  void reserve(std::uint64_t count) {
    for (std::uint64_t index = 0; index < count; ++index) {
      const std::uint64_t group = now.next_group + index;
      if (index == 0 || group % epoch_length_ == 0)
        append("dataloader",
               handed_out_event{.first = group_id(group),
                                .count =
                                    std::min(count - index, epoch_length_ - group % epoch_length_),
                                .sample = sample_of(group)});
    }
    for (std::uint64_t index = 0; index < count; ++index)
      move(now.next_group + index, group_state::reserved,
           {.sample = sample_of(now.next_group + index)});
    now.next_group += count;
  }
  void admit(std::uint64_t group, std::int64_t target) {
    move(group, group_state::admitted,
         {.target_step = target, .admission_version = weight_version(now.version), .window = 1});
  }
  void finish(std::uint64_t group) {
    now.start_versions[group] = now.version;
    move(
        group, group_state::ready,
        {.start_version = weight_version(now.version), .end_version = weight_version(now.version)});
  }
  void claim(std::uint64_t group) {
    move(group, group_state::claimed,
         {.step = static_cast<std::int64_t>(now.version),
          .trainer_version = weight_version(now.version)});
  }
  void consume(std::uint64_t group) {
    move(group, group_state::consumed, {.step = static_cast<std::int64_t>(now.version)});
  }
  void drop(std::uint64_t group, event_reason reason) {
    move(group, group_state::dropped, {.reason = reason});
  }
  void finish_step() {
    append("trainer",
           step_finished_event{.step = now.version, .version = weight_version(now.version + 1)});
    ++now.version;
  }
  /// A whole step: claims, consumes, finishes.
  void train(const std::vector<std::uint64_t>& groups) {
    for (const std::uint64_t group : groups)
      claim(group);
    for (const std::uint64_t group : groups)
      consume(group);
    finish_step();
  }
  /// Reserves, admits for the current step and finishes `count` groups; the first of them.
  std::uint64_t make(std::uint64_t count) {
    const std::uint64_t first = now.next_group;
    reserve(count);
    for (std::uint64_t index = 0; index < count; ++index) {
      admit(first + index, static_cast<std::int64_t>(now.version));
      finish(first + index);
    }
    return first;
  }

  [[nodiscard]] cut_event cut_now() {
    cut_event cut{.epoch = {texts_.size(), 1, ++cuts_}, .owners = {}, .tallies = {}};
    for (const char* owner : {"dataloader", "sampler", "replay", "trainer"})
      cut.owners.push_back({owner, sequence_number(sequences_[owner])});
    cut.tallies.handed_out = tally_of_range(group_id(0), now.next_group);
    for (const auto& [group, where] : now.groups)
      cut.tallies.of(where).add(group_id(group));
    return cut;
  }
  saved publish(const cut_event& cut) {
    append("checkpoint", cut);
    const std::string bundle = "step_" + std::to_string(now.version) + "." +
                               std::to_string(cut.epoch.incarnation * 100 + cut.epoch.number);
    bundles.push_back({bundle, cut.epoch, now.newest_bundle, cut.owners});
    append("checkpoint",
           published_event{.bundle = bundle, .epoch = cut.epoch, .parent = now.newest_bundle});
    now.newest_bundle = bundle;
    return {.at = now, .epoch = cut.epoch, .bundle = bundle};
  }
  saved save() { return publish(cut_now()); }
  void end(finish_reason reason) { append("checkpoint", run_finished_event{.reason = reason}); }

  void move(std::uint64_t group, group_state to, group_event what) {
    what.group = group_id(group);
    what.from = now.groups[group];
    what.to = to;
    append(is_replay(what.from, to) ? "replay" : "sampler", what);
    now.groups[group] = to;
  }

  [[nodiscard]] audit_report audited() const {
    std::vector<event_file> files;
    for (std::size_t index = 0; index < texts_.size(); ++index)
      files.push_back({incarnation(index + 1), names_[index], texts_[index]});
    return audit(files, bundles);
  }
  [[nodiscard]] std::string& text() { return texts_.back(); }

  state now;
  std::vector<bundle_facts> bundles;

private:
  [[nodiscard]] sample_id sample_of(std::uint64_t group) const {
    return {.epoch = group / epoch_length_, .position = group % epoch_length_};
  }
  static bool is_replay(group_state from, group_state to) {
    using enum group_state;
    if (from == admitted) return to == ready;
    return (from == ready && to != admitted) || from == claimed || from == consumed;
  }

  std::uint64_t epoch_length_;
  std::deque<std::string> texts_;
  std::deque<std::string> names_;
  std::map<std::string, std::uint64_t> sequences_;
  std::uint64_t cuts_ = 0;
};

} // namespace weir::testing
