/// A sampler of a user's own, in forty lines: groups are trained in exactly the order in which
/// their prompts were dispatched, whatever finishes first.
///
/// in_order does that too, but binds each batch to a step, so that a step that loses a prompt must
/// shrink or find another one. Here the next group in line takes its place. W bounds staleness all
/// the same: the gate lets W batches run ahead of the one that is trained.
#pragma once

#include "actors/sampler/sampler_plugin.hpp"

namespace example {

class dispatch_order final : public weir::sampler_policy {
public:
  explicit dispatch_order(std::uint64_t window) : window_(window) {}

  [[nodiscard]] std::string_view name() const override { return "dispatch_order"; }
  [[nodiscard]] std::uint64_t window() const override { return window_; }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }

  /// Batch d + 1 may be admitted while no more than W batches are ahead of version v.
  [[nodiscard]] weir::result<bool> admits(std::int64_t dispatched,
                                          weir::weight_version live) const override {
    return dispatched < static_cast<std::int64_t>(live.value + window_);
  }

  /// The line is served from its head: an unfinished group holds up those behind it.
  [[nodiscard]] weir::result<std::vector<weir::group_id>>
  select(const weir::slot_view& slots, const weir::selection& wanted) const override {
    std::vector<weir::group_id> chosen;
    for (const weir::policy_slot& slot : slots) {
      if (!slot.ready || chosen.size() == wanted.groups_max) break;
      chosen.push_back(slot.group);
    }
    if (chosen.size() < wanted.groups_min) chosen.clear();
    return chosen;
  }

private:
  std::uint64_t window_;
};

inline std::shared_ptr<const weir::sampler_policy>
make_dispatch_order(const weir::sampler_arguments& given) {
  return std::make_shared<const dispatch_order>(given.window);
}

} // namespace example
