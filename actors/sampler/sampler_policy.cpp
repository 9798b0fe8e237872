#include "actors/sampler/sampler_policy.hpp"

#include "messages/rule.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

namespace weir {

namespace {

constexpr std::array<std::string_view, 4> built_in_names = {"in_order", "weight_fifo",
                                                            "ready_first", "windowed"};

/// Slots by index, in the order in which a step takes them.
using slot_places = std::vector<std::size_t>;

std::vector<group_id> ids_of(const slot_view& slots, const slot_places& places) {
  std::vector<group_id> ids;
  ids.reserve(places.size());
  for (const std::size_t at : places)
    ids.push_back(slots.group[at]);
  return ids;
}

/// The first slot from `at` on that is not ready. Few are: the search is the library's.
std::size_t next_unready(const slot_view& slots, std::size_t at) {
  if (at == slots.size) return slots.size; // An empty table has no column.
  const void* const found = std::memchr(slots.ready + at, 0, slots.size - at);
  if (found == nullptr) return slots.size;
  return static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - slots.ready);
}

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// Whether all hold; each of them is asked.
template <class... Conditions>
bool all(Conditions... hold) {
  return (static_cast<std::uint32_t>(hold) & ...) != 0;
}

constexpr std::size_t slots_at_once = 8;
constexpr std::uint32_t all_at_once = (1U << slots_at_once) - 1;

/// Asks `chosen` about each slot, in dispatch order, eight at a time: `take(first, answers)` gets
/// the place of the first one and a bit for each, until it says that it has enough.
///
/// Answers come in any pattern, so no branch depends on a single one: see `all`.
template <class Predicate, class Take>
void ask_all(const slot_view& slots, Predicate chosen, Take take) {
  const auto ask = [&](std::size_t first, std::size_t count) {
    std::uint32_t answers = 0;
    for (std::size_t i = 0; i < count; ++i)
      answers |= static_cast<std::uint32_t>(chosen(first + i)) << i;
    return answers == 0 || take(first, answers);
  };
  std::size_t first = 0;
  for (; first + slots_at_once <= slots.size; first += slots_at_once)
    if (!ask(first, slots_at_once)) return;
  ask(first, slots.size - first);
}

/// The place of the lowest bit.
std::size_t first_of(std::uint32_t answers) {
  return static_cast<std::size_t>(std::countr_zero(answers));
}

/// The first `most` slots that `chosen` accepts, in dispatch order.
template <class Predicate>
slot_places places_where(const slot_view& slots, std::uint64_t most, Predicate chosen) {
  slot_places places;
  ask_all(slots, chosen, [&](std::size_t first, std::uint32_t answers) {
    for (; answers != 0 && places.size() < most; answers &= answers - 1)
      places.push_back(first + first_of(answers));
    return places.size() < most;
  });
  return places;
}

/// The ids of all slots that `chosen` accepts. Those that are too old stand side by side.
template <class Predicate>
std::vector<group_id> ids_where(const slot_view& slots, Predicate chosen) {
  std::vector<group_id> ids;
  ids.reserve(slots.size);
  ask_all(slots, chosen, [&](std::size_t first, std::uint32_t answers) {
    const group_id* const groups = slots.group + first;
    if (answers == all_at_once) {
      ids.insert(ids.end(), groups, groups + slots_at_once);
      return true;
    }
    for (; answers != 0; answers &= answers - 1)
      ids.push_back(groups[first_of(answers)]);
    return true;
  });
  return ids;
}

/// Whether a column never falls. It hardly ever does, so nothing is gained by stopping early.
bool rises(const weight_version* column, std::size_t size) {
  std::uint32_t falls = 0;
  for (std::size_t at = 1; at < size; ++at)
    falls |= static_cast<std::uint32_t>(column[at].value < column[at - 1].value);
  return falls == 0;
}

/// Leaves the `most` smallest in order. Keys are unique: the dispatch order decides among equals.
template <class Key>
void keep_first(slot_places& places, std::uint64_t most, Key key) {
  const std::size_t kept = std::min<std::size_t>(places.size(), most);
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(kept);
  std::ranges::partial_sort(places, middle, {}, key);
  places.resize(kept);
}

/// What the built-in policies share: rules of a selection, and staleness slot by slot.
class built_in_policy : public sampler_policy {
public:
  explicit built_in_policy(std::uint64_t window) : window_(window) {}
  [[nodiscard]] std::uint64_t window() const final { return window_; }
  [[nodiscard]] bool supports_buffer_checkpoint() const final { return true; }

  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const final {
    if (auto fine = check_selection(wanted); !fine) return failure(std::move(fine.error()));
    const slot_view seen = wanted.ready_prefix_only ? ready_prefix(slots) : slots;
    const slot_places places = eligible(seen, wanted);
    if (places.size() < wanted.groups_min) return std::vector<group_id>();
    return ids_of(seen, places);
  }

protected:
  /// Ready groups that the step may train on, best first, at most `groups_max`.
  [[nodiscard]] virtual slot_places eligible(const slot_view& slots,
                                             const selection& wanted) const = 0;

