/// The harness of the runtime: every row that actors/runtime claims, area by area.
///
///     runtime_bench [PATH [quick]]
///
/// Quick measures next to nothing: a test runs it so, that no harness breaks unseen.
#include "benchmarks/runtime_bench.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <new>
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
  return allocations.load(std::memory_order_relaxed);
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

std::vector<row> measure(effort much) {
  std::vector<row> rows;
  for (const auto area : {&ask_rows, &coroutine_rows, &barrier_rows, &stream_rows, &crowd_rows})
    std::ranges::move(area(much), std::back_inserter(rows));
  return rows;
}

} // namespace
} // namespace weir::benchmarks

int main(int count, char** arguments) {
  const char* path = count > 1 ? arguments[1] : "build/benchmarks/runtime.json";
  const weir::benchmarks::effort much{count > 2 && std::string_view(arguments[2]) == "quick"};
  return weir::benchmarks::publish(weir::benchmarks::measure(much), path);
}
