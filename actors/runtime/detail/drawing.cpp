#include "actors/runtime/detail/drawing.hpp"

#include <algorithm>
#include <string_view>

namespace weir::detail {

namespace {

/// In quotes, as Graphviz reads them: a name may be any text.
std::string quoted(std::string_view text) {
  std::string shown("\"");
  for (const char letter : text) {
    if (letter == '\n') {
      shown += "\\n";
      continue;
    }
    if (letter == '"' || letter == '\\') shown += '\\';
    shown += letter;
  }
  return shown + '"';
}

std::string node(const drawn_actor& one) {
  std::string label = one.name;
  if (one.is_origin && one.is_owner)
    label += "\norigin, owner";
  else if (one.is_origin || one.is_owner)
    label += one.is_origin ? "\norigin" : "\nowner";
  std::string style = one.is_owner ? "shape=cylinder" : "shape=box, style=rounded";
  if (one.is_origin)
    style = one.is_owner ? "shape=cylinder, style=filled, fillcolor=lightblue"
                         : "shape=box, style=\"rounded,filled\", fillcolor=lightblue";
  return "  " + quoted(one.name) + " [label=" + quoted(label) + ", " + style + "];\n";
}

/// Each name once, in the order of its first place.
std::vector<std::string> once(const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (const std::string& name : names)
    if (std::ranges::find(kept, name) == kept.end()) kept.push_back(name);
  return kept;
}

} // namespace

std::string to_dot(std::vector<drawn_actor> actors) {
  std::string text = "digraph weir {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n";
  for (const drawn_actor& one : actors)
    text += node(one);
  for (const drawn_actor& one : actors)
    for (const std::string& asked : once(one.asks))
      text += "  " + quoted(one.name) + " -> " + quoted(asked) + ";\n";
  for (const drawn_actor& one : actors)
    for (const std::string& held : once(one.barrier))
      text += "  " + quoted(one.name) + " -> " + quoted(held) +
              " [style=dashed, constraint=false, color=gray40];\n";
  for (const drawn_actor& one : actors)
    if (!one.supervisor.empty())
      text += "  " + quoted(one.supervisor) + " -> " + quoted(one.name) +
              " [style=dotted, color=gray40];\n";
  return text + "}\n";
}

} // namespace weir::detail
