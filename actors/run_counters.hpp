/// Numbers that actors count and others read at any time, without a message: for progress, metrics
/// and tests. They decide nothing, and begin at 0 with each life.
#pragma once

#include "actors/drop_reason.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace weir {

struct run_counters {
  std::atomic<std::uint64_t> tokens_generated{0};
  std::atomic<std::uint64_t> groups_in_flight{0};
  std::atomic<std::uint64_t> groups_buffered{0};
  /// Given up in flight because they were stale.
  std::atomic<std::uint64_t> groups_aborted{0};
  /// Groups that failed for good, those whose place a spare took, and finished groups that were
  /// promoted into such a place.
  std::atomic<std::uint64_t> prompts_dropped{0};
  std::atomic<std::uint64_t> prompts_replaced{0};
  std::atomic<std::uint64_t> prompts_promoted{0};
  /// By reason; stale ones are those that replay evicted.
  std::array<std::atomic<std::uint64_t>, drop_reasons> groups_dropped{};
  /// Unfinished groups of the bundle that this life generates again.
  std::atomic<std::uint64_t> groups_reissued{0};
  /// Nanoseconds, summed over those who waited: the dispatcher at the admission gate, groups for a
  /// slot in replay and for a permit to be in flight, generators for something to do.
  std::atomic<std::uint64_t> gate_wait_ns{0};
  std::atomic<std::uint64_t> slot_wait_ns{0};
  std::atomic<std::uint64_t> flight_wait_ns{0};
  std::atomic<std::uint64_t> generators_idle_ns{0};
};

} // namespace weir
