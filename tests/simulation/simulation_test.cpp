#include "tests/simulation/crashing_run.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace weir;
using namespace weir::sim;

namespace {

run_report run_of(std::uint64_t seed) {
  run_options options;
  options.seed = seed;
  return run_seed(options);
}

} // namespace

TEST_SUITE_BEGIN("simulation");

TEST_CASE("a seed is a run: every message and every crash again") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const run_report once = run_of(seed);
    const run_report again = run_of(seed);
    INFO(describe(once));
    CHECK(once.clean());
    CHECK(once.trace_hash == again.trace_hash);
    CHECK(once.steps == again.steps);
  }
}

TEST_CASE("another seed is another run") {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    hashes.insert(run_of(seed).trace_hash);
  CHECK(hashes.size() == 8);
}

TEST_CASE("a run crashes ten times on average before its job is done") {
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    crashes += run_of(seed).crashes;
  CHECK(crashes >= 400);
}

TEST_CASE("seeds meet every sampler, both kinds of crash, and crashes within a call to the disk") {
  std::set<std::string> samplers;
  std::set<crash_kind> kinds;
  bool in_a_call = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    samplers.insert(plan_of(seed, all_samplers()).sampler.name);
    for (const crash_point& crash : crashes_of(seed, {1000, 100}, std::nullopt)) {
      kinds.insert(crash.kind);
      in_a_call = in_a_call || crash.at_disk_call.has_value();
    }
  }
  CHECK(samplers.size() == 4);
  CHECK(kinds.size() == 2);
  CHECK(in_a_call);
}

TEST_SUITE_END();
