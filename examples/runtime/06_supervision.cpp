/// An actor without durable state that fails is restarted in place, until its group gives up.
///
/// Shows: a group with a restart budget, an actor that is made anew from the arguments it was added
/// with, a handle that stays valid, and the failure of the run when the budget is spent.
/// Prints: 100 / 4 = 25, says life 1
///         unavailable: worker failed before it answered: division by zero
///         100 / 5 = 20, says life 2
///         unavailable: worker failed before it answered: division by zero
///         worker failed after 1 restart within 10 s, all that group pool allows: division by zero
#include "actors/graph.hpp"
#include "examples/runtime/demo_catalogue.hpp"

#include <chrono>
#include <cstdio>
#include <memory>

namespace {

using namespace std::chrono_literals;

/// A real one would decode, score or parse: work that can be done again by somebody fresh.
class divider : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<demo::Divide, demo::Divided>>;

  divider(weir::context ctx, std::shared_ptr<int> lives) : actor(std::move(ctx)), life_(++*lives) {
    serve(&divider::on_divide);
  }

private:
  weir::task<weir::result<weir::message<demo::Divided>>>
  on_divide(weir::message<demo::Divide> request) {
    if (request->by() == 0) {
      fail(weir::error{weir::errc::invalid_argument, "division by zero"});
      co_await weir::yield(); // The end of this life: it gets no further.
    }
    demo::DividedT reply;
    reply.quotient = 100 / request->by();
    reply.life = static_cast<std::uint64_t>(life_);
    co_return weir::pack(reply);
  }

  const int life_;
};

/// Refused at once while the next life has not begun: whoever asks decides when to try again.
weir::task<void> divide(weir::handle<divider::protocol> worker, const weir::clock* time,
                        std::uint64_t by) {
  demo::DivideT request;
  request.by = by;
  auto answer = co_await worker.ask(weir::pack(request), weir::within(5s));
  while (by != 0 && !answer) {
    co_await time->after(1ms);
    answer = co_await worker.ask(weir::pack(request), weir::within(5s));
  }
  if (answer)
    std::printf("100 / %d = %d, says life %d\n", static_cast<int>(by),
                static_cast<int>((*answer)->quotient()), static_cast<int>((*answer)->life()));
  else
    std::printf("%s: %s\n", weir::to_string(answer.error().code).data(),
                answer.error().text.c_str());
}

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  // [readme:supervision]
  const auto pool = system.supervise(
      "pool", {.how = weir::restart::one_for_one, .restarts_max = 1, .backoff = 1ms});
  const auto worker = system.add<divider>(pool, "worker", std::make_shared<int>(0));
  // [end]
  const auto started = system.start();
  if (!started) return 1;
  for (const std::uint64_t by : {4U, 0U, 5U, 0U}) {
    const auto divided = system.run_blocking(&divide, worker, &env.clock(), by);
    if (!divided) return 1;
  }
  const auto ended = system.wait_blocking(10s);
  if (ended) return 1;
  std::printf("%s\n", ended.error().text.c_str());
  return system.stop() ? 0 : 1;
}
