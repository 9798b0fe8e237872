/// Coroutines without actors: a nested await, a spawned child.
///
/// Bound: a nested await is a frame from a free list, two passes through a run queue in the first
/// cache level, and two indirect calls: some 15 ns. A spawned child is two frames (the wrapper that
/// owns the arguments, and the callee) and a wake-up of the one who joins.
#include "actors/runtime/combinators.hpp"
#include "benchmarks/runtime_bench.hpp"

#include <cstdlib>

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

class bare_host final : public run_queue_host {
public:
  [[nodiscard]] const std::string& host_name() const override { return name_; }
  [[nodiscard]] std::chrono::nanoseconds host_now() const override { return 0ns; }
  void host_failed(error) noexcept override { std::abort(); }

private:
  std::string name_ = "bench";
};

task<int> ready_value(int value) {
  co_return value;
}

task<void> await_many(int count, long* sum) {
  for (int i = 0; i < count; ++i) {
    const int value = co_await ready_value(i);
    *sum += value;
  }
}

task<void> nothing() {
  co_return;
}

task<void> spawn_many(int count, long* sum) {
  for (int i = 0; i < count; ++i) {
    scope child;
    child.spawn(&nothing);
    co_await child.joined();
    ++*sum;
  }
}

using many = task<void> (*)(int, long*);

struct cost {
  double ns = 0;
  double allocations = 0;
};

/// Of one step of `callable`, once the pool of frames is warm.
cost cost_of(std::size_t count, many callable) {
  bare_host host;
  run_queue queue(host);
  scope root(queue);
  const run_queue::turn turn(queue);
  long sum = 0;
  const auto run = [&](std::size_t steps) {
    root.spawn(callable, static_cast<int>(steps), &sum);
    while (queue.drain(1 << 20) != 0) {
    }
  };
  run(1);
  const std::uint64_t before = heap_allocations();
  const auto begin = steady::now();
  run(count);
  const auto steps = static_cast<double>(count);
  const cost each{nanoseconds_since(begin) / steps,
                  static_cast<double>(heap_allocations() - before) / steps};
  ensure(sum != 0, "the coroutines ran");
  return each;
}

} // namespace

std::vector<row> coroutine_rows(effort much) {
  const std::size_t awaits = much.rounds(1'000'000);
  const std::size_t children = much.rounds(500'000);
  std::vector<row> rows;
  rows.push_back(against_target("nested co_await of a ready task", "ns", 35,
                                [=] { return cost_of(awaits, &await_many).ns; }));
  rows.push_back(against_target("heap allocations per nested co_await", "allocations", 0,
                                [=] { return cost_of(awaits, &await_many).allocations; }));
  rows.push_back(against_target("spawn and join of a child", "ns", 200,
                                [=] { return cost_of(children, &spawn_many).ns; }));
  rows.push_back(against_target("heap allocations per spawned child", "allocations", 0,
                                [=] { return cost_of(children, &spawn_many).allocations; }));
  return rows;
}

} // namespace weir::benchmarks
