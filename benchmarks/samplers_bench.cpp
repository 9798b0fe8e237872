/// A sampler costs nothing: one selection and one eviction over 10,000 buffered groups.
///
///     samplers_bench [PATH]       writes PATH, by default build/benchmarks/samplers.json
///
/// The bound: a scan reads three columns of 8 bytes or less a group, 170 KB in all, twice; they lie
/// in the second-level cache. Half of the groups are stale, so that a selection does not end at the
/// first ones and an eviction names thousands. The baseline of each row is its limit.
#include "actors/sampler/sampler_policy.hpp"
#include "actors/sampler/slot_table.hpp"
#include "benchmarks/report.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace weir;
using namespace weir::benchmarks;

constexpr std::uint64_t buffered = 10'000;
constexpr std::uint64_t groups_per_step = 32;
constexpr std::uint64_t window = 8;
constexpr double limit_us = 50.0;

/// Batches of N, one a version. One group in a hundred is in flight.
slot_table full_buffer() {
  std::vector<policy_slot> slots;
  for (std::uint64_t group = 0; group < buffered; ++group) {
    const std::uint64_t batch = group / groups_per_step;
    slots.push_back({.group = group_id(group),
                     .dispatch_index = static_cast<std::int64_t>(batch),
                     .target_step = static_cast<std::int64_t>(batch),
                     .admission_version = weight_version(batch),
                     .window = window,
                     .start_version = weight_version(batch),
                     .ready = group % 100 != 99});
  }
  return slot_table(slots);
}

row decision_row(const std::string& name, bool freshest_first, const slot_table& slots) {
  sampler_options options;
  options.name = name;
  options.max_lookahead_versions = window;
  options.max_staleness_versions = window;
  options.sample_freshest_first = freshest_first;
  const auto policy = make_sampler_policy(options);
  if (!policy) std::exit(1);
  const weight_version middle(buffered / groups_per_step / 2 + window);
  const selection wanted{.version = middle, .groups_min = 1, .groups_max = groups_per_step};
  std::size_t named = 0;
  const auto decide = [&] {
    const auto chosen = (*policy)->select(slots.view(), wanted);
    const auto stale = (*policy)->evict(slots.view(), middle);
    if (!chosen || !stale) std::exit(1);
    named += chosen->size() + stale->size();
  };
  claim what;
  what.text = "select + evict over 10,000 groups: " + name + (freshest_first ? ", freshest" : "");
  what.unit = "us";
  what.baseline_name = "the limit";
  what.target = 1.0;
  what.direction = better::lower;
  row measured =
      compare(what, [&] { return 1e6 / calls_per_second(decide); }, [] { return limit_us; });
  if (named == 0) std::fprintf(stderr, "%s named no group at all\n", name.c_str());
  return measured;
}

} // namespace

int main(int argc, char** argv) {
  const slot_table slots = full_buffer();
  std::vector<row> rows;
  for (const char* const name : {"in_order", "weight_fifo", "ready_first", "windowed"})
    rows.push_back(decision_row(name, false, slots));
  rows.push_back(decision_row("windowed", true, slots));
  return publish(rows, argc > 1 ? argv[1] : "build/benchmarks/samplers.json");
}
