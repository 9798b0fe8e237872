/// What the files of the runtime's harness share: how much to measure, clocks, heap counters.
#pragma once

#include "benchmarks/report.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::benchmarks {

/// How much is measured. The quick one proves in seconds that every harness still works; its
/// figures mean nothing.
struct effort {
  bool quick = false;

  [[nodiscard]] std::size_t rounds(std::size_t full) const noexcept {
    return quick ? full / 100 + 1 : full;
  }
};

/// Allocations from the heap so far, ours and CAF's alike, on all threads.
[[nodiscard]] std::uint64_t heap_allocations() noexcept;
/// Bytes of the heap that are in use, with what the allocator adds to each block.
[[nodiscard]] double heap_bytes() noexcept;

using steady = std::chrono::steady_clock;

[[nodiscard]] inline double nanoseconds_since(steady::time_point begin) {
  return std::chrono::duration<double, std::nano>(steady::now() - begin).count();
}

/// A figure that is held against an absolute target: at most the target, or at least.
[[nodiscard]] row against_target(std::string text, std::string unit, double target,
                                 const measurement& ours, better direction = better::lower);

[[nodiscard]] std::vector<row> ask_rows(effort much);
[[nodiscard]] std::vector<row> coroutine_rows(effort much);
[[nodiscard]] std::vector<row> barrier_rows(effort much);
[[nodiscard]] std::vector<row> crowd_rows(effort much);
[[nodiscard]] std::vector<row> stream_rows(effort much);
[[nodiscard]] std::vector<row> simulation_rows(effort much);

} // namespace weir::benchmarks
