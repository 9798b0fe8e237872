/// `weir diff`: what lies between two bundles: files, rows, groups.
#include "dataplane/posix_disk.hpp"
#include "examples/weir/bundle_view.hpp"
#include "examples/weir/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace weir {

namespace {

/// Ids that are listed of each kind of difference.
constexpr std::size_t listed_max = 8;

template <class Id>
std::string some_of(const std::vector<Id>& ids) {
  std::string text;
  for (std::size_t at = 0; at < ids.size() && at < listed_max; ++at)
    text.append(at == 0 ? "" : " ").append(std::to_string(ids[at].value));
  return ids.size() > listed_max ? text + " ..." : text;
}

/// A row as a comparable value: everything but its place in memory.
struct comparable_row {
  dataplane::row_summary summary;
  std::vector<std::span<const std::byte>> payload;

  friend bool operator==(const comparable_row& one, const comparable_row& other) {
    const auto same_bytes = [](std::span<const std::byte> left, std::span<const std::byte> right) {
      return std::ranges::equal(left, right);
    };
    return one.summary == other.summary &&
           std::ranges::equal(one.payload, other.payload, same_bytes);
  }
};
using row_map = std::map<row_id, comparable_row>;

row_map rows_of(const dataplane::contents& all, const dataplane::partition_state& partition) {
  row_map rows;
  partition.rows.for_each([&](std::uint64_t id, const dataplane::row_entry& row) {
    comparable_row one{summarize(*partition.schema, id, row), {}};
    // Two stores may have numbered their fields differently: compare in the order of the names.
    std::vector<std::pair<std::string, std::span<const std::byte>>> cells;
    for (const dataplane::cell& cell : row.body->cells)
      cells.emplace_back(partition.schema->fields[cell.field].name, bytes_of(all, cell));
    std::ranges::sort(cells, {}, [](const auto& cell) { return cell.first; });
    for (const auto& [name, bytes] : cells)
      one.payload.push_back(bytes);
    std::ranges::sort(one.summary.fields, {}, &dataplane::field_summary::name);
    std::ranges::sort(one.summary.tags, {}, &dataplane::tag::name);
    std::ranges::sort(one.summary.consumers);
    rows.emplace(row_id(id), std::move(one));
  });
  return rows;
}

std::map<std::string, row_map> all_rows(const bundle_view& bundle) {
  std::map<std::string, row_map> partitions;
  const dataplane::contents& all = bundle.parts.rows.state();
  all.partitions.for_each([&](std::uint64_t, const dataplane::partition_state& partition) {
    partitions.emplace(partition.schema->name, rows_of(all, partition));
  });
  return partitions;
}

class comparison {
public:
  comparison(const bundle_view& left, const bundle_view& right) : left_(left), right_(right) {}

