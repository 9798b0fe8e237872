/// What a seed chooses: the configuration of a run, and its crashes.
///
/// Runs are tiny: a few prompts, a few siblings, a few tokens. What they lack in size they have in
/// variety: every choice below is drawn independently, so that a few thousand seeds meet every pair
/// of them.
#pragma once

#include "actors/runtime/world.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::sim {

/// The sampler of a life and its window; a later life may have another one.
struct sampler_choice {
  std::string name = "in_order";
  std::uint64_t window = 1;

  friend bool operator==(const sampler_choice&, const sampler_choice&) = default;
};

struct run_plan {
  std::uint64_t seed = 1;
  sampler_choice sampler;
  /// Of the lives after a crash; the last one stays. Empty: it never changes.
  std::vector<sampler_choice> later_samplers;

  std::uint64_t groups_per_step = 2;
  std::uint32_t siblings = 2;
  std::uint64_t dataset = 8;
  std::uint64_t epochs = 1;
  std::uint64_t steps_max = 1'000'000;
  std::uint64_t tokens_max = 3;
  /// Lengths of completions: log-normal up to `tokens_max`, instead of evenly spread.
  bool log_normal_lengths = false;

  std::uint64_t buffered_max = 8;
  std::uint64_t inflight_max = 4;
  std::uint64_t store_bytes = 1U << 20U;

  bool warm_up = false;
  std::uint64_t save_period = 1;
  /// Cuts at any instant, this far apart on average; 0: none but the trainer's.
  std::chrono::nanoseconds save_pause{0};
  std::optional<std::uint64_t> keep_top_k;

  std::uint64_t generators = 1;
  std::uint64_t environments = 1;
  std::chrono::nanoseconds token_lag{0};
  std::chrono::nanoseconds weights_lag{0};
  std::uint64_t failures_one_in = 0;
  std::uint64_t silences_one_in = 0;

  std::chrono::nanoseconds step_cost{1'000};
  std::chrono::nanoseconds job_delay{0};
  /// Longest wait of a barrier's stage, and how long a gate stays closed at most.
  std::chrono::nanoseconds barrier_timeout{std::chrono::seconds(5)};
  std::chrono::nanoseconds hold_limit{std::chrono::seconds(12)};
};

enum class crash_kind : std::uint8_t { process, power };

/// One crash, of one life: between two steps of the schedule, or within a call to the disk.
struct crash_point {
  crash_kind kind = crash_kind::process;
  std::optional<std::uint64_t> at_step;
  std::optional<std::uint64_t> at_disk_call;
  std::uint64_t power_seed = 0;

  friend bool operator==(const crash_point&, const crash_point&) = default;
};

/// How long an uninterrupted run is: crash points are drawn within it.
struct run_length {
  std::uint64_t steps = 1;
  std::uint64_t disk_calls = 1;
};

[[nodiscard]] run_plan plan_of(std::uint64_t seed, const std::vector<std::string>& samplers);
/// `count` crashes; without it, as many as the seed chooses (8 to 22).
[[nodiscard]] std::vector<crash_point> crashes_of(std::uint64_t seed, const run_length& length,
                                                  std::optional<std::uint64_t> count);

[[nodiscard]] const std::vector<std::string>& all_samplers();

/// One line each.
[[nodiscard]] std::string to_string(const run_plan& plan);
[[nodiscard]] std::string to_string(const crash_point& crash);

} // namespace weir::sim
