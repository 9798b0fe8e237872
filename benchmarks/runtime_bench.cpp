/// The harness of the runtime: every row that actors/runtime claims, area by area.
///
///     runtime_bench [PATH [full|quick [AREA]...]]
///
/// Quick measures next to nothing: a test runs it so, that no harness breaks unseen. Areas: ask,
/// coroutine, barrier, stream, simulation, crowd; all of them when none is named.
#include "benchmarks/runtime_bench.hpp"

#include "messages/block_pool.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <new>
#include <span>
#include <string_view>

namespace {
std::atomic<std::uint64_t> allocations = 0;
} // namespace

// Counts what comes from the heap. Not inlined: g++ would take the pair apart and warn about the
// halves.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace weir::benchmarks {

std::uint64_t heap_allocations() noexcept {
  return allocations.load(std::memory_order_relaxed) + blocks_from_heap();
}

double heap_bytes() noexcept {
  const auto all = mallinfo2();
  return static_cast<double>(all.uordblks) + static_cast<double>(all.hblkhd);
}

row against_target(std::string text, std::string unit, double target, const measurement& ours,
                   better direction) {
  claim what{std::move(text), std::move(unit), "target", 1.0, direction};
  return compare(std::move(what), ours, [target] { return target; });
}

namespace {

struct area {
  std::string_view name;
  std::vector<row> (*rows)(effort);
};

constexpr area areas[] = {
    {"ask", &ask_rows},       {"coroutine", &coroutine_rows},   {"barrier", &barrier_rows},
    {"stream", &stream_rows}, {"simulation", &simulation_rows}, {"crowd", &crowd_rows},
};

std::vector<row> measure(effort much, std::span<const std::string_view> wanted) {
  std::vector<row> rows;
  for (const area& each : areas) {
    if (!wanted.empty() && std::ranges::find(wanted, each.name) == wanted.end()) continue;
    std::ranges::move(each.rows(much), std::back_inserter(rows));
  }
  return rows;
}

} // namespace
} // namespace weir::benchmarks

int main(int count, char** arguments) {
  const std::vector<std::string_view> given(arguments + 1, arguments + count);
  const std::string path(given.empty() ? "build/benchmarks/runtime.json" : given[0]);
  const weir::benchmarks::effort much{given.size() > 1 && given[1] == "quick"};
  const auto wanted = std::span(given).subspan(std::min<std::size_t>(given.size(), 2));
  return weir::benchmarks::publish(weir::benchmarks::measure(much, wanted), path);
}
