#include "examples/weir/samplers.hpp"

#include "actors/sampler/checked_policy.hpp"
#include "examples/sampler/dispatch_order.hpp"
#include "examples/weir/job.hpp"

#include <utility>

namespace weir {

namespace {

std::string_view name_of(sampler_kind kind) {
  switch (kind) {
  case sampler_kind::in_order:
    return "in_order";
  case sampler_kind::weight_fifo:
    return "weight_fifo";
  case sampler_kind::ready_first:
    return "ready_first";
  case sampler_kind::windowed:
    return "windowed";
  case sampler_kind::custom:
    return "custom";
  }
  return "in_order";
}

/// What `validate` (config_rules.cpp) asks of the built-in samplers by their names.
result<void> check_declared(const sampler_policy& policy, const run_config& config) {
  const async_rl_config& async = config.async_rl;
  const auto refused = [&policy](const std::string& text) {
    return failure(errc::invalid_argument, title_of(policy) + ": " + text);
  };
  if (auto fine = validate_failure_limits(failure_limits_of(config), policy.stamps()); !fine)
    return refused("async_rl." + fine.error().text);
  if (async.weight_update == weight_update_kind::pinned && !policy.stamps())
    return refused("does not stamp groups, and async_rl.weight_update (pinned) needs a sampler "
                   "that does: set it to in_flight");
  if (!policy.bounds_staleness() && !config.loss_fn.use_importance_sampling_correction)
    return refused("does not bound staleness: it needs "
                   "loss_fn.use_importance_sampling_correction (false) to be true");
  auto fits = validate_buffer(policy, config.grpo.num_prompts_per_step,
                              async.min_groups_for_streaming_train, async.max_buffered_rollouts);
  return fits ? fits : refused(fits.error().text);
}

} // namespace

sampler_registry linked_samplers() {
  sampler_registry samplers;
  samplers.add("dispatch_order", &example::make_dispatch_order);
  return samplers;
}

result<std::shared_ptr<const sampler_policy>> sampler_of(const run_config& config) {
  const sampler_config& from = config.async_rl.sampler;
  if (from.name == sampler_kind::custom) {
    ensure(from.target.has_value(), "a custom sampler has a target");
    auto policy = make_custom_sampler(*from.target, linked_samplers(),
                                      {.window = from.max_staleness_versions,
                                       .groups_per_step = config.grpo.num_prompts_per_step});
    if (!policy) return policy;
    if (auto fine = check_declared(**policy, config); !fine)
      return failure(std::move(fine.error()));
    return policy;
  }
  sampler_options options;
  options.name = name_of(from.name);
  options.max_lookahead_versions = static_cast<std::int64_t>(from.max_lookahead_versions);
  options.max_staleness_versions = static_cast<std::int64_t>(from.max_staleness_versions);
  options.sample_freshest_first = from.sample_freshest_first;
  return make_sampler_policy(options);
}

std::string shadow_mode_notice(const sampler_policy& policy) {
  if (policy.supports_buffer_checkpoint()) return {};
  return "shadow mode: the sampler " + std::string(policy.name()) +
         " does not support buffer checkpoints; rollouts are saved and verified, never restored: "
         "after a restart, prompts that were handed out and not trained are generated again";
}

} // namespace weir
