/// What a sampler decides, as one pure object: when a dispatch batch may be admitted, which groups
/// a step trains on, which are too old, and which are not worth finishing. The sampler asks it for
/// the gate and the stamp, replay for the rest, so that both always agree.
///
/// v is the version that is live (gate) or trained (selection); w the start version of a group,
/// unset until its first kept token; W the window. A group is judged by the W that was in force at
/// its admission, which its slot carries. Slots are handed over in dispatch order; only ready
/// groups are ever selected or evicted, and groups are named by id, never by index.
///
/// | name        | gate          | stamp | selects                          | evicts, aborts  |
/// |-------------|---------------|-------|----------------------------------|-----------------|
/// | in_order    | d >= v+W waits| d     | target == v                      | target < v, -   |
/// | weight_fifo | d >= v+W waits| -     | oldest admission version, waits  | w < v-W, -      |
/// | ready_first | d >= v+W waits| -     | w <= v                           | never, -        |
/// | windowed    | none          | -     | v-W <= w <= v                    | w < v-W, both   |
///
/// A sampler of a user's own derives from `sampler_policy`, and is wrapped by `checked`
/// (checked_policy.hpp) before anybody asks it. Two actors ask the same object, on two threads:
/// it has no state that changes. Header only, as policy_slot.hpp is.
#pragma once

#include "actors/sampler/policy_slot.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace weir {

/// What a selection asks for.
struct selection {
  weight_version version = {};
  std::uint64_t groups_min = 1;
  std::uint64_t groups_max = 1;
  /// Reproducible modes: the policy sees only what stands before the first unready slot.
  bool ready_prefix_only = false;
};

class sampler_policy {
public:
  sampler_policy() = default;
  sampler_policy(const sampler_policy&) = delete;
  sampler_policy& operator=(const sampler_policy&) = delete;
  virtual ~sampler_policy() = default;

  // What it is. These answers never change.

  /// The name in the configuration and in bundles.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// W: versions that generation may run ahead of training.
  [[nodiscard]] virtual std::uint64_t window() const = 0;
  /// Whether admission waits for the trainer at all.
  [[nodiscard]] virtual bool gated() const = 0;
  /// Whether a buffer of this sampler can be restored. Without it a run writes its buffer, verifies
  /// it, and never restores it (shadow mode): what it held is generated again.
  [[nodiscard]] virtual bool supports_buffer_checkpoint() const = 0;
  /// Whether no step trains on a group that is more than its window behind. ready_first takes late
  /// stragglers however old: its window bounds the gate alone.
  [[nodiscard]] virtual bool bounds_staleness() const { return true; }
  /// Whether that holds of any group, because it is judged by its weights: also of one that was
  /// admitted by another sampler, before a resume with this one.
  [[nodiscard]] virtual bool evicts_by_weight() const { return false; }
  /// Whether an admitted group is bound to one training step.
  [[nodiscard]] virtual bool stamps() const { return false; }
  /// Groups that its gate lets be admitted and not trained yet, with N groups a step: what the
  /// buffer must be able to hold. Whatever it says, N must fit.
  [[nodiscard]] virtual std::uint64_t buffer_groups(std::uint64_t groups_per_step) const {
    return gated() ? groups_per_step * (window() + 1) : groups_per_step;
  }

  // What it decides. An error ends the run.

  /// Whether the batch after dispatch index `dispatched` may be admitted at live version `live`.
  [[nodiscard]] virtual result<bool> admits(std::int64_t dispatched, weight_version live) const = 0;
  /// Step that dispatch batch `dispatch_index` is stamped for; -1 without stamps.
  [[nodiscard]] virtual result<std::int64_t> stamp(std::int64_t dispatch_index) const {
    return stamps() ? dispatch_index : -1;
  }
  /// Returns all eligible groups up to `groups_max`, best first, or none if there are fewer than
  /// `groups_min`. It never waits to fill. Errors: invalid_argument if min < 1 or max < min.
  [[nodiscard]] virtual result<std::vector<group_id>> select(const slot_view& slots,
                                                             const selection& wanted) const = 0;
  /// Returns the ready groups that no step at `version` or later may train on.
  [[nodiscard]] virtual result<std::vector<group_id>> evict(const slot_view& slots,
                                                            weight_version version) const {
    std::ignore = slots;
    std::ignore = version;
    return std::vector<group_id>();
  }
  /// Returns the groups in flight that are too old to be worth finishing.
  [[nodiscard]] virtual result<std::vector<group_id>>
  abort_in_flight(const slot_view& slots, weight_version version) const {
    std::ignore = slots;
    std::ignore = version;
    return std::vector<group_id>();
  }
};

/// The slots before the first one that is not ready.
[[nodiscard]] inline slot_view ready_prefix(const slot_view& slots) {
  const auto* const unready = std::find(slots.ready, slots.ready + slots.size, std::uint8_t{0});
  return slots.first(static_cast<std::size_t>(unready - slots.ready));
}

/// Errors: invalid_argument if min < 1 or max < min.
[[nodiscard]] result<void> check_selection(const selection& wanted);

/// `async_rl.sampler` of the configuration.
struct sampler_options {
  std::string name = "in_order";
  /// W of in_order.
  std::int64_t max_lookahead_versions = 1;
  /// W of the others.
  std::int64_t max_staleness_versions = 1;
  /// windowed: smallest lag first.
  bool sample_freshest_first = false;
};

/// in_order, weight_fifo, ready_first, windowed.
[[nodiscard]] bool is_built_in_sampler(std::string_view name);

/// Makes a built-in policy. Errors: invalid_argument for an unknown name or a negative window.
[[nodiscard]] result<std::shared_ptr<const sampler_policy>>
make_sampler_policy(const sampler_options& options);

/// Groups that the buffer must be able to hold: every sampler max(N, min_groups), a gated one also
/// N x (W + 1), one of a user's own what it says.
[[nodiscard]] std::uint64_t buffer_groups_required(const sampler_policy& policy,
                                                   std::uint64_t groups_per_step,
                                                   std::uint64_t groups_min);

/// Checks `max_buffered_rollouts` and `min_groups_for_streaming_train` against N.
/// Errors: invalid_argument that names both keys.
[[nodiscard]] result<void> validate_buffer(const sampler_policy& policy,
                                           std::uint64_t groups_per_step, std::uint64_t groups_min,
                                           std::uint64_t groups_buffered_max);

} // namespace weir
