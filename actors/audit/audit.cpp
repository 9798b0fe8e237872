#include "actors/audit/audit.hpp"

#include "actors/audit/audit_history.hpp"
#include "actors/audit/audit_log.hpp"

#include <algorithm>
#include <map>

namespace weir {

namespace {

using detail::group_history;
using detail::incarnation_log;
using detail::logged_cut;
using detail::problem_list;
using detail::state_event;

/// A log with the order in which its events are applied: cut by cut.
struct incarnation_node {
  incarnation_log log;
  /// Events, stably ordered by the first cut that holds them; `region_ends[k]` is the end of those
  /// of cut k. What follows the last of them is in no cut.
  std::vector<std::uint32_t> order;
  std::vector<std::size_t> region_ends;
  /// Who restored from cut k, in the order of incarnations.
  std::map<std::size_t, std::vector<std::size_t>> children;
  bool is_rooted = true;
  incarnation_audit summary;
};

class auditor {
public:
  auditor(std::span<const event_file> files, std::span<const bundle_facts> bundles)
      : bundles_(bundles), problems_(report_), history_(problems_) {
    std::vector<event_file> in_order(files.begin(), files.end());
    std::ranges::sort(in_order, {}, &event_file::incarnation);
    for (const event_file& file : in_order) {
      ensure(nodes_.empty() || nodes_.back().log.incarnation < file.incarnation,
             "an audit reads one log for each incarnation");
      nodes_.emplace_back().log = detail::read_log(file, problems_);
    }
  }

  audit_report run() {
    check_bundles();
    for (incarnation_node& node : nodes_) {
      order_events(node);
      summarize(node);
    }
    for (std::size_t index = 0; index < nodes_.size(); ++index)
      link(index);
    mark_survivors();
    for (std::size_t index = 0; index < nodes_.size(); ++index)
      if (nodes_[index].is_rooted && !nodes_[index].log.restored) play(index);
    for (incarnation_node& node : nodes_)
      report_.incarnations.push_back(std::move(node.summary));
    return std::move(report_);
  }

private:
  void problem(const incarnation_node& node, std::uint64_t line, audit_rule rule,
               std::string text) {
    problems_.add(node.log.name, line, rule, std::move(text));
  }

  incarnation_node* find(std::uint64_t incarnation) {
    const auto number = [](const incarnation_node& node) { return node.log.incarnation.value; };
    const auto found = std::ranges::lower_bound(nodes_, incarnation, {}, number);
    return found == nodes_.end() || number(*found) != incarnation ? nullptr : &*found;
  }

  static const logged_cut* find_cut(const incarnation_log& log, epoch_id epoch) {
    const auto epoch_of = [](const logged_cut& each) { return each.cut.epoch; };
    const auto found = std::ranges::lower_bound(log.cuts, epoch, {}, epoch_of);
    return found == log.cuts.end() || found->cut.epoch != epoch ? nullptr : &*found;
  }

  void check_bundles();
  void check_bundle(const bundle_facts& bundle);
  void order_events(incarnation_node& node);
  void check_cut_owners(const incarnation_node& node);
  static void summarize(incarnation_node& node);
  void link(std::size_t index);
  void mark_survivors();
  void play(std::size_t index);
  void apply(const incarnation_node& node, std::size_t from, std::size_t to);

