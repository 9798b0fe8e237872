/// Random trees of spawn, await, cancel, failure, deadline, gate and channel unwind exactly once,
/// in order, and leave nothing behind.
///
/// A failure prints the tree, and the line that runs it again:
///   RC_PARAMS='reproduce=...' build/release/tests/property/property_tests
/// Without RC_PARAMS each run draws other trees. A broken invariant, which ends the process, prints
/// the numbers of its tree before; WEIR_TREE='1 2 3' runs them.
#include "tests/property/forest.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cstdio>
#include <cstdlib>
#include <list>
#include <sstream>

namespace weir::test {
namespace {

const palette everything{
    {deed::pause, deed::give_way, deed::await, deed::push, deed::take, deed::mutate,
     deed::hand_over, deed::blow_up},
    {deed::call, deed::join, deed::leave, deed::all, deed::first, deed::limit, deed::shield},
};
const palette without_failures{
    {deed::pause, deed::give_way, deed::await, deed::push, deed::take, deed::mutate,
     deed::hand_over},
    everything.nodes,
};

/// The numbers of the tree that runs, for the report of a process that ends.
const choices* under_way = nullptr;

void print_tree() noexcept {
  std::fprintf(stderr, "WEIR_TREE='");
  for (const auto number : *under_way)
    std::fprintf(stderr, "%u ", static_cast<unsigned>(number));
  std::fprintf(stderr, "'\n");
}

/// What happens to a forest from outside, one move after the other.
class weather {
public:
  weather(const choices& numbers, std::ostream& story)
      : from_(numbers), story_(story), of_(from_.below(4) == 3 ? everything : without_failures) {}

  std::string run() {
    plant();
    for (int move = 0; move < 64 && !from_.ended(); ++move)
      happen(from_.below(10));
    return forest_.fell();
  }

private:
  void plant() {
    trees_.push_back(read_plan(from_, of_, 5, next_id_));
    story_ << "plant " << to_string(trees_.back()) << "\n";
    forest_.plant(trees_.back());
  }
  void happen(unsigned move) {
    const unsigned amount = from_.below(8);
    story_ << "move " << move << " " << amount << "\n";
    if (move == 0) forest_.step(1000);
    if (move == 1) forest_.step(1 + amount);
    if (move == 2 || move == 3) forest_.advance(std::chrono::milliseconds(amount));
    if (move == 4) forest_.raise();
    if (move == 5 || move == 6) plant();
    if (move == 7) forest_.close_gate(std::chrono::milliseconds(amount));
    if (move == 8) forest_.open_gate();
    if (move == 9 && amount == 7) forest_.cut_down();
  }

  chooser from_;
  std::ostream& story_;
  const palette& of_;
  int next_id_ = 1;
  std::list<plan> trees_; ///< Where they stay while coroutines look at them.
  forest forest_;
};

std::string broken_rules(const choices& numbers, std::ostream& story) {
  under_way = &numbers;
  set_ensure_observer(&print_tree);
  std::string broken = weather(numbers, story).run();
  set_ensure_observer(nullptr);
  return broken;
}

} // namespace

TEST_SUITE("property/unwind") {
  TEST_CASE("random trees of coroutines unwind exactly once, in order, and leave nothing") {
    const bool holds = rc::check("trees unwind", [] {
      const auto size = *rc::gen::inRange<std::size_t>(0, 200);
      const auto numbers =
          *rc::gen::container<choices>(size, rc::gen::inRange<std::uint16_t>(0, 5040));
      std::ostringstream story;
      const std::string broken = broken_rules(numbers, story);
      RC_LOG() << story.str();
      RC_ASSERT(broken == std::string());
    });
    CHECK(holds);
  }

  TEST_CASE("a tree from the environment runs again") {
    const char* given = std::getenv("WEIR_TREE");
    choices numbers;
    std::istringstream words(given != nullptr ? given : "");
    for (unsigned number = 0; words >> number;)
      numbers.push_back(static_cast<std::uint16_t>(number));
    std::ostringstream story;
    const std::string broken = broken_rules(numbers, story);
    if (given != nullptr) std::fputs(story.str().c_str(), stderr);
    CHECK(broken == "");
  }
}

} // namespace weir::test
