/// An ask against CAF's own request().then(), with the same frame.
///
/// Bound: an ask is two messages of CAF (one allocation and one compare-and-swap each) and two
/// turns of a scheduler, which allocates a node for each. What a coroutine adds has to fit into
/// what CAF spends on matching patterns and on response promises.
#include "actors/graph.hpp"
#include "benchmarks/asking.hpp"
#include "benchmarks/caf_baseline.hpp"
#include "benchmarks/runtime_bench.hpp"

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

struct counted_asks {
  std::uint64_t allocations = 0;
  std::uint64_t bytes_copied = 0;
};

task<counted_asks> ask_many(handle<echo_protocol> asked, std::size_t rounds) {
  const auto request = pack(ProbeT());
  const std::uint64_t copied = payload_bytes_copied();
  const std::uint64_t before = heap_allocations();
  for (std::size_t i = 0; i < rounds; ++i) {
    auto answer = co_await asked.ask(request, within(30s));
    ensure(answer.has_value(), "an echo answers");
  }
  counted_asks counted;
  counted.allocations = heap_allocations() - before;
  counted.bytes_copied = payload_bytes_copied() - copied;
  co_return counted;
}

frame framed(payload_ptr content) {
  frame made;
  made.header.sender = std::make_shared<const std::string>("bench");
  made.content = std::move(content);
  return made;
}

class ask_bench {
public:
  ask_bench(std::size_t workers, std::size_t rounds)
      : rounds_(rounds), system_(env_, {.workers = workers}), asked_(system_.add<echo>("echo")),
        baseline_(workers), request_(framed(pack(ProbeT()).content())),
        reply_(framed(pack(ProbeAnsweredT()).content())) {
    ensure(system_.start().has_value(), "the graph starts");
  }

  double ours_ns() {
    const auto begin = steady::now();
    std::ignore = ours();
    return nanoseconds_since(begin) / static_cast<double>(rounds_);
  }
  double ours_allocations() {
    return static_cast<double>(ours().allocations) / static_cast<double>(rounds_);
  }
  double ours_bytes_copied() { return static_cast<double>(ours().bytes_copied); }
  double requests_ns() { return baseline_.request_ns(request_, reply_, rounds_); }
  double request_allocations() {
    return allocations_of([&] { std::ignore = requests_ns(); });
  }
  double send_allocations() {
    return allocations_of([&] { std::ignore = baseline_.send_ns(request_, reply_, rounds_); });
  }

private:
  counted_asks ours() {
    const auto counted = system_.run_blocking(&ask_many, asked_, rounds_);
    ensure(counted.has_value(), "the asks end");
    return *counted;
  }
  template <class Work>
  double allocations_of(Work work) const {
    const std::uint64_t before = heap_allocations();
    work();
    return static_cast<double>(heap_allocations() - before) / static_cast<double>(rounds_);
  }

  std::size_t rounds_;
  world env_{world_options{}};
  graph system_;
  handle<echo_protocol> asked_;
  caf_ping_pong baseline_;
  frame request_;
  frame reply_;
};

} // namespace

std::vector<row> ask_rows(effort much) {
  std::vector<row> rows;
  const std::size_t rounds = much.rounds(20'000);
  for (const std::size_t workers : {std::size_t(1), std::size_t(2)}) {
    ask_bench bench(workers, rounds);
    const std::string with = workers == 1 ? ", 1 worker" : ", 2 workers";
    rows.push_back(compare(
        {"ask round trip" + with, "ns", "CAF request().then()", 1.05, better::lower},
        [&] { return bench.ours_ns(); }, [&] { return bench.requests_ns(); }));
  }
  ask_bench bench(1, rounds);
  rows.push_back(compare(
      {"heap allocations per ask", "allocations", "CAF request().then()", 1.0, better::lower},
      [&] { return bench.ours_allocations(); }, [&] { return bench.request_allocations(); }));
  // A few allocations of starting and ending a run are spread over its rounds.
  rows.push_back(compare(
      {"heap allocations per ask, of bare messages", "allocations", "two plain sends of CAF", 1.01,
       better::lower},
      [&] { return bench.ours_allocations(); }, [&] { return bench.send_allocations(); }));
  rows.push_back(against_target("payload bytes copied by asks", "bytes", 0,
                                [&] { return bench.ours_bytes_copied(); }));
  return rows;
}

} // namespace weir::benchmarks