  std::span<const bundle_facts> bundles_;
  audit_report report_;
  problem_list problems_;
  group_history history_;
  std::vector<incarnation_node> nodes_;
  /// The newest incarnation that did anything; what it ends with is what the run ends with.
  std::optional<std::size_t> newest_;
};

void auditor::check_bundles() {
  std::map<epoch_id, std::string_view> names;
  for (const bundle_facts& bundle : bundles_) {
    const auto [known, is_new] = names.emplace(bundle.epoch, bundle.bundle);
    if (!is_new)
      problems_.add(bundle.bundle, 0, audit_rule::log,
                    "epoch " + to_string(bundle.epoch) + " is also that of " +
                        std::string(known->second));
    check_bundle(bundle);
  }
}

/// The log says of a bundle what its MANIFEST says.
void auditor::check_bundle(const bundle_facts& bundle) {
  const auto differs = [&](std::string text) {
    problems_.add(bundle.bundle, 0, audit_rule::log, std::move(text));
  };
  const incarnation_node* node = find(bundle.epoch.incarnation);
  if (node == nullptr) {
    differs("no log of incarnation " + std::to_string(bundle.epoch.incarnation));
    return;
  }
  const logged_cut* cut = find_cut(node->log, bundle.epoch);
  if (cut == nullptr) {
    differs("its cut " + to_string(bundle.epoch) + " is not in " + std::string(node->log.name));
    return;
  }
  for (const auto& [owner, sequence] : bundle.owners) {
    const auto logged = detail::sequence_of(cut->cut.owners, owner);
    if (logged != sequence)
      differs(owner + " is at event " + std::to_string(sequence.value) + ", the log says " +
              (logged ? std::to_string(logged->value) : std::string("nothing")));
  }
  if (bundle.owners.size() != cut->cut.owners.size())
    differs("it names " + std::to_string(bundle.owners.size()) + " owners, the log " +
            std::to_string(cut->cut.owners.size()));
  for (const auto& [line, published] : node->log.published)
    if (published.epoch == bundle.epoch &&
        (published.bundle != bundle.bundle || published.parent != bundle.parent))
      differs("it was published as " + published.bundle + " with parent \"" + published.parent +
              "\", MANIFEST says \"" + bundle.parent + "\"");
}

/// Orders events by the first cut that holds them. Sequences rise along an owner's events and along
/// the cuts, so that one pass finds every event's cut.
void auditor::order_events(incarnation_node& node) {
  check_cut_owners(node);
  const incarnation_log& log = node.log;
  std::vector<std::size_t> cut_of_owner(log.owners.size(), 0);
  std::vector<std::uint32_t> region(log.events.size(), 0);
  std::vector<std::size_t> begins(log.cuts.size() + 2, 0);
  for (std::size_t index = 0; index < log.events.size(); ++index) {
    const state_event& each = log.events[index];
    std::size_t& cut = cut_of_owner[each.owner];
    const auto is_beyond = [&] {
      const auto newest = detail::sequence_of(log.cuts[cut].cut.owners, log.owners[each.owner]);
      return each.sequence > newest.value_or(sequence_number(0));
    };
    while (cut < log.cuts.size() && is_beyond())
      ++cut;
    region[index] = static_cast<std::uint32_t>(cut);
    ++begins[cut + 1];
  }
  for (std::size_t cut = 1; cut < begins.size(); ++cut)
    begins[cut] += begins[cut - 1];
  node.region_ends.assign(begins.begin() + 1, begins.end() - 1);
  node.order.resize(log.events.size());
  for (std::size_t index = 0; index < log.events.size(); ++index)
    node.order[begins[region[index]]++] = static_cast<std::uint32_t>(index);
}

void auditor::check_cut_owners(const incarnation_node& node) {
  const incarnation_log& log = node.log;
  std::vector<bool> writes(log.owners.size(), false);
  for (const state_event& each : log.events)
    writes[each.owner] = true;
  for (const auto& [line, cut] : log.cuts) {
    for (std::size_t owner = 0; owner < log.owners.size(); ++owner) {
      const auto sequence = detail::sequence_of(cut.owners, log.owners[owner]);
      if (!sequence && writes[owner])
        problem(node, line, audit_rule::log,
                "cut " + to_string(cut.epoch) + " does not hold " + log.owners[owner] +
                    ", which writes events");
      if (sequence && *sequence > log.newest[owner])
        problem(node, line, audit_rule::log,
                "cut " + to_string(cut.epoch) + " holds event " + std::to_string(sequence->value) +
                    " of " + log.owners[owner] + ", its log ends with " +
                    std::to_string(log.newest[owner].value));
    }
  }
}

void auditor::summarize(incarnation_node& node) {
  node.summary = {.incarnation = node.log.incarnation,
                  .survives = false,
                  .restored_bundle = node.log.restored ? node.log.restored->second.bundle : "",
                  .events = node.log.events.size(),
                  .rolled_back = node.log.events.size(),
                  .bundles_published = node.log.published.size(),
                  .torn_tail = node.log.torn_tail,
                  .finished = {}};
  if (node.log.finished) node.summary.finished = node.log.finished->second;
}

/// Hangs an incarnation below the cut that it restored.
void auditor::link(std::size_t index) {
  incarnation_node& node = nodes_[index];
  if (!node.log.restored) return;
  const auto& [line, restored] = *node.log.restored;
  node.is_rooted = false;
  incarnation_node* parent = restored.epoch.incarnation < node.log.incarnation.value
                                 ? find(restored.epoch.incarnation)
                                 : nullptr;
  const logged_cut* cut = parent == nullptr ? nullptr : find_cut(parent->log, restored.epoch);
  if (cut == nullptr) {
    problem(node, line, audit_rule::log,
            restored.bundle + " was restored, and no log has its cut " + to_string(restored.epoch));
    return;
  }
  node.is_rooted = parent->is_rooted;
  parent->children[static_cast<std::size_t>(cut - parent->log.cuts.data())].push_back(index);
}

/// The newest incarnation that did anything, and those from which it descends.
void auditor::mark_survivors() {
  for (std::size_t index = nodes_.size(); index-- > 0 && !newest_;) {
    const incarnation_log& log = nodes_[index].log;
    if (log.restored || !log.events.empty() || log.finished) newest_ = index;
  }
  if (!newest_) return;
  incarnation_node* node = &nodes_[*newest_];
  node->summary.survives = node->is_rooted;
  if (!node->is_rooted) return;
  node->summary.rolled_back = 0;
  while (node->log.restored) {
    const epoch_id epoch = node->log.restored->second.epoch;
    node = find(epoch.incarnation);
    const auto cut = static_cast<std::size_t>(find_cut(node->log, epoch) - node->log.cuts.data());
    node->summary.survives = true;
    node->summary.rolled_back = node->order.size() - node->region_ends[cut];
  }
}

void auditor::apply(const incarnation_node& node, std::size_t from, std::size_t to) {
  const incarnation_log& log = node.log;
  for (std::size_t position = from; position < to; ++position) {
    const state_event& each = log.events[node.order[position]];
    const detail::event_place place{.file = log.name, .line = each.line};
    const std::string_view owner = log.owners[each.owner];
    if (each.is_group)
      history_.apply(place, owner, log.groups[each.index]);
    else if (const auto* batch = std::get_if<handed_out_event>(&log.others[each.index]))
      history_.apply(place, owner, *batch);
    else
      history_.apply(place, owner, std::get<step_finished_event>(log.others[each.index]));
  }
}

/// Plays an incarnation on the state that it started from, and, at each of its cuts, those that
/// restored it; leaves the state as it was.
void auditor::play(std::size_t index) {
  const incarnation_node& node = nodes_[index];
  const auto start = history_.here();
  history_.begin_life(node.log.terms);
  std::size_t position = 0;
  for (std::size_t cut = 0; cut < node.log.cuts.size(); ++cut) {
    apply(node, position, node.region_ends[cut]);
    position = node.region_ends[cut];
    const logged_cut& at = node.log.cuts[cut];
    history_.check_cut({.file = node.log.name, .line = at.line}, at.cut);
    const auto children = node.children.find(cut);
    if (children == node.children.end()) continue;
    for (const std::size_t child : children->second) {
      const auto before = history_.here();
      history_.restore();
      play(child);
      history_.go_back(before);
    }
  }
  apply(node, position, node.order.size());
  if (node.log.finished)
    history_.check_end({.file = node.log.name, .line = node.log.finished->first},
                       node.log.finished->second);
  if (newest_ == index) history_.total(report_);
  history_.go_back(start);
}

} // namespace

std::string_view to_string(audit_rule rule) noexcept {
  constexpr std::array<std::string_view, 6> names = {"log",       "conservation", "ownership",
                                                     "staleness", "versions",     "leak"};
  return names[static_cast<std::size_t>(rule)];
}

std::string to_string(const audit_problem& problem) {
  std::string text = problem.file;
  if (problem.line != 0) text.append(":").append(std::to_string(problem.line));
  return text.append(": ").append(to_string(problem.rule)).append(": ").append(problem.text);
}

audit_report audit(std::span<const event_file> files, std::span<const bundle_facts> bundles) {
  return auditor(files, bundles).run();
}

} // namespace weir
