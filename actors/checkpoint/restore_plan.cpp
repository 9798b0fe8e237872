#include "actors/checkpoint/restore_plan.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace weir {

namespace {

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

/// "row 7 (group 3, sibling 1)".
std::string name_of(const inventory_row& row) {
  return "row " + std::to_string(row.row.value) + " (" + name_of(row.group) + ", sibling " +
         std::to_string(row.sibling) + ")";
}

class planner {
public:
  explicit planner(const restored_sections& sections) : sections_(sections) {}

  result<restore_plan> plan() {
    index_rows();
    for (const replay_entry& entry : sections_.replay)
      check(entry);
    for (const ledger_entry& entry : sections_.ledger)
      check(entry);
    for (const group_id spare : sections_.reserve)
      check(spare);
    for (const inventory_row& row : sections_.data_plane.rows)
      if (!named_.contains(row.row))
        differ(row.committed
                   ? "the data plane has committed " + name_of(row) +
                         ", the replay index does not name it"
                   : "the data plane has staged " + name_of(row) + ", no ledger record names it");
    if (differences_ != 0) return failure(errc::corrupt, verdict());
    return sorted();
  }

private:
  void differ(std::string text) {
    ++differences_;
    if (differences_ <= differences_max) text_.append("; ").append(text);
  }

  std::string verdict() const {
    std::string text = "the bundle contradicts itself in " + std::to_string(differences_) +
                       " places, restore another one" + text_;
    if (differences_ > differences_max)
      text += "; and " + std::to_string(differences_ - differences_max) + " more";
    return text;
  }

  void index_rows() {
    const inventory& data_plane = sections_.data_plane;
    ensure(data_plane.field_names.size() <= 64, "an inventory names at most 64 fields");
    for (std::size_t field = 0; field < data_plane.field_names.size(); ++field)
      if (std::ranges::count(sections_.required_fields, data_plane.field_names[field]) != 0)
        required_ |= std::uint64_t{1} << field;
    if (std::cmp_not_equal(std::popcount(required_), sections_.required_fields.size()))
      differ("the replay index needs fields " + fields(sections_.required_fields) +
             ", the data plane knows " + fields(data_plane.field_names));
    for (const inventory_row& row : data_plane.rows)
      if (!rows_.emplace(row.row, &row).second)
        differ("the data plane holds row " + std::to_string(row.row.value) + " twice");
  }

  static std::string fields(const std::vector<std::string>& names) {
    std::string text = "[";
    for (const std::string& name : names)
      text.append(text.size() == 1 ? "" : ", ").append(name);
    return text + "]";
  }
  std::string fields_of(const inventory_row& row) const {
    std::vector<std::string> names;
    for (std::size_t field = 0; field < sections_.data_plane.field_names.size(); ++field)
      if (((row.fields >> field) & 1U) != 0)
        names.push_back(sections_.data_plane.field_names[field]);
    return fields(names);
  }

  void check_handed_out(group_id group, std::string_view section) {
    if (group >= sections_.next_group)
      differ(std::string(section) + " has " + name_of(group) +
             ", the dataloader has handed out none from " +
             std::to_string(sections_.next_group.value) + " on");
  }

  /// The row that a section names, if the data plane has it as that section says.
  const inventory_row* claim_row(row_id row, group_id group, std::size_t sibling, bool committed,
                                 std::string_view section) {
    const std::string named = std::string(section) + " names row " + std::to_string(row.value) +
                              " as sibling " + std::to_string(sibling) + " of " + name_of(group);
    const auto known = rows_.find(row);
    if (known == rows_.end()) {
      differ(named + ", the data plane has no such row");
      return nullptr;
    }
    if (!named_.insert(row).second) {
      differ(named + ", and it is named elsewhere too");
      return nullptr;
    }
    const inventory_row& found = *known->second;
    if (found.group != group || found.sibling != sibling || found.committed != committed) {
      differ(named + (committed ? ", committed" : ", staged") + ", in the data plane it is " +
             name_of(found) + (found.committed ? ", committed" : ", staged"));
      return nullptr;
    }
    return &found;
  }

