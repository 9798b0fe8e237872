#include "actors/audit/audit_log.hpp"

#include "actors/audit/event_codec.hpp"

#include <algorithm>
#include <limits>

namespace weir::detail {

namespace {

class log_reader {
public:
  log_reader(const event_file& file, problem_list& problems) : problems_(&problems) {
    log_.incarnation = file.incarnation;
    log_.name = file.name;
  }

  void read(event_record record) {
    const std::uint32_t owner = check_name(record);
    std::visit([&](auto& what) { keep(record, owner, what); }, record.what);
  }
  void mistake(std::string text) { problem(std::move(text)); }

  incarnation_log& log() { return log_; }

private:
  void problem(std::string text) {
    problems_->add(log_.name, log_.lines, audit_rule::log, std::move(text));
  }

  /// The event is of this file, and the next one of its owner.
  std::uint32_t check_name(const event_record& record) {
    if (record.incarnation != log_.incarnation)
      problem("an event of incarnation " + std::to_string(record.incarnation.value) +
              " in the log of " + std::to_string(log_.incarnation.value));
    const std::uint32_t owner = log_.owner_index(record.owner);
    const sequence_number expected = log_.newest[owner].next();
    if (record.sequence != expected)
      problem(record.owner + ": event " + std::to_string(record.sequence.value) + " where " +
              std::to_string(expected.value) +
              (record.sequence > expected ? " was due: events are missing"
                                          : " was due: it was written before"));
    log_.newest[owner] = std::max(log_.newest[owner], record.sequence);
    return owner;
  }

  void keep_state(const event_record& record, std::uint32_t owner, bool is_group,
                  std::size_t index) {
    ensure(index < std::numeric_limits<std::uint32_t>::max(), "a log has less than 2^32 events");
    log_.events.push_back({.line = log_.lines,
                           .sequence = record.sequence,
                           .owner = owner,
                           .is_group = is_group,
                           .index = static_cast<std::uint32_t>(index)});
  }

  void keep(const event_record& record, std::uint32_t owner, const group_event& what) {
    keep_state(record, owner, true, log_.groups.size());
    log_.groups.push_back(what);
  }
  void keep(const event_record& record, std::uint32_t owner, const handed_out_event& what) {
    keep_state(record, owner, false, log_.others.size());
    log_.others.emplace_back(what);
  }
  void keep(const event_record& record, std::uint32_t owner, const step_finished_event& what) {
    keep_state(record, owner, false, log_.others.size());
    log_.others.emplace_back(what);
  }

  void keep(const event_record&, std::uint32_t, cut_event& what) {
    if (what.epoch.incarnation != log_.incarnation.value)
      problem("cut " + to_string(what.epoch) + " is of another incarnation");
    if (log_.cuts.empty() || check_order(log_.cuts.back().cut, what))
      log_.cuts.push_back({log_.lines, std::move(what)});
  }

  /// A later cut has a later epoch, and no owner goes back.
  bool check_order(const cut_event& before, const cut_event& after) {
    if (after.epoch <= before.epoch) {
      problem("cut " + to_string(after.epoch) + " follows cut " + to_string(before.epoch));
      return false;
    }
    for (const auto& [owner, sequence] : after.owners) {
      const auto earlier = sequence_of(before.owners, owner);
      if (!earlier || *earlier <= sequence) continue;
      problem("cut " + to_string(after.epoch) + ": " + owner + " is at event " +
              std::to_string(sequence.value) + ", in the cut before it was at " +
              std::to_string(earlier->value));
      return false;
    }
    return true;
  }

  void keep(const event_record&, std::uint32_t, published_event& what) {
    check_parent(what);
    if (!log_.published.empty() && what.epoch <= log_.published.back().second.epoch)
      problem(what.bundle + ": epoch " + to_string(what.epoch) + " is published after " +
              to_string(log_.published.back().second.epoch) + ", " +
              log_.published.back().second.bundle);
    const auto epoch_of = [](const logged_cut& each) { return each.cut.epoch; };
    const auto cut = std::ranges::lower_bound(log_.cuts, what.epoch, {}, epoch_of);
    if (cut == log_.cuts.end() || cut->cut.epoch != what.epoch)
      problem(what.bundle + " was published, and no cut " + to_string(what.epoch) + " is logged");
    log_.published.emplace_back(log_.lines, std::move(what));
  }

  void check_parent(const published_event& what) {
    std::string_view parent;
    if (log_.restored) parent = log_.restored->second.bundle;
    if (!log_.published.empty()) parent = log_.published.back().second.bundle;
    if (what.parent != parent)
      problem(what.bundle + ": its parent is \"" + what.parent + "\", the history says \"" +
              std::string(parent) + "\"");
  }

  void keep(const event_record&, std::uint32_t, restored_event& what) {
    if (log_.restored) {
      problem("restored twice in one incarnation: " + log_.restored->second.bundle + ", then " +
              what.bundle);
      return;
    }
    if (!log_.events.empty()) problem(what.bundle + " was restored after the run went on");
    log_.restored.emplace(log_.lines, std::move(what));
  }

  void keep(const event_record&, std::uint32_t, const incarnation_started_event& what) {
    if (log_.lines != 1) problem("an incarnation starts with the first line");
    log_.terms = what.terms;
  }

  void keep(const event_record&, std::uint32_t, const run_finished_event& what) {
    if (log_.finished) problem("an incarnation finishes once");
    log_.finished.emplace(log_.lines, what.reason);
  }

  problem_list* problems_;
  incarnation_log log_;
};

} // namespace

std::uint32_t incarnation_log::owner_index(std::string_view owner) {
  const auto known = std::ranges::find(owners, owner);
  if (known != owners.end()) return static_cast<std::uint32_t>(known - owners.begin());
  owners.emplace_back(owner);
  newest.emplace_back();
  return static_cast<std::uint32_t>(owners.size() - 1);
}

incarnation_log read_log(const event_file& file, problem_list& problems) {
  log_reader reader(file, problems);
  std::string_view rest = file.text;
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const bool is_whole = length < rest.size();
    ++reader.log().lines;
    auto record = decode_event(rest.substr(0, length));
    if (record)
      reader.read(std::move(*record));
    else if (is_whole)
      reader.mistake(record.error().text);
    else
      reader.log().torn_tail = true;
    rest.remove_prefix(is_whole ? length + 1 : length);
  }
  return std::move(reader.log());
}

std::optional<sequence_number> sequence_of(const std::vector<owner_sequence>& owners,
                                           std::string_view owner) {
  const auto found = std::ranges::find(owners, owner, &owner_sequence::owner);
  if (found == owners.end()) return std::nullopt;
  return found->sequence;
}

} // namespace weir::detail
