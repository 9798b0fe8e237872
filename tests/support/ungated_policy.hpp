/// A sampler for tests: no gate, no stamp, no bound, and a step trains on what is ready.
#pragma once

#include "actors/sampler/sampler_policy.hpp"

#include <vector>

namespace weir::test {

class ungated_policy : public sampler_policy {
public:
  [[nodiscard]] bool gated() const override { return false; }
  [[nodiscard]] bool bounds_staleness() const override { return false; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override { return true; }
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    std::vector<group_id> chosen;
    for (const policy_slot& slot : slots)
      if (slot.ready && chosen.size() < wanted.groups_max) chosen.push_back(slot.group);
    if (chosen.size() < wanted.groups_min) chosen.clear();
    return chosen;
  }
};

} // namespace weir::test
