/// Numbers that actors count and others read at any time, without a message: for progress, metrics
/// and tests. They decide nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir {

struct run_counters {
  std::atomic<std::uint64_t> tokens_generated{0};
  std::atomic<std::uint64_t> groups_in_flight{0};
  std::atomic<std::uint64_t> groups_buffered{0};
  /// Given up in flight because they were stale.
  std::atomic<std::uint64_t> groups_aborted{0};
  /// Of this life: groups that failed for good, those whose place a spare took, and finished groups
  /// that were promoted into such a place.
  std::atomic<std::uint64_t> prompts_dropped{0};
  std::atomic<std::uint64_t> prompts_replaced{0};
  std::atomic<std::uint64_t> prompts_promoted{0};
};

} // namespace weir
