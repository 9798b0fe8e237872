/// The sampler of a job: a built-in one, one that this program has linked in, or one of a shared
/// object.
#pragma once

#include "actors/sampler/custom_sampler.hpp"
#include "examples/weir/config.hpp"

#include <memory>

namespace weir {

/// The samplers that `async_rl.sampler.target` finds by name. A program of your own adds its here.
[[nodiscard]] sampler_registry linked_samplers();

/// Errors: those of make_sampler_policy and make_custom_sampler; invalid_argument for keys that
/// contradict what a custom sampler declares of itself, naming it and the keys.
[[nodiscard]] result<std::shared_ptr<const sampler_policy>> sampler_of(const run_config& config);

/// What the start of a run says of a sampler whose buffer cannot be restored; empty for others.
[[nodiscard]] std::string shadow_mode_notice(const sampler_policy& policy);

} // namespace weir
