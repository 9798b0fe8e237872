/// What the runtime costs: an ask against CAF's own, coroutines against their targets, and how long
/// the bare messages of a barrier hold a gate.
///
/// Bounds: an ask is two messages of CAF (one allocation and one compare-and-swap each) and two
/// turns of a scheduler; a nested await is two passes through a run queue in the first cache level.
#include "actors/graph.hpp"
#include "benchmarks/caf_baseline.hpp"
#include "benchmarks/report.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

namespace {
std::atomic<std::uint64_t> allocations = 0;
} // namespace

// Counts what comes from the heap, ours and CAF's alike. Not inlined: g++ would take the pair apart
// and warn about the halves.
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
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

double nanoseconds_since(steady::time_point begin) {
  return std::chrono::duration<double, std::nano>(steady::now() - begin).count();
}

// Coroutines without actors.

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

task<void> spawn_many(int count) {
  for (int i = 0; i < count; ++i) {
    scope child;
    child.spawn(&nothing);
    co_await child.joined();
  }
}

template <class Callable, class... Args>
double ns_each(int count, Callable callable, Args... args) {
  bare_host host;
  run_queue queue(host);
  scope root(queue);
  const run_queue::turn turn(queue);
  const auto begin = steady::now();
  root.spawn(callable, count, args...);
  while (queue.drain(1 << 20) != 0) {
  }
  return nanoseconds_since(begin) / count;
}

// Asks.

using echo_protocol = protocol<call<Probe, ProbeAnswered>, note<StopGroup>>;

class echo : public actor {
public:
  using protocol = echo_protocol;
  explicit echo(context ctx) : actor(std::move(ctx)), reply_(pack(ProbeAnsweredT())) {
    serve(&echo::on_probe);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) { co_return reply_; }
  message<ProbeAnswered> reply_;
};

task<std::uint64_t> ask_many(handle<echo_protocol> asked, std::size_t rounds) {
  const auto request = pack(ProbeT());
  const std::uint64_t before = allocations;
  for (std::size_t i = 0; i < rounds; ++i) {
    auto answer = co_await asked.ask(request, within(30s));
    ensure(answer.has_value(), "an echo answers");
  }
  co_return allocations - before;
}

struct ask_bench {
  explicit ask_bench(std::size_t workers)
      : system(env, {.workers = workers}), asked(system.add<echo>("echo")), baseline(workers) {
    ensure(system.start().has_value(), "the graph starts");
  }

  double ours_ns(std::size_t rounds) {
    const auto begin = steady::now();
    const auto counted = system.run_blocking(&ask_many, asked, rounds);
    ensure(counted.has_value(), "the asks end");
    return nanoseconds_since(begin) / static_cast<double>(rounds);
  }
  double ours_allocations(std::size_t rounds) {
    const auto counted = system.run_blocking(&ask_many, asked, rounds);
    return static_cast<double>(counted.value_or(0)) / static_cast<double>(rounds);
  }
  double baseline_ns(std::size_t rounds) { return baseline.round_trip_ns(request, reply, rounds); }
  double baseline_allocations(std::size_t rounds) {
    const std::uint64_t before = allocations;
    std::ignore = baseline.round_trip_ns(request, reply, rounds);
    return static_cast<double>(allocations - before) / static_cast<double>(rounds);
  }

  world env{world_options{}};
  graph system;
  handle<echo_protocol> asked;
  caf_ping_pong baseline;
  frame request = framed(pack(ProbeT()).content());
  frame reply = framed(pack(ProbeAnsweredT()).content());

private:
  static frame framed(payload_ptr content) {
    frame made;
    made.header.sender = std::make_shared<const std::string>("bench");
    made.content = std::move(content);
    return made;
  }
};

// The bare barrier: gates close, owners are asked, gates open; no state is captured.

class gate_keeper : public actor {
public:
  using protocol = origin_protocol;
  static constexpr bool is_origin = true;
  explicit gate_keeper(context ctx) : actor(std::move(ctx)) {
    serve(&gate_keeper::on_quiesce);
    serve(&gate_keeper::on_resume);
  }

private:
  static epoch_id epoch_of(const EpochId* epoch) {
    return {epoch->incarnation(), epoch->life(), epoch->number()};
  }
  task<result<message<Quiesced>>> on_quiesce(message<Quiesce> request) {
    const epoch_id epoch = epoch_of(request->epoch());
    mutations().close(epoch, 5s);
    auto settled = co_await mutations().quiesced(epoch);
    if (!settled) co_return failure(std::move(settled.error()));
    co_return pack(QuiescedT());
  }
  task<result<message<Resumed>>> on_resume(message<Resume> request) {
    ResumedT reply;
    reply.held = mutations().open(epoch_of(request->epoch()));
    co_return pack(reply);
  }
};

