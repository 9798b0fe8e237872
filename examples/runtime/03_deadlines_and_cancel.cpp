/// Every wait ends: by its value, by its deadline, or because nobody waits any more.
///
/// Shows: with_deadline; first_of, whose losers are gone before it returns; and shielded, the one
/// way to be uncancellable, for steps that must not stop half way.
/// Prints: timed out
///         the first was number 1
///         the durable step ended although its caller did not wait
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>
#include <tuple>

namespace {

using namespace std::chrono_literals;

weir::task<int> after(const weir::clock* time, std::chrono::nanoseconds duration, int value) {
  co_await time->after(duration);
  co_return value;
}

weir::task<void> durable_step(const weir::clock* time, bool* ended) {
  co_await time->after(20ms);
  *ended = true;
}

weir::task<void> impatient(const weir::clock* time, bool* ended) {
  co_await weir::shielded(durable_step(time, ended));
}

// [readme:deadlines]
weir::task<void> show(const weir::clock* time, bool* ended) {
  auto late = co_await weir::with_deadline(after(time, 1h, 7), weir::within(5ms));
  std::printf("%s\n", late ? "in time" : weir::to_string(late.error().code).data());

  auto first = co_await weir::first_of(after(time, 1h, 0), after(time, 1ms, 1));
  std::printf("the first was number %zu\n", first.index()); // A variant: one value, one winner.

  std::ignore = co_await weir::with_deadline(impatient(time, ended), weir::within(1ms));
}
// [end]

} // namespace

int main() {
  bool ended = false;
  weir::world env;
  weir::graph system(env);
  const auto shown = system.run_blocking(&show, &env.clock(), &ended);
  const auto stopped = system.stop(); // Waits for what is shielded.
  if (ended) std::printf("the durable step ended although its caller did not wait\n");
  return shown && stopped && ended ? 0 : 1;
}
