#include "actors/runtime/detail/task_dump.hpp"

#include "actors/runtime/run_queue.hpp"
#include "messages/limits.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace weir {

namespace detail {

namespace {

void erase_all(std::string& text, std::string_view piece) {
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at))
    text.erase(at, piece.size());
}

/// Leaves out what stands between angle brackets.
std::string without_templates(std::string_view text) {
  std::string kept;
  std::size_t depth = 0;
  for (const char letter : text) {
    if (letter == '>' && depth > 0) {
      --depth;
      continue;
    }
    if (letter == '<') ++depth;
    if (depth == 0) kept += letter;
  }
  return kept;
}

} // namespace

std::string short_function(std::string_view pretty) {
  const bool lambda =
      pretty.find("<lambda") != pretty.npos || pretty.find("(anonymous class)") != pretty.npos;
  std::string name(pretty.substr(0, pretty.find(" [")));
  for (const auto hidden : {"(anonymous namespace)::", "{anonymous}::"})
    erase_all(name, hidden);
  name = without_templates(name);
  name.resize(std::min(name.find('('), name.size()));
  if (const auto space = name.rfind(' '); space != std::string::npos) name.erase(0, space + 1);
  const auto last = name.rfind("::");
  if (last != std::string::npos && last > 0) {
    const auto before = name.rfind("::", last - 1);
    if (before != std::string::npos) name.erase(0, before + 2);
  }
  return lambda ? "a lambda in " + name : name;
}

std::string short_place(const std::source_location& where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1); // npos + 1 is 0
  return std::string(file) + ":" + std::to_string(where.line());
}

std::string age_text(std::chrono::nanoseconds age) {
  const auto tenths = age.count() / 100'000'000;
  if (tenths >= 100) return std::to_string(tenths / 10) + " s";
  if (tenths >= 10) return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  return std::to_string(age.count() / 1'000'000) + " ms";
}

std::string frame_text(const promise_base& task) {
  const bool has_waited = task.waits_at().line() != 0;
  return short_function(task.made_at().function_name()) + " (" +
         short_place(has_waited ? task.waits_at() : task.made_at()) + ")";
}

std::string stack_text(const promise_base& innermost) {
  std::string text = frame_text(innermost);
  for (const auto* at = innermost.caller(); at != nullptr; at = at->caller()) {
    if (!at->wraps()) text += ", called by " + frame_text(*at);
  }
  return text;
}

std::string exception_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

namespace {

void print_tasks() noexcept {
  const run_queue* queue = run_queue::current();
  if (queue == nullptr) return;
  const std::string text = "the coroutines of " + queue->dump_tasks();
  std::fputs(text.c_str(), stderr);
}

} // namespace

void print_tasks_on_ensure() noexcept {
  set_ensure_observer(&print_tasks);
}

} // namespace detail

namespace {

using children_by_parent =
    std::map<const detail::promise_base*, std::vector<const detail::promise_base*>>;

/// The lines of one tree. Wrappers that only start another coroutine are left out.
void append_tree(std::vector<std::string>& lines, const children_by_parent& children,
                 const detail::promise_base& root, const run_queue& queue) {
  std::vector<std::pair<const detail::promise_base*, std::size_t>> pending{{&root, 1}};
  while (!pending.empty()) {
    const auto [task, depth] = pending.back();
    pending.pop_back();
    const auto below = children.find(task);
    const bool hidden = task->wraps() && below != children.end();
    if (!hidden)
      lines.push_back(std::string(2 * depth, ' ') + detail::frame_text(*task) +
                      queue.state_of(*task));
    if (below == children.end()) continue;
    for (auto child = below->second.rbegin(); child != below->second.rend(); ++child)
      pending.emplace_back(*child, hidden ? depth : depth + 1);
  }
}

} // namespace

std::string run_queue::state_of(const detail::promise_base& task) const {
  if (&task == running_) return " runs";
  if (task.ready()) return " is ready";
  return " waits for " + task.waits_for(host_ != nullptr ? now() : std::chrono::nanoseconds(0));
}

std::string run_queue::dump_tasks() const {
  children_by_parent children;
  std::vector<const detail::promise_base*> roots;
  std::set<const detail::promise_base*> older;
  for (const detail::promise_base* task : by_age()) {
    // A spawned child may outlive the one that spawned it, and a younger coroutine may have that
    // one's place in memory: only an older one is the parent.
    if (older.contains(task->parent()))
      children[task->parent()].push_back(task);
    else
      roots.push_back(task);
    older.insert(task);
  }
  std::vector<std::string> lines;
  for (const auto* root : roots)
    append_tree(lines, children, *root, *this);
  std::string text = (host_ != nullptr ? host_->host_name() : std::string("nobody")) + "\n";
  const std::size_t shown = std::min(lines.size(), limits::dumped_tasks_max);
  for (std::size_t i = 0; i < shown; ++i)
    text += lines[i] + "\n";
  if (shown < lines.size()) text += "  and " + std::to_string(lines.size() - shown) + " more\n";
  return text;
}

} // namespace weir