  std::string text() {
    add_head();
    add_files();
    add_rows();
    if (left_.of_a_run && right_.of_a_run) add_groups();
    if (!differs_) add("no difference");
    return std::move(text_);
  }
  [[nodiscard]] bool differs() const { return differs_; }

private:
  template <class... Args>
  void add(fmt::format_string<Args...> line, Args&&... args) {
    text_ += fmt::format(line, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void add_head() {
    const dataplane::manifest& one = left_.parts.bundle.content;
    const dataplane::manifest& other = right_.parts.bundle.content;
    if (one.run_id != other.run_id) note("run", one.run_id, other.run_id);
    if (one.step != other.step) note("step", std::to_string(one.step), std::to_string(other.step));
    if (one.epoch != other.epoch) note("cut", short_text(one.epoch), short_text(other.epoch));
    const auto& before = left_.parts.cursor;
    const auto& after = right_.parts.cursor;
    if (before.ordinal != after.ordinal)
      note("handed out", std::to_string(before.ordinal), std::to_string(after.ordinal));
    if (left_.parts.replay.consumed != right_.parts.replay.consumed)
      note("consumed", std::to_string(left_.parts.replay.consumed.count),
           std::to_string(right_.parts.replay.consumed.count));
  }

  void note(const std::string& what, const std::string& one, const std::string& other) {
    differs_ = true;
    add("{}: {} -> {}", what, one, other);
  }

  void add_files() {
    const dataplane::manifest& one = left_.parts.bundle.content;
    const dataplane::manifest& other = right_.parts.bundle.content;
    for (const dataplane::manifest_file& file : one.files) {
      const dataplane::manifest_file* same = other.find(file.path);
      if (same == nullptr)
        note_file("only in the first", file);
      else if (*same != file)
        note("file " + file.path + ": differs, bytes", std::to_string(file.bytes),
             std::to_string(same->bytes));
    }
    for (const dataplane::manifest_file& file : other.files)
      if (one.find(file.path) == nullptr) note_file("only in the second", file);
  }

  void note_file(const char* what, const dataplane::manifest_file& file) {
    differs_ = true;
    add("file {}: {} ({} bytes)", file.path, what, file.bytes);
  }

  void add_rows() {
    auto before = all_rows(left_);
    auto after = all_rows(right_);
    for (const auto& [name, rows] : after)
      before.try_emplace(name);
    for (const auto& [name, rows] : before)
      compare_rows(name, rows, after[name]);
  }

  void compare_rows(const std::string& partition, const row_map& before, const row_map& after) {
    std::vector<row_id> gone;
    std::vector<row_id> changed;
    std::vector<row_id> added;
    for (const auto& [id, row] : before) {
      const auto same = after.find(id);
      if (same == after.end())
        gone.push_back(id);
      else if (!(same->second == row))
        changed.push_back(id);
    }
    for (const auto& [id, row] : after)
      if (!before.contains(id)) added.push_back(id);
    note_rows(partition, "only in the first", gone);
    note_rows(partition, "only in the second", added);
    note_rows(partition, "differ", changed);
  }

  void note_rows(const std::string& partition, const char* what, const std::vector<row_id>& rows) {
    if (rows.empty()) return;
    differs_ = true;
    add("rows of {}: {} {}: {}", partition, rows.size(), what, some_of(rows));
  }

  /// Groups by the way that they went: "admitted -> ready".
  void add_groups() {
    std::map<group_id, std::pair<group_state, group_state>> ways;
    for (const group_standing& group : groups_of(left_.parts))
      ways[group.group].first = group.state;
    for (const group_standing& group : groups_of(right_.parts))
      ways[group.group].second = group.state;
    std::map<std::pair<group_state, group_state>, std::vector<group_id>> by_way;
    for (const auto& [group, way] : ways)
      if (way.first != way.second) by_way[way].push_back(group);
    for (const auto& [way, groups] : by_way) {
      differs_ = true;
      add("groups {} -> {}: {}: {}", word(way.first), word(way.second), groups.size(),
          some_of(groups));
    }
  }

  /// A group that a bundle does not name was not handed out yet, or has left the run.
  static std::string_view word(group_state state) {
    return state == group_state::none ? "not held" : to_string(state);
  }

  const bundle_view& left_;
  const bundle_view& right_;
  std::string text_;
  bool differs_ = false;
};

/// A bundle that is what its manifest says: of a damaged one nothing can be told by its manifest.
result<bundle_view> whole_bundle(dataplane::disk& storage, const std::string& named) {
  const auto path = bundle_path(storage, named);
  if (!path) return failure(path.error());
  const auto problems = dataplane::verify_bundle(storage, *path);
  if (!problems.empty())
    return failure(problems.front().reason.code, problems.front().reason.text + "; `weir verify " +
                                                     named + "` says all that is wrong");
  auto view = view_bundle(storage, *path);
  if (!view) return failure(view.error().code, named + ": " + view.error().text);
  return view;
}

} // namespace

exit_code diff(const std::string& first, const std::string& second) {
  const auto storage = dataplane::make_posix_disk();
  const auto left = whole_bundle(*storage, first);
  const auto right = left ? whole_bundle(*storage, second) : failure(left.error());
  if (!right) {
    std::fprintf(stderr, "%s\n", to_string(right.error()).c_str());
    return exit_code::bad_usage;
  }
  comparison compared(*left, *right);
  std::fputs(compared.text().c_str(), stdout);
  return compared.differs() ? exit_code::failed : exit_code::done;
}

} // namespace weir
