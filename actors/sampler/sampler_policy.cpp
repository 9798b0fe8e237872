#include "actors/sampler/sampler_policy.hpp"

#include "messages/rule.hpp"

#include <algorithm>
#include <tuple>

namespace weir {

namespace {

/// Whether generation of `slot` began before the window of a step at `version`.
bool outside_window(const policy_slot& slot, weight_version version) {
  return slot.start_version && slot.start_version->value + slot.window < version.value;
}

std::vector<group_id> ids_of(std::span<const policy_slot* const> slots) {
  std::vector<group_id> ids;
  ids.reserve(slots.size());
  for (const policy_slot* slot : slots)
    ids.push_back(slot->group);
  return ids;
}

/// What the three gated built-in policies share. The gate lets generation run W versions ahead.
class gated_policy : public sampler_policy {
public:
  explicit gated_policy(std::uint64_t window) : window_(window) {}
  [[nodiscard]] std::uint64_t window() const override { return window_; }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool stamps() const override { return false; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] bool gate_open(std::int64_t dispatched, weight_version live) const override {
    return dispatched < 0 || static_cast<std::uint64_t>(dispatched) < live.value + window_;
  }
  [[nodiscard]] std::int64_t stamp(std::int64_t) const override { return -1; }

private:
  std::uint64_t window_;
};

class in_order_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "in_order"; }
  [[nodiscard]] bool stamps() const override { return true; }
  [[nodiscard]] std::int64_t stamp(std::int64_t dispatch_index) const override {
    return dispatch_index;
  }

protected:
  [[nodiscard]] std::vector<group_id> eligible(std::span<const policy_slot> slots,
                                               weight_version version) const override {
    std::vector<group_id> chosen;
    for (const policy_slot& slot : slots)
      if (slot.ready && slot.target_step == static_cast<std::int64_t>(version.value))
        chosen.push_back(slot.group);
    return chosen;
  }
  /// By its step, never by its weights: a straggler of a future step stays useful.
  [[nodiscard]] bool stale(const policy_slot& slot, weight_version version) const override {
    return slot.target_step < static_cast<std::int64_t>(version.value);
  }
};

class weight_fifo_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "weight_fifo"; }

protected:
  /// Oldest admission version first, and nothing of a later one while a group of an older one is
  /// unfinished. By admission, not by start: a batch that straddles an update would wedge.
  [[nodiscard]] std::vector<group_id> eligible(std::span<const policy_slot> slots,
                                               weight_version) const override {
    if (!enforced(rule::fifo_by_admission_version)) return eligible_by_start(slots);
    std::optional<weight_version> oldest_unready;
    std::vector<const policy_slot*> chosen;
    for (const policy_slot& slot : slots)
      if (!slot.ready && (!oldest_unready || slot.admission_version < *oldest_unready))
        oldest_unready = slot.admission_version;
    for (const policy_slot& slot : slots)
      if (slot.ready && (!oldest_unready || slot.admission_version <= *oldest_unready))
        chosen.push_back(&slot);
    std::ranges::sort(chosen, {}, [](const policy_slot* slot) {
      return std::tuple(slot->admission_version, slot->dispatch_index, slot->group);
    });
    return ids_of(chosen);
  }
  [[nodiscard]] bool stale(const policy_slot& slot, weight_version version) const override {
    return outside_window(slot, version);
  }

private:
  /// What the suspended rule forbids: only groups of the oldest start version that a slot holds. A
  /// group without a token will start at its admission version at the earliest.
  [[nodiscard]] static std::vector<group_id> eligible_by_start(std::span<const policy_slot> slots) {
    const auto start = [](const policy_slot& slot) {
      return slot.start_version.value_or(slot.admission_version);
    };
    std::vector<group_id> chosen;
    if (slots.empty()) return chosen;
    const weight_version oldest = start(*std::ranges::min_element(slots, {}, start));
    for (const policy_slot& slot : slots)
      if (slot.ready && start(slot) == oldest) chosen.push_back(slot.group);
    return chosen;
  }
};

