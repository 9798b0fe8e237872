/// An actor of yours behind one that loses, repeats and damages messages, by a plan and a seed.
///
/// Shows: a fault actor in front of a store, in three lines; a writer that survives it, since it
/// repeats what was lost, and since leased requests that arrive twice are applied once.
/// Prints: written in 5 attempts, applied 3 times
///         corrupt: flaky-store corrupted Probe
#include "actors/fault/fault.hpp"
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;
using store_protocol = weir::protocol<weir::call<weir::ReserveBatch, weir::BatchReserved>,
                                      weir::call<weir::Probe, weir::ProbeAnswered>>;

class store : public weir::actor {
public:
  using protocol = store_protocol;
  explicit store(weir::context ctx) : actor(std::move(ctx)) {
    serve(&store::on_reserve);
    serve(&store::on_probe);
  }

private:
  weir::task<weir::result<weir::message<weir::BatchReserved>>>
  on_reserve(weir::lease_ref, weir::message<weir::ReserveBatch>) {
    ++applied_;
    co_return weir::pack(weir::BatchReservedT());
  }
  weir::task<weir::result<weir::message<weir::ProbeAnswered>>>
  on_probe(weir::message<weir::Probe>) {
    weir::ProbeAnsweredT reply;
    reply.busy_with = std::to_string(applied_);
    co_return weir::pack(reply);
  }

  int applied_ = 0;
};

class writer : public weir::actor {
public:
  using protocol = weir::protocol<>;
  static constexpr bool is_origin = true;
  writer(weir::context ctx, weir::handle<store_protocol> store)
      : actor(std::move(ctx)), store_(std::move(store)) {}

private:
  weir::task<void> run() override {
    int attempts = 0;
    for (int written = 0; written < 3; ++attempts) {
      auto lease = co_await mutations().enter();
      const auto request = weir::pack(weir::ReserveBatchT());
      auto reserved = co_await store_.ask(lease, request, weir::within(20ms));
      if (reserved) ++written;
    }
    std::printf("written in %d attempts, ", attempts);
    finish_run();
  }

  weir::handle<store_protocol> store_;
};

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto direct = system.add<store>("store");
  // [readme:fault]
  const weir::fault_plan plan{weir::on<weir::ReserveBatch>().drop().times(2),
                              weir::on<weir::ReserveBatch>().duplicate(),
                              weir::on<weir::Probe>().corrupt()};
  const auto flaky = system.add<weir::fault<store_protocol>>("flaky-store", direct, plan);
  std::ignore = system.add<writer>("writer", flaky);
  // [end]
  const auto started = system.start();
  if (!started) return 1;
  const auto ended = system.wait_blocking(10s);
  if (!ended) return 1;

  const auto question = weir::pack(weir::ProbeT());
  const auto counted = system.ask_blocking(direct, question, weir::within(5s));
  if (!counted) return 1;
  std::printf("applied %s times\n", (*counted)->busy_with()->c_str());
  const auto damaged = system.ask_blocking(flaky, question, weir::within(5s));
  if (damaged) return 1;
  const std::string text = damaged.error().text;
  std::printf("corrupt: %s\n", text.substr(0, text.find(':')).c_str());
  return (*counted)->busy_with()->str() == "3" ? 0 : 1;
}