  [[nodiscard]] static std::vector<group_id> ready_outside_window(const slot_view& slots,
                                                                  weight_version version) {
    return ids_where(slots, [&](std::size_t at) {
      return all(slots.ready[at] != 0, slots.outside_window(at, version));
    });
  }

private:
  std::uint64_t window_;
};

/// The gate lets generation run W versions ahead.
class gated_policy : public built_in_policy {
public:
  using built_in_policy::built_in_policy;
  [[nodiscard]] bool gated() const final { return true; }
  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const final {
    return dispatched < 0 || static_cast<std::uint64_t>(dispatched) < live.value + window();
  }
};

class in_order_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "in_order"; }
  [[nodiscard]] bool stamps() const override { return true; }
  /// By its step, never by its weights: a straggler of a future step stays useful.
  [[nodiscard]] result<std::vector<group_id>> evict(const slot_view& slots,
                                                    weight_version version) const override {
    const auto step = static_cast<std::int64_t>(version.value);
    return ids_where(slots, [&](std::size_t at) {
      return all(slots.target_step[at] < step, slots.ready[at] != 0);
    });
  }

protected:
  [[nodiscard]] slot_places eligible(const slot_view& slots,
                                     const selection& wanted) const override {
    const auto step = static_cast<std::int64_t>(wanted.version.value);
    return places_where(slots, wanted.groups_max, [&](std::size_t at) {
      return all(slots.target_step[at] == step, slots.ready[at] != 0);
    });
  }
};

class weight_fifo_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "weight_fifo"; }
  [[nodiscard]] bool evicts_by_weight() const override { return true; }
  [[nodiscard]] result<std::vector<group_id>> evict(const slot_view& slots,
                                                    weight_version version) const override {
    return ready_outside_window(slots, version);
  }

protected:
  /// Oldest admission version first, and nothing of a later one while a group of an older one is
  /// unfinished. By admission, not by start: a batch that straddles an update would wedge. What is
  /// stale waits for its eviction, and nobody waits for it: a step may come before the evictor.
  [[nodiscard]] slot_places eligible(const slot_view& slots,
                                     const selection& wanted) const override {
    if (!enforced(rule::fifo_by_admission_version)) return eligible_by_start(slots, wanted);
    const weight_version oldest_unready = oldest_unready_admission(slots);
    // Nearly always: versions rise with dispatch. Not after every resume.
    const bool in_order = rises(slots.admission_version, slots.size);
    const auto chosen = [&](std::size_t at) {
      return all(slots.ready[at] != 0, slots.admission_version[at] <= oldest_unready,
                 !slots.outside_window(at, wanted.version));
    };
    slot_places places = places_where(slots, in_order ? wanted.groups_max : no_limit, chosen);
    if (!in_order)
      keep_first(places, wanted.groups_max,
                 [&](std::size_t at) { return std::tuple(slots.admission_version[at], at); });
    return places;
  }

private:
  [[nodiscard]] static weight_version oldest_unready_admission(const slot_view& slots) {
    weight_version oldest = unset_version;
    for (std::size_t at = next_unready(slots, 0); at < slots.size; at = next_unready(slots, at + 1))
      oldest = std::min(oldest, slots.admission_version[at]);
    return oldest;
  }
  /// What the suspended rule forbids: only groups of the oldest start version that a slot holds. A
  /// group without a token will start at its admission version at the earliest.
  [[nodiscard]] static slot_places eligible_by_start(const slot_view& slots,
                                                     const selection& wanted) {
    const auto start = [&slots](std::size_t at) {
      return slots.start_version[at] == unset_version ? slots.admission_version[at]
                                                      : slots.start_version[at];
    };
    weight_version oldest = unset_version;
    for (std::size_t at = 0; at < slots.size; ++at)
      oldest = std::min(oldest, start(at));
    return places_where(slots, wanted.groups_max, [&](std::size_t at) {
      return slots.ready[at] != 0 && start(at) == oldest;
    });
  }
};

class ready_first_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "ready_first"; }
  [[nodiscard]] bool bounds_staleness() const override { return false; }

protected:
  [[nodiscard]] slot_places eligible(const slot_view& slots,
                                     const selection& wanted) const override {
    return places_where(slots, wanted.groups_max, [&](std::size_t at) {
      return all(slots.ready[at] != 0, slots.start_version[at] <= wanted.version);
    });
  }
};