  void check(const replay_entry& entry) {
    check_handed_out(entry.group, "the replay index");
    if (!ready_.emplace(entry.group, &entry).second)
      differ("the replay index has " + name_of(entry.group) + " twice");
    if (entry.rows.empty()) differ("the replay index has no row of " + name_of(entry.group));
    for (std::size_t sibling = 0; sibling < entry.rows.size(); ++sibling) {
      const inventory_row* row =
          claim_row(entry.rows[sibling], entry.group, sibling, true, "the replay index");
      if (row == nullptr) continue;
      if ((row->fields & required_) != required_)
        differ("the replay index needs fields " + fields(sections_.required_fields) +
               ", the data plane has " + fields_of(*row) + " of " + name_of(*row));
      ++plan_.siblings_kept;
      plan_.tokens_kept += row->tokens;
    }
    if (entry.claimed_for >= 0) ++plan_.groups_claimed_before;
  }

  void check(const ledger_entry& entry) {
    check_handed_out(entry.group, "the ledger");
    if (!in_ledger_.insert(entry.group).second) {
      differ("the ledger has " + name_of(entry.group) + " twice");
      return;
    }
    if (ready_.contains(entry.group)) {
      // The data plane wins; rows that only the ledger still names would be a difference.
      plan_.discarded.push_back(entry.group);
      return;
    }
    for (const sealed_sibling& sealed : entry.sealed) {
      const inventory_row* row =
          claim_row(sealed.row, entry.group, sealed.sibling, false, "the ledger");
      if (row == nullptr) continue;
      ++plan_.siblings_kept;
      plan_.tokens_kept += row->tokens;
    }
    if (entry.admitted && entry.dispatches >= poisoned_dispatches)
      plan_.poisoned.push_back(entry.group);
    else
      unfinished_.push_back(&entry);
  }

  void check(group_id spare) {
    check_handed_out(spare, "the reserve");
    if (ready_.contains(spare))
      differ("the reserve has " + name_of(spare) + ", and the replay index has it too");
    if (in_ledger_.contains(spare))
      differ("the reserve has " + name_of(spare) + ", and the ledger has it too");
    plan_.spares.push_back(spare);
  }

  restore_plan sorted() {
    std::vector<const replay_entry*> ready;
    for (const replay_entry& entry : sections_.replay)
      ready.push_back(&entry);
    std::ranges::sort(ready, {}, [](const replay_entry* entry) {
      return std::pair(entry->dispatch_index, entry->group);
    });
    for (const replay_entry* entry : ready)
      plan_.ready.push_back(entry->group);
    std::ranges::sort(unfinished_, {}, [](const ledger_entry* entry) {
      return std::tuple(entry->admitted ? entry->dispatch_index : 0,
                        entry->admitted ? 0 : entry->admission, entry->group);
    });
    for (const ledger_entry* entry : unfinished_) {
      (entry->admitted ? plan_.admitted : plan_.reserved).push_back(entry->group);
      if (entry->admitted) ++plan_.groups_reissued;
    }
    return std::move(plan_);
  }

  const restored_sections& sections_;
  restore_plan plan_;
  std::unordered_map<row_id, const inventory_row*> rows_;
  /// Rows that the replay index or the ledger names.
  std::unordered_set<row_id> named_;
  std::unordered_map<group_id, const replay_entry*> ready_;
  std::unordered_set<group_id> in_ledger_;
  std::vector<const ledger_entry*> unfinished_;
  std::uint64_t required_ = 0;
  std::size_t differences_ = 0;
  std::string text_;
};

} // namespace

result<restore_plan> plan_restore(const restored_sections& sections) {
  return planner(sections).plan();
}

} // namespace weir
