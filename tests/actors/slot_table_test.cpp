// The columns of the buffer against a plain list, and the built-in policies against what they were
// before they read columns: one slot after the other, everything sorted.
#include "actors/sampler/slot_table.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>

using namespace weir;
using namespace weir::testing;

namespace {

using slot_list = std::vector<policy_slot>;

auto key_of(const policy_slot& slot) {
  return slot_key{slot.dispatch_index, slot.group};
}

bool outside(const policy_slot& slot, std::uint64_t version) {
  return slot.start_version && slot.start_version->value + slot.window < version;
}

/// The table of sampler_policy.hpp, read aloud.
slot_list reference_eligible(const std::string& name, const slot_list& slots,
                             std::uint64_t version) {
  slot_list chosen;
  std::uint64_t oldest_unready = ~std::uint64_t{0};
  for (const policy_slot& slot : slots)
    if (!slot.ready) oldest_unready = std::min(oldest_unready, slot.admission_version.value);
  for (const policy_slot& slot : slots) {
    if (!slot.ready) continue;
    const bool made = slot.start_version->value <= version;
    if (name == "in_order" && slot.target_step == static_cast<std::int64_t>(version))
      chosen.push_back(slot);
    if (name == "weight_fifo" && !outside(slot, version) &&
        slot.admission_version.value <= oldest_unready)
      chosen.push_back(slot);
    if (name == "ready_first" && made) chosen.push_back(slot);
    if ((name == "windowed" || name == "freshest") && made && !outside(slot, version))
      chosen.push_back(slot);
  }
  if (name == "weight_fifo")
    std::ranges::sort(chosen, {}, [](const policy_slot& slot) {
      return std::tuple(slot.admission_version, slot.dispatch_index, slot.group);
    });
  if (name == "freshest")
    std::ranges::sort(chosen, {}, [version](const policy_slot& slot) {
      return std::tuple(version - slot.start_version->value, slot.dispatch_index, slot.group);
    });
  return chosen;
}

std::vector<group_id> reference_select(const std::string& name, const slot_list& slots,
                                       std::uint64_t version, std::uint64_t least,
                                       std::uint64_t most) {
  std::vector<group_id> groups;
  for (const policy_slot& slot : reference_eligible(name, slots, version))
    if (groups.size() < most) groups.push_back(slot.group);
  return groups.size() < least ? std::vector<group_id>() : groups;
}

std::vector<group_id> reference_stale(const std::string& name, const slot_list& slots,
                                      std::uint64_t version, bool ready) {
  std::vector<group_id> groups;
  for (const policy_slot& slot : slots) {
    if (slot.ready != ready || name == "ready_first") continue;
    const bool passed = slot.target_step < static_cast<std::int64_t>(version);
    if (name == "in_order" ? ready && passed
                           : outside(slot, version) && (ready || name != "weight_fifo"))
      groups.push_back(slot.group);
  }
  return groups;
}

class slot_source {
public:
  explicit slot_source(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  policy_slot slot(std::uint64_t group) {
    policy_slot made{.group = group_id(group),
                     .dispatch_index = static_cast<std::int64_t>(below(6)),
                     .target_step = static_cast<std::int64_t>(below(6)),
                     .admission_version = weight_version(below(5)),
                     .window = below(3),
                     .start_version = weight_version(below(6)),
                     .ready = below(3) != 0};
    if (!made.ready && below(2) == 0) made.start_version.reset();
    return made;
  }

private:
  std::mt19937_64 random_;
};

void check_same(const slot_table& table, slot_list expected) {
  std::ranges::sort(expected, {}, key_of);
  slot_list kept;
  for (const policy_slot& slot : table.view())
    kept.push_back(slot);
  CHECK(kept == expected);
}

std::shared_ptr<const sampler_policy> made(const std::string& name) {
  sampler_options options{.name = name == "freshest" ? "windowed" : name};
  options.sample_freshest_first = name == "freshest";
  return *make_sampler_policy(options);
}

} // namespace

TEST_SUITE("actors/slot_table") {
  TEST_CASE("slots stand in dispatch order, whatever comes, changes and leaves") {
    slot_source source(1);
    slot_table table;
    slot_list list;
    for (std::uint64_t group = 0; group < 300; ++group) {
      list.push_back(source.slot(group));
      table.insert(list.back());
      policy_slot& changed = list[source.below(list.size())];
      changed.ready = !changed.ready;
      changed.start_version = weight_version(3);
      table.replace(changed);
      if (source.below(4) != 0) continue;
      std::vector<slot_key> leaving;
      std::erase_if(list, [&](const policy_slot& slot) {
        const bool leaves = source.below(5) == 0;
        if (leaves) leaving.push_back(key_of(slot));
        return leaves;
      });
      std::ranges::sort(leaving);
      table.erase(leaving);
      check_same(table, list);
    }
  }

  TEST_CASE("a start that is unset is later than any version, and never outside of a window") {
    slot_table table;
    table.insert({.group = group_id(1), .dispatch_index = 0, .window = 0});
    CHECK_FALSE(table.view()[0].start_version.has_value());
    CHECK_FALSE(table.view().outside_window(0, weight_version(~std::uint64_t{0})));
    table.set_start({0, group_id(1)}, weight_version(4));
    CHECK(table.view()[0].start_version == weight_version(4));
    CHECK(table.view().outside_window(0, weight_version(5)));
    table.set_start({0, group_id(1)}, std::nullopt);
    CHECK_FALSE(table.view().outside_window(0, weight_version(5)));
  }

  TEST_CASE("policies that read columns decide as those that read slot by slot") {
    for (const char* const name :
         {"in_order", "weight_fifo", "ready_first", "windowed", "freshest"})
      for (std::uint64_t seed = 0; seed < 400; ++seed) {
        CAPTURE(name);
        CAPTURE(seed);
        slot_source source(seed);
        slot_list slots;
        for (std::uint64_t group = source.below(20); group > 0; --group)
          slots.push_back(source.slot(group));
        std::ranges::sort(slots, {}, key_of);
        const slot_table table(slots);
        const std::uint64_t version = source.below(7);
        const std::uint64_t least = 1 + source.below(4);
        const std::uint64_t most = least + source.below(6);
        const auto policy = made(name);
        const selection wanted{weight_version(version), least, most};
        CHECK(*policy->select(table.view(), wanted) ==
              reference_select(name, slots, version, least, most));
        CHECK(*policy->evict(table.view(), weight_version(version)) ==
              reference_stale(name, slots, version, true));
        const bool aborts = std::string(name) == "windowed" || std::string(name) == "freshest";
        CHECK(*policy->abort_in_flight(table.view(), weight_version(version)) ==
              (aborts ? reference_stale(name, slots, version, false) : std::vector<group_id>()));
      }
  }
}