class windowed_policy final : public built_in_policy {
public:
  windowed_policy(std::uint64_t window, bool freshest_first)
      : built_in_policy(window), freshest_first_(freshest_first) {}
  [[nodiscard]] std::string_view name() const override { return "windowed"; }
  [[nodiscard]] bool evicts_by_weight() const override { return true; }
  [[nodiscard]] bool gated() const override { return false; }
  [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override { return true; }
  [[nodiscard]] result<std::vector<group_id>> evict(const slot_view& slots,
                                                    weight_version version) const override {
    return ready_outside_window(slots, version);
  }
  [[nodiscard]] result<std::vector<group_id>>
  abort_in_flight(const slot_view& slots, weight_version version) const override {
    return ids_where(slots, [&](std::size_t at) {
      return all(slots.ready[at] == 0, slots.outside_window(at, version));
    });
  }

protected:
  [[nodiscard]] slot_places eligible(const slot_view& slots,
                                     const selection& wanted) const override {
    const auto chosen = [&](std::size_t at) {
      return all(slots.ready[at] != 0, slots.start_version[at] <= wanted.version,
                 !slots.outside_window(at, wanted.version));
    };
    slot_places places =
        places_where(slots, freshest_first_ ? no_limit : wanted.groups_max, chosen);
    if (freshest_first_)
      keep_first(places, wanted.groups_max, [&](std::size_t at) {
        return std::tuple(wanted.version.value - slots.start_version[at].value, at);
      });
    return places;
  }

private:
  bool freshest_first_;
};

} // namespace

result<void> check_selection(const selection& wanted) {
  if (wanted.groups_min >= 1 && wanted.groups_max >= wanted.groups_min) return {};
  return failure(errc::invalid_argument, "a selection of " + std::to_string(wanted.groups_min) +
                                             " to " + std::to_string(wanted.groups_max) +
                                             " groups asks for nothing");
}

bool is_built_in_sampler(std::string_view name) {
  return std::ranges::find(built_in_names, name) != built_in_names.end();
}

result<std::shared_ptr<const sampler_policy>> make_sampler_policy(const sampler_options& options) {
  const bool in_order = options.name == "in_order";
  const std::int64_t window =
      in_order ? options.max_lookahead_versions : options.max_staleness_versions;
  if (window < 0)
    return failure(errc::invalid_argument,
                   std::string("async_rl.sampler.") +
                       (in_order ? "max_lookahead_versions" : "max_staleness_versions") +
                       ": must be at least 0, got " + std::to_string(window));
  const auto versions = static_cast<std::uint64_t>(window);
  if (in_order) return std::make_shared<const in_order_policy>(versions);
  if (options.name == "weight_fifo") return std::make_shared<const weight_fifo_policy>(versions);
  if (options.name == "ready_first") return std::make_shared<const ready_first_policy>(versions);
  if (options.name == "windowed")
    return std::make_shared<const windowed_policy>(versions, options.sample_freshest_first);
  return failure(errc::invalid_argument, "async_rl.sampler.name: there is no sampler '" +
                                             options.name +
                                             "'; known are in_order, weight_fifo, ready_first, "
                                             "windowed");
}

std::uint64_t buffer_groups_required(const sampler_policy& policy, std::uint64_t groups_per_step,
                                     std::uint64_t groups_min) {
  return std::max({groups_per_step, groups_min, policy.buffer_groups(groups_per_step)});
}

result<void> validate_buffer(const sampler_policy& policy, std::uint64_t groups_per_step,
                             std::uint64_t groups_min, std::uint64_t groups_buffered_max) {
  if (groups_per_step == 0)
    return failure(errc::invalid_argument, "grpo.num_prompts_per_step: must be at least 1");
  if (groups_min == 0)
    return failure(errc::invalid_argument,
                   "async_rl.min_groups_for_streaming_train: must be at least 1");
  if (groups_per_step < groups_min)
    return failure(errc::invalid_argument,
                   "grpo.num_prompts_per_step (" + std::to_string(groups_per_step) +
                       ") must be at least async_rl.min_groups_for_streaming_train (" +
                       std::to_string(groups_min) + ")");
  const std::uint64_t required = buffer_groups_required(policy, groups_per_step, groups_min);
  if (groups_buffered_max < required)
    return failure(errc::invalid_argument,
                   "async_rl.max_buffered_rollouts (" + std::to_string(groups_buffered_max) +
                       ") must be at least " + std::to_string(required) +
                       " for grpo.num_prompts_per_step " + std::to_string(groups_per_step) +
                       " and a window of " + std::to_string(policy.window()) + " (" +
                       std::string(policy.name()) + ")");
  return {};
}

} // namespace weir
