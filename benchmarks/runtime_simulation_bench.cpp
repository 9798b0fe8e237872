/// Messages of a simulated graph a second, on one core.
///
/// Bound: 2 M messages a second leave 500 ns each. A step draws a number, takes a mailbox, reads
/// one message, runs the coroutines that it makes ready, and mixes five words into the hash of the
/// trace; an ask is two such messages. Neither a thread nor a lock takes part.
#include "actors/runtime/simulation.hpp"
#include "benchmarks/asking.hpp"
#include "benchmarks/runtime_bench.hpp"

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

/// Asks again and again; the last one to end finishes the run.
class asker : public actor {
public:
  using protocol = weir::protocol<>;
  asker(context ctx, handle<echo_protocol> asked, std::size_t rounds, std::size_t* left)
      : actor(std::move(ctx)), asked_(std::move(asked)), rounds_(rounds), left_(left) {}

private:
  task<void> run() override {
    const auto request = pack(ProbeT());
    for (std::size_t i = 0; i < rounds_; ++i) {
      auto answer = co_await asked_.ask(request, within(30s));
      ensure(answer.has_value(), "an echo answers");
    }
    if (--*left_ == 0) finish_run();
  }

  handle<echo_protocol> asked_;
  std::size_t rounds_;
  std::size_t* left_;
};

/// 16 pairs, so that a schedule has something to choose from.
double messages_per_second(std::size_t rounds) {
  constexpr std::size_t pairs = 16;
  std::size_t left = pairs;
  const auto begin = steady::now();
  const auto ended = simulate(1, [&left, rounds](graph& system) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::string number = std::to_string(i);
      const auto asked = system.add<echo>("echo " + number);
      system.add<asker>("asker " + number, asked, rounds / pairs, &left);
    }
  });
  ensure(ended.outcome.has_value(), "the simulated run ends");
  return static_cast<double>(ended.messages) * 1e9 / nanoseconds_since(begin);
}

} // namespace

std::vector<row> simulation_rows(effort much) {
  const std::size_t rounds = much.rounds(400'000);
  std::vector<row> rows;
  rows.push_back(against_target(
      "simulated messages on one core", "1/s", 2e6, [=] { return messages_per_second(rounds); },
      better::higher));
  return rows;
}

} // namespace weir::benchmarks
