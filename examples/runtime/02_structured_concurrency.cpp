/// Children never outlive their scope.
///
/// Shows: when_all, spawn and joined; and that leaving a scope cancels what is left in it: its
/// frames are destroyed, and only their destructors run.
/// Prints: 1 + 2 = 3
///         all 3 children have ended
///         left behind: cancelled
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

weir::task<int> number(int value) {
  co_return value;
}

weir::task<void> count_one(int* ended) {
  co_await weir::yield();
  ++*ended;
}

/// Its destructor runs when the coroutine that holds it is destroyed, finished or not.
class farewell {
public:
  explicit farewell(const char* text) : text_(text) {}
  farewell(const farewell&) = delete;
  farewell& operator=(const farewell&) = delete;
  ~farewell() { std::printf("%s\n", text_); }

private:
  const char* text_;
};

weir::task<void> wait_for_ever(const weir::clock* time) {
  const farewell on_cancel("left behind: cancelled");
  co_await time->after(24h);
}

// [readme:scopes]
weir::task<void> show(const weir::clock* time) {
  auto both = co_await weir::when_all(number(1), number(2)); // Fixed fan-out.
  auto& [one, two] = both;
  std::printf("%d + %d = %d\n", one, two, one + two);

  int ended = 0;
  weir::scope children; // As many as there are.
  for (int i = 0; i < 3; ++i)
    children.spawn(&count_one, &ended); // Callable and arguments move into the child's frame.
  co_await children.joined();
  std::printf("all %d children have ended\n", ended);

  weir::scope abandoned;
  abandoned.spawn(&wait_for_ever, time);
  co_await weir::yield(); // It starts, and waits. The end of this function cancels it.
}
// [end]

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto shown = system.run_blocking(&show, &env.clock());
  return shown ? 0 : 1;
}
