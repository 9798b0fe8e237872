/// How long the bare messages of a barrier hold a gate: gates close, owners are asked, gates open;
/// no state is captured.
///
/// Bound: three rounds of asks to 3, 4 and 3 actors, some 10 round trips of less than 1 us each,
/// and the wake-up of an idle core between them. Compute threads run at a nice level of 10, or the
/// messages would queue behind their time slices of some milliseconds.
#include "actors/graph.hpp"
#include "benchmarks/asking.hpp"
#include "benchmarks/runtime_bench.hpp"

#include <algorithm>
#include <atomic>

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

using owner_like = protocol<call<Probe, ProbeAnswered>>;

class answering_owner : public actor {
public:
  using protocol = owner_like;
  explicit answering_owner(context ctx) : actor(std::move(ctx)) {
    serve(&answering_owner::on_probe);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    co_return pack(ProbeAnsweredT());
  }
};

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

struct barrier_peers {
  std::vector<handle<origin_protocol>> origins;
  std::vector<handle<owner_like>> owners;
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
    phase.spawn(&ask_into<owner_like, Probe>, owner, pack(ProbeT()), &fine);
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

struct holds {
  double p50_ns = 0;
  double p99_ns = 0;
};

holds barrier_holds(std::size_t count) {
  world env;
  graph system(env);
  barrier_peers peers;
  for (const char* name : {"rollout", "trainer", "replay evictor"})
    peers.origins.push_back(system.add<gate_keeper>(name));
  for (const char* name : {"dataloader", "sampler", "replay", "trainer state"})
    peers.owners.push_back(system.add<answering_owner>(name));
  ensure(system.start().has_value(), "the graph starts");
  const busy_cores load(2);
  std::vector<double> each;
  for (std::uint64_t number = 1; number <= count; ++number) {
    const auto hold = system.run_blocking(&one_barrier, peers, number);
    ensure(hold.has_value(), "a barrier ends");
    each.push_back(*hold);
  }
  std::ranges::sort(each);
  return {each[each.size() / 2], each[each.size() * 99 / 100]};
}

} // namespace

std::vector<row> barrier_rows(effort much) {
  const std::size_t count = much.rounds(500);
  std::vector<row> rows;
  rows.push_back(against_target("barrier messages p50, 3 origins, 4 owners, cores busy", "ns",
                                100'000, [=] { return barrier_holds(count).p50_ns; }));
  rows.push_back(against_target("barrier messages p99, 3 origins, 4 owners, cores busy", "ns",
                                1'000'000, [=] { return barrier_holds(count).p99_ns; }));
  return rows;
}

} // namespace weir::benchmarks
