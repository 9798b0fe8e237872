/// What happens to a prompt that fails: retried a bounded number of times, then dropped within an
/// allowance of the run, else the run ends.
///
/// Two classes with separate budgets, because they answer different questions. An infra failure is
/// the fleet's fault: the same content is tried again, later and elsewhere, and drops are limited
/// in a row (a commit resets them). A data failure is the prompt's own fault: it is tried again
/// with fresh samples, at once, and drops are limited for the life of the run, since a dataset does
/// not get better.
#pragma once

#include "messages/error.hpp"

#include <cstdint>

namespace weir {

/// `async_rl.rollout_failure` of the configuration, as far as the ledger decides it.
struct failure_limits {
  std::uint32_t max_infra_attempts_per_prompt = 5;
  std::uint32_t max_data_attempts_per_prompt = 2;
  std::int64_t backoff_base_ns = 1'000'000'000;
  std::int64_t backoff_max_ns = 30'000'000'000;
  /// Data failures and poisoned prompts dropped, for the life of the run.
  std::uint64_t max_skipped_prompts = 0;
  /// Infra failures dropped without a commit between them.
  std::uint64_t max_consecutive_dropped_prompts = 0;
  /// A stamped step keeps at least ceil(fraction x N) groups.
  double min_step_batch_fraction = 0.9;
  /// Incarnations in which a group may be dispatched before that counts as a data failure.
  std::uint32_t max_dispatches_per_attempt = 3;
  /// `on_dropped_prompt: replace`: a spare takes the place of a dropped group in its step, as far
  /// as the two limits below go; a step is short only beyond them.
  bool replace_dropped_prompts = false;
  /// Spares that one place of a step may use up.
  std::uint32_t max_replacement_attempts = 1;
  /// Low-water mark: below it, a batch of the dataloader is set aside as spares.
  std::uint64_t replacement_reserve_prompts = 1;
};

enum class failure_kind : std::uint8_t { infra, data };

/// Nanoseconds to wait before attempt `attempts` + 1: base x 2^(attempts - 1), at most the maximum.
[[nodiscard]] std::int64_t backoff_after(std::uint32_t attempts, const failure_limits& limits);

/// Smallest number of groups that a stamped step of N may be trained with.
[[nodiscard]] std::uint64_t step_groups_floor(std::uint64_t groups_per_step,
                                              const failure_limits& limits);

/// Checks the limits against each other and against the sampler.
/// Errors: invalid_argument that names the keys.
[[nodiscard]] result<void> validate_failure_limits(const failure_limits& limits,
                                                   bool sampler_stamps);

} // namespace weir