class ready_first_policy final : public gated_policy {
public:
  using gated_policy::gated_policy;
  [[nodiscard]] std::string_view name() const override { return "ready_first"; }
  [[nodiscard]] bool bounds_staleness() const override { return false; }

protected:
  [[nodiscard]] std::vector<group_id> eligible(std::span<const policy_slot> slots,
                                               weight_version version) const override {
    std::vector<group_id> chosen;
    for (const policy_slot& slot : slots)
      if (slot.ready && slot.start_version && *slot.start_version <= version)
        chosen.push_back(slot.group);
    return chosen;
  }
  [[nodiscard]] bool stale(const policy_slot&, weight_version) const override { return false; }
};

class windowed_policy final : public sampler_policy {
public:
  windowed_policy(std::uint64_t window, bool freshest_first)
      : window_(window), freshest_first_(freshest_first) {}
  [[nodiscard]] std::string_view name() const override { return "windowed"; }
  [[nodiscard]] std::uint64_t window() const override { return window_; }
  [[nodiscard]] bool gated() const override { return false; }
  [[nodiscard]] bool stamps() const override { return false; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] bool gate_open(std::int64_t, weight_version) const override { return true; }
  [[nodiscard]] std::int64_t stamp(std::int64_t) const override { return -1; }
  [[nodiscard]] std::vector<group_id> abort_in_flight(std::span<const policy_slot> slots,
                                                      weight_version version) const override {
    std::vector<group_id> chosen;
    for (const policy_slot& slot : slots)
      if (!slot.ready && outside_window(slot, version)) chosen.push_back(slot.group);
    return chosen;
  }

protected:
  [[nodiscard]] std::vector<group_id> eligible(std::span<const policy_slot> slots,
                                               weight_version version) const override {
    std::vector<const policy_slot*> chosen;
    for (const policy_slot& slot : slots)
      if (slot.ready && slot.start_version && *slot.start_version <= version &&
          !outside_window(slot, version))
        chosen.push_back(&slot);
    if (freshest_first_)
      std::ranges::sort(chosen, [](const policy_slot* left, const policy_slot* right) {
        // The newest start version first; dispatch order among equals.
        return std::tuple(*right->start_version, left->dispatch_index, left->group) <
               std::tuple(*left->start_version, right->dispatch_index, right->group);
      });
    return ids_of(chosen);
  }
  [[nodiscard]] bool stale(const policy_slot& slot, weight_version version) const override {
    return outside_window(slot, version);
  }

private:
  std::uint64_t window_;
  bool freshest_first_;
};

/// The ready slots before the first one that is not ready.
std::span<const policy_slot> ready_prefix(std::span<const policy_slot> slots) {
  const auto unready = std::ranges::find(slots, false, &policy_slot::ready);
  return slots.first(static_cast<std::size_t>(unready - slots.begin()));
}

} // namespace

result<std::vector<group_id>> sampler_policy::select(std::span<const policy_slot> slots,
                                                     const selection& wanted) const {
  if (wanted.groups_min < 1 || wanted.groups_max < wanted.groups_min)
    return failure(errc::invalid_argument, "a selection of " + std::to_string(wanted.groups_min) +
                                               " to " + std::to_string(wanted.groups_max) +
                                               " groups asks for nothing");
  const auto visible = wanted.ready_prefix_only ? ready_prefix(slots) : slots;
  std::vector<group_id> chosen = eligible(visible, wanted.version);
  if (chosen.size() < wanted.groups_min) chosen.clear();
  if (chosen.size() > wanted.groups_max)
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(wanted.groups_max), chosen.end());
  return chosen;
}

std::vector<group_id> sampler_policy::evict(std::span<const policy_slot> slots,
                                            weight_version version) const {
  std::vector<group_id> chosen;
  for (const policy_slot& slot : slots)
    if (slot.ready && stale(slot, version)) chosen.push_back(slot.group);
  return chosen;
}

std::vector<group_id> sampler_policy::abort_in_flight(std::span<const policy_slot>,
                                                      weight_version) const {
  return {};
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
  const std::uint64_t least = std::max(groups_per_step, groups_min);
  return policy.gated() ? std::max(least, groups_per_step * (policy.window() + 1)) : least;
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
