/// An actor without durable state that fails is restarted in place, until its group gives up.
///
/// Shows: a group with a restart budget, an actor that is made anew from the arguments it was added
/// with, a handle that stays valid, and the failure of the run when the budget is spent.
/// Prints: worker, life 1: 100 / 4 = 25
///         asked of worker, unavailable: worker failed before it answered: division by zero
///         worker, life 2: 100 / 5 = 20
///         asked of worker, unavailable: worker failed before it answered: division by zero
///         the run ended: worker failed after 1 restarts within 10 s, which is all that group
///         workers allows; last error: division by zero
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>
#include <memory>

namespace {

using namespace std::chrono_literals;

/// Divides a hundred. A real one would decode, score or parse: work that can be done again.
class divider : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<weir::RequestCheckpoint, weir::CheckpointPublished>>;

  divider(weir::context ctx, std::shared_ptr<int> lives) : actor(std::move(ctx)), life_(++*lives) {
    serve(&divider::on_divide);
  }

private:
  weir::task<weir::result<weir::message<weir::CheckpointPublished>>>
  on_divide(weir::message<weir::RequestCheckpoint> request) {
    if (request->step() == 0) fail(weir::error{weir::errc::invalid_argument, "division by zero"});
    co_await weir::yield(); // A failed actor gets no further than its next wait.
    weir::CheckpointPublishedT reply;
    reply.bundle = name() + ", life " + std::to_string(life_) + ": 100 / " +
                   std::to_string(request->step()) + " = " + std::to_string(100 / request->step());
    co_return weir::pack(reply);
  }

  const int life_;
};

weir::task<void> divide(weir::handle<divider::protocol> worker, const weir::clock* time, int by) {
  weir::RequestCheckpointT request;
  request.step = by;
  auto quotient = co_await worker.ask(weir::pack(request), weir::within(5s));
  // Refused at once while the next life has not begun: whoever asks decides when to try again.
  while (by != 0 && !quotient) {
    co_await time->after(1ms);
    quotient = co_await worker.ask(weir::pack(request), weir::within(5s));
  }
  if (quotient)
    std::printf("%s\n", (*quotient)->bundle()->c_str());
  else
    std::printf("asked of %s, %s: %s\n", quotient.error().origin.c_str(),
                weir::to_string(quotient.error().code).data(), quotient.error().text.c_str());
}

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  // [readme:supervision]
  const auto workers = system.supervise(
      "workers", {.how = weir::restart::one_for_one, .restarts_max = 1, .backoff = 1ms});
  const auto worker = system.add<divider>(workers, "worker", std::make_shared<int>(0));
  // [end]
  const auto started = system.start();
  if (!started) return 1;
  for (const int by : {4, 0, 5, 0}) {
    const auto divided = system.run_blocking(&divide, worker, &env.clock(), by);
    if (!divided) return 1;
  }
  const auto ended = system.wait_blocking(10s);
  if (ended || ended.error().origin != "worker") return 1;
  std::printf("the run ended: %s\n", ended.error().text.c_str());
  return system.stop() ? 0 : 1;
}
