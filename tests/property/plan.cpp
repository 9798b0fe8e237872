#include "tests/property/plan.hpp"

namespace weir::test {

const char* to_string(deed what) noexcept {
  switch (what) {
  case deed::done:
    return "done";
  case deed::pause:
    return "pause";
  case deed::give_way:
    return "give_way";
  case deed::await:
    return "await";
  case deed::push:
    return "push";
  case deed::take:
    return "take";
  case deed::mutate:
    return "mutate";
  case deed::hand_over:
    return "hand_over";
  case deed::blow_up:
    return "blow_up";
  case deed::work:
    return "work";
  case deed::listen:
    return "listen";
  case deed::refuse:
    return "refuse";
  case deed::ask:
    return "ask";
  case deed::call:
    return "call";
  case deed::join:
    return "join";
  case deed::leave:
    return "leave";
  case deed::all:
    return "all";
  case deed::first:
    return "first";
  case deed::limit:
    return "limit";
  case deed::shield:
    return "shield";
  }
  return "?";
}

namespace {

/// Combinators know their number when they are compiled: two children, or one.
std::size_t children_of(deed what, chooser& from) {
  switch (what) {
  case deed::limit:
  case deed::shield:
  case deed::ask:
    return 1;
  case deed::all:
  case deed::first:
    return 3;
  default:
    return 1 + from.below(4);
  }
}

} // namespace

plan read_plan(chooser& from, const palette& of, int depth, int& next_id) {
  plan tree;
  tree.id = next_id++;
  const auto leaves = static_cast<unsigned>(of.leaves.size());
  const auto nodes = static_cast<unsigned>(of.nodes.size());
  const unsigned kind = from.below(1 + leaves + (depth > 0 ? 2 * nodes : 0));
  if (kind == 0) return tree;
  if (kind <= leaves) {
    tree.what = of.leaves[kind - 1];
    tree.amount = from.below(16);
    return tree;
  }
  tree.what = of.nodes[(kind - 1 - leaves) % nodes];
  tree.amount = from.below(16);
  const std::size_t count = children_of(tree.what, from);
  for (std::size_t i = 0; i < count; ++i)
    tree.children.push_back(read_plan(from, of, depth - 1, next_id));
  return tree;
}

std::string to_string(const plan& tree) {
  std::string text = to_string(tree.what);
  if (tree.amount > 0) text += " " + std::to_string(tree.amount);
  if (tree.children.empty()) return text;
  text += " (";
  for (const plan& child : tree.children)
    text += (&child == &tree.children.front() ? "" : ", ") + to_string(child);
  return text + ")";
}

} // namespace weir::test
