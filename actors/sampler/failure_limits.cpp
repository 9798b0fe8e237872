#include "actors/sampler/failure_limits.hpp"

#include <algorithm>
#include <cmath>

namespace weir {

std::int64_t backoff_after(std::uint32_t attempts, const failure_limits& limits) {
  if (attempts == 0) return 0;
  const std::int64_t longest = limits.backoff_max_ns;
  std::int64_t wait = std::min(limits.backoff_base_ns, longest);
  for (std::uint32_t doubled = 1; doubled < attempts && wait < longest && wait > 0; ++doubled)
    wait = wait > longest / 2 ? longest : wait * 2;
  return wait;
}

std::uint64_t step_groups_floor(std::uint64_t groups_per_step, const failure_limits& limits) {
  const double exact = limits.min_step_batch_fraction * static_cast<double>(groups_per_step);
  // 0.7 x 10 is a little above 7 in binary; nobody who writes 0.7 means 8.
  return std::min(static_cast<std::uint64_t>(std::ceil(exact - 1e-9)), groups_per_step);
}

result<void> validate_failure_limits(const failure_limits& limits, bool sampler_stamps) {
  const auto refuse = [](const char* text) { return failure(errc::invalid_argument, text); };
  if (limits.max_infra_attempts_per_prompt == 0)
    return refuse("rollout_failure.max_infra_attempts_per_prompt: must be at least 1");
  if (limits.max_data_attempts_per_prompt == 0)
    return refuse("rollout_failure.max_data_attempts_per_prompt: must be at least 1");
  if (limits.backoff_base_ns < 0)
    return refuse("rollout_failure.backoff_base_s: must not be negative");
  if (limits.backoff_max_ns < limits.backoff_base_ns)
    return refuse("rollout_failure.max_backoff_s must be at least rollout_failure.backoff_base_s");
  if (!(limits.min_step_batch_fraction >= 0.0 && limits.min_step_batch_fraction <= 1.0))
    return refuse("rollout_failure.min_step_batch_fraction: must be from 0 to 1");
  if (limits.replace_dropped_prompts && limits.max_replacement_attempts == 0)
    return refuse("rollout_failure.on_dropped_prompt replace needs "
                  "rollout_failure.max_replacement_attempts of at least 1");
  if (limits.replace_dropped_prompts && limits.replacement_reserve_prompts == 0)
    return refuse("rollout_failure.on_dropped_prompt replace needs "
                  "rollout_failure.replacement_reserve_prompts of at least 1");
  if (!sampler_stamps && limits.max_skipped_prompts > 0)
    return refuse("rollout_failure.max_skipped_prompts above 0 needs a sampler that stamps: set "
                  "async_rl.sampler.name to in_order, or the budget to 0");
  if (!sampler_stamps && limits.max_consecutive_dropped_prompts > 0)
    return refuse("rollout_failure.max_consecutive_dropped_prompts above 0 needs a sampler that "
                  "stamps: set async_rl.sampler.name to in_order, or the budget to 0");
  return {};
}

} // namespace weir