template <class Protocol, class Request>
task<void> ask_into(handle<Protocol> asked, message<Request> request, bool* fine) {
  auto answer = co_await asked.ask(std::move(request), within(5s));
  *fine = *fine && answer.has_value();
}

struct barrier_peers {
  std::vector<handle<origin_protocol>> origins;
  std::vector<handle<echo_protocol>> owners;
};

task<double> one_barrier(barrier_peers peers, std::uint64_t number) {
  const EpochId epoch(1, 1, number);
  QuiesceT quiesce;
  quiesce.epoch = std::make_unique<EpochId>(epoch);
  ResumeT resume;
  resume.epoch = std::make_unique<EpochId>(epoch);
  bool fine = true;
  const auto begin = steady::now();
  scope phase;
  for (const auto& gate : peers.origins)
    phase.spawn(&ask_into<origin_protocol, Quiesce>, gate, pack(quiesce), &fine);
  co_await phase.joined();
  for (const auto& owner : peers.owners)
    phase.spawn(&ask_into<echo_protocol, Probe>, owner, pack(ProbeT()), &fine);
  co_await phase.joined();
  for (const auto& gate : peers.origins)
    phase.spawn(&ask_into<origin_protocol, Resume>, gate, pack(resume), &fine);
  co_await phase.joined();
  ensure(fine, "every gate and owner answers");
  co_return nanoseconds_since(begin);
}

/// Computes until told to stop, at the nice level of the product's compute threads.
class busy_cores {
public:
  explicit busy_cores(std::size_t threads)
      : pool_(make_blocking_pool({.threads = threads, .queue_limit = 64, .nice = 10})) {
    for (std::size_t i = 0; i < threads; ++i)
      std::ignore = pool_->submit([this] { compute(); });
  }
  ~busy_cores() { stop_ = true; }

private:
  void compute() {
    volatile double sum = 0;
    while (!stop_)
      sum = sum + 1.0;
  }
  std::atomic<bool> stop_ = false;
  std::unique_ptr<blocking_pool> pool_;
};

/// The quantile of one barrier's messages, in nanoseconds.
std::vector<double> barrier_holds(std::size_t count) {
  world env;
  graph system(env);
  barrier_peers peers;
  for (const char* name : {"rollout", "trainer", "replay evictor"})
    peers.origins.push_back(system.add<gate_keeper>(name));
  for (const char* name : {"dataloader", "sampler", "replay", "trainer state"})
    peers.owners.push_back(system.add<echo>(name));
  ensure(system.start().has_value(), "the graph starts");
  const busy_cores load(2);
  std::vector<double> holds;
  for (std::uint64_t number = 1; number <= count; ++number) {
    const auto hold = system.run_blocking(&one_barrier, peers, number);
    ensure(hold.has_value(), "a barrier ends");
    holds.push_back(*hold);
  }
  std::ranges::sort(holds);
  return holds;
}

double quantile(const std::vector<double>& sorted, double part) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(part * last)];
}

row against_target(std::string text, std::string unit, double target, const measurement& ours) {
  claim what{std::move(text), std::move(unit), "target", 1.0, better::lower};
  return compare(std::move(what), ours, [target] { return target; });
}

std::vector<row> measure() {
  std::vector<row> rows;
  constexpr std::size_t rounds = 20'000;
  for (const std::size_t workers : {std::size_t(1), std::size_t(2)}) {
    ask_bench bench(workers);
    const std::string with = ", " + std::to_string(workers) + " workers";
    rows.push_back(compare(
        {"ask round trip" + with, "ns", "CAF request().then()", 1.05, better::lower},
        [&] { return bench.ours_ns(rounds); }, [&] { return bench.baseline_ns(rounds); }));
    rows.push_back(compare(
        {"heap allocations per ask" + with, "allocations", "CAF request().then()", 1.0,
         better::lower},
        [&] { return bench.ours_allocations(rounds); },
        [&] { return bench.baseline_allocations(rounds); }));
  }
  rows.push_back(against_target("nested co_await of a ready task", "ns", 35, [] {
    long sum = 0;
    return ns_each(1'000'000, &await_many, &sum);
  }));
  rows.push_back(against_target("spawn and join of a child", "ns", 200,
                                [] { return ns_each(500'000, &spawn_many); }));
  rows.push_back(against_target("barrier messages p50, 3 origins, 4 owners, cores busy", "ns",
                                100'000, [] { return quantile(barrier_holds(500), 0.5); }));
  rows.push_back(against_target("barrier messages p99, 3 origins, 4 owners, cores busy", "ns",
                                1'000'000, [] { return quantile(barrier_holds(500), 0.99); }));
  return rows;
}

} // namespace
} // namespace weir::benchmarks

int main(int count, char** arguments) {
  const char* path = count > 1 ? arguments[1] : "build/benchmarks/runtime.json";
  return weir::benchmarks::publish(weir::benchmarks::measure(), path);
}
