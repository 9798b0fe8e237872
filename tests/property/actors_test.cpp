/// Random trees that several actors grow together, with asks, leases, streams and blocking work in
/// between, leave nothing behind: neither when they end, nor when the graph stops or crashes amid.
///
/// A failure prints the trees and the line that runs it again, as in unwind_test.cpp.
#include "actors/runtime/simulation.hpp"
#include "tests/property/gardener.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <list>
#include <sstream>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

const palette peaceful{
    {deed::pause, deed::give_way, deed::mutate, deed::hand_over, deed::work, deed::listen,
     deed::refuse},
    {deed::ask, deed::ask, deed::call, deed::join, deed::leave, deed::all, deed::first, deed::limit,
     deed::shield},
};
const palette violent{
    {deed::pause, deed::give_way, deed::mutate, deed::hand_over, deed::work, deed::listen,
     deed::blow_up},
    peaceful.nodes,
};

/// Trees, and who grows them.
struct planting {
  planting(chooser& from, const palette& of) {
    shared.gardeners = 1 + from.below(4);
    const unsigned count = 1 + from.below(6);
    for (unsigned i = 0; i < count; ++i) {
      const plan& tree = trees.emplace_back(read_plan(from, of, 5, next_id));
      shared.add(tree);
      roots.push_back(tree.id);
      story += to_string(tree) + "\n";
    }
  }
  void build(graph& system) {
    for (std::size_t number = 0; number < shared.gardeners; ++number)
      std::ignore = system.add<gardener>(gardener::name_of(number), shared);
    std::ignore = system.add<crowd>("crowd", shared, roots);
  }

  int next_id = 0;
  std::list<plan> trees;
  std::vector<int> roots;
  garden shared;
  std::string story;
};

log_hook silent() {
  return [](log_level, std::string_view, std::string_view) {};
}

std::string left_over(const actor_counters& counted) {
  std::string text;
  const auto tell = [&text](const char* what, std::size_t count) {
    if (count != 0) text += std::to_string(count) + " " + what + "\n";
  };
  tell("live coroutines", counted.live_coroutines);
  tell("pending asks", counted.pending_asks);
  tell("unsettled leases", counted.unsettled_leases);
  tell("open streams", counted.open_streams);
  return text;
}

choices numbers_of_a_case() {
  const auto size = *rc::gen::inRange<std::size_t>(0, 200);
  return *rc::gen::container<choices>(size, rc::gen::inRange<std::uint16_t>(0, 5040));
}

enum class ending { run_out, stop, crash };

/// Runs the trees in a simulation until they end or for some steps; gives what was left.
std::string remains_of(planting& trees, std::uint64_t seed, ending how, std::uint64_t steps) {
  std::string left;
  {
    simulation around({.seed = seed, .log = silent()});
    graph system(around.env());
    trees.build(system);
    if (auto started = system.start(); !started) return to_string(started.error());
    around.run(how == ending::run_out ? 1'000'000 : steps);
    if (how == ending::crash) {
      system.kill();
    } else {
      const auto ended = system.outcome();
      if (how == ending::run_out && !ended) left += "the run does not end\n";
      if (how == ending::run_out && ended && *ended) left += left_over(system.counters());
      if (auto stopped = system.stop(); !stopped) left += to_string(stopped.error()) + "\n";
    }
  }
  if (trees.shared.begun != trees.shared.ended) left += "a frame lives on\n";
  if (trees.shared.wrong_answers != 0) left += "an answer was that to another question\n";
  return left;
}

} // namespace

TEST_SUITE("property/actors") {
  TEST_CASE("random trees over several actors leave nothing, however they end") {
    const bool holds = rc::check("trees of actors", [] {
      const auto numbers = numbers_of_a_case();
      const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
      chooser from(numbers);
      const auto how = static_cast<ending>(from.below(3));
      const std::uint64_t steps = from.below(500);
      planting trees(from, from.below(3) == 2 ? violent : peaceful);
      RC_LOG() << "seed " << seed << ", ending " << static_cast<int>(how) << " after " << steps
               << " steps\n"
               << trees.story;
      RC_ASSERT(remains_of(trees, seed, how, steps) == std::string());
    });
    CHECK(holds);
  }

  TEST_CASE("the same trees under the same seed are the same run") {
    const bool holds = rc::check("trees of actors repeat", [] {
      const auto numbers = numbers_of_a_case();
      const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
      const auto hash = [&] {
        chooser from(numbers);
        planting trees(from, peaceful);
        return simulate({.seed = seed, .log = silent()},
                        [&](graph& system) { trees.build(system); })
            .trace_hash;
      };
      const std::uint64_t once = hash();
      RC_ASSERT(hash() == once);
    });
    CHECK(holds);
  }

  TEST_CASE("on two threads, too, trees over several actors leave nothing") {
    choices numbers(150);
    std::uint64_t number = 1;
    for (int graphs = 0; graphs < 20; ++graphs) {
      for (auto& each : numbers)
        each = static_cast<std::uint16_t>((number = number * 6364136223846793005ULL + 1) >> 48U);
      chooser from(numbers);
      planting trees(from, peaceful);
      CAPTURE(trees.story);
      world env({.log = silent()});
      graph system(env);
      trees.build(system);
      REQUIRE(system.start());
      REQUIRE(system.wait_blocking(20s));
      std::string left = "not counted";
      for (int tries = 0; tries < 100'000 && !left.empty(); ++tries)
        left = left_over(system.counters());
      CHECK(left == "");
      CHECK(system.stop());
      CHECK(trees.shared.begun == trees.shared.ended);
      CHECK(trees.shared.wrong_answers == 0);
    }
  }
}

} // namespace weir::test
