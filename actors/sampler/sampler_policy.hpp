/// What a sampler decides, as one pure object: when a dispatch batch may be admitted, which groups
/// a step trains on, and which are too old. The sampler asks it for the gate and the stamp, replay
/// for selection and eviction, so that both always agree.
///
/// v is the version that is live (gate) or trained (selection); w the start version of a group,
/// unset until its first kept token; W the window. A group is judged by the W that was in force at
/// its admission, which its slot carries. Slots are handed over in dispatch order; only ready
/// groups are ever selected or evicted, and groups are named by id, never by index.
///
/// | name        | gate          | stamp | selects                          | evicts          |
/// |-------------|---------------|-------|----------------------------------|-----------------|
/// | in_order    | d >= v+W waits| d     | target == v                      | target < v      |
/// | weight_fifo | d >= v+W waits| -     | oldest admission version, waits  | w < v-W         |
/// | ready_first | d >= v+W waits| -     | w <= v                           | never           |
/// | windowed    | none          | -     | v-W <= w <= v                    | w < v-W         |
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// One live group of the buffer, as a policy sees it.
struct policy_slot {
  group_id group = {};
  std::int64_t dispatch_index = -1;
  /// -1 without stamps.
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  /// W in force at admission.
  std::uint64_t window = 0;
  /// Version of the first kept token; unset while nothing is kept, and then never stale.
  std::optional<weight_version> start_version = {};
  bool ready = false;

  friend bool operator==(const policy_slot&, const policy_slot&) = default;
};

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

  /// The name in the configuration and in bundles.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// W: versions that generation may run ahead of training.
  [[nodiscard]] virtual std::uint64_t window() const = 0;
  /// Whether admission waits for the trainer at all.
  [[nodiscard]] virtual bool gated() const = 0;
  /// Whether no step trains on a group that is more than its window behind. ready_first takes late
  /// stragglers however old: its window bounds the gate alone.
  [[nodiscard]] virtual bool bounds_staleness() const { return true; }
  /// Whether an admitted group is bound to one training step.
  [[nodiscard]] virtual bool stamps() const = 0;
  /// Whether a buffer of this sampler can be restored. Without it a run only shadows checkpoints.
  [[nodiscard]] virtual bool supports_buffer_checkpoint() const = 0;

  /// Whether the batch after dispatch index `dispatched` may be admitted at live version `live`.
  [[nodiscard]] virtual bool gate_open(std::int64_t dispatched, weight_version live) const = 0;
  /// Step that dispatch batch `dispatch_index` is stamped for; -1 without stamps.
  [[nodiscard]] virtual std::int64_t stamp(std::int64_t dispatch_index) const = 0;

  /// Returns all eligible groups up to `groups_max`, or none if there are fewer than `groups_min`.
  /// It never waits to fill. Errors: invalid_argument if min < 1 or max < min.
  [[nodiscard]] result<std::vector<group_id>> select(std::span<const policy_slot> slots,
                                                     const selection& wanted) const;
  /// Returns the ready groups that no step at `version` or later may train on.
  [[nodiscard]] std::vector<group_id> evict(std::span<const policy_slot> slots,
                                            weight_version version) const;
  /// Returns the groups in flight that are too old to be worth finishing.
  [[nodiscard]] virtual std::vector<group_id> abort_in_flight(std::span<const policy_slot> slots,
                                                              weight_version version) const;

protected:
  /// Ready groups that a step at `version` may train on, best first.
  [[nodiscard]] virtual std::vector<group_id> eligible(std::span<const policy_slot> slots,
                                                       weight_version version) const = 0;
  /// Whether a ready group may not be trained at `version` or later.
  [[nodiscard]] virtual bool stale(const policy_slot& slot, weight_version version) const = 0;
};

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

/// Makes a built-in policy. Errors: invalid_argument for an unknown name or a negative window.
[[nodiscard]] result<std::shared_ptr<const sampler_policy>>
make_sampler_policy(const sampler_options& options);

/// Groups that the buffer must be able to hold: every sampler max(N, min_groups), a gated one also
/// N x (W + 1).
[[nodiscard]] std::uint64_t buffer_groups_required(const sampler_policy& policy,
                                                   std::uint64_t groups_per_step,
                                                   std::uint64_t groups_min);

/// Checks `max_buffered_rollouts` and `min_groups_for_streaming_train` against N.
/// Errors: invalid_argument that names both keys.
[[nodiscard]] result<void> validate_buffer(const sampler_policy& policy,
                                           std::uint64_t groups_per_step, std::uint64_t groups_min,
                                           std::uint64_t groups_buffered_max);

} // namespace weir
