/// Deadlines as values, and the wait for a time.
#pragma once

#include "actors/runtime/detail/wait_list.hpp"

#include <chrono>
#include <string>

namespace weir {

/// How long a wait may last; the mandatory last argument of `ask`.
struct deadline_after {
  std::chrono::nanoseconds duration;
};

/// `co_await sampler.ask(request, within(2s))`. Not positive: the wait has timed out already.
[[nodiscard]] constexpr deadline_after within(std::chrono::nanoseconds duration) noexcept {
  return deadline_after{duration};
}

/// "250 ms", "30 s": the largest unit that divides it.
[[nodiscard]] std::string to_string(deadline_after limit);

namespace detail {

class [[nodiscard]] sleep_awaiter final : public timer_node, private described_wait {
public:
  explicit sleep_awaiter(std::chrono::nanoseconds duration) noexcept : duration_(duration) {}
  [[nodiscard]] bool await_ready() const noexcept { return duration_.count() <= 0; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> sleeper,
                     std::source_location where = std::source_location::current()) {
    enter(sleeper.promise(), where);
  }
  void await_resume() const noexcept {}

private:
  void enter(promise_base& sleeper, std::source_location where);
  void expired() noexcept override;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;

  std::chrono::nanoseconds duration_;
  promise_base* sleeper_ = nullptr;
};

class [[nodiscard]] yield_awaiter final {
public:
  yield_awaiter() noexcept {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting,
                     std::source_location where = std::source_location::current()) const noexcept {
    promise_base& promise = waiting.promise();
    promise.waiting("its next turn", where);
    promise.queue().defer(promise);
  }
  void await_resume() const noexcept {}
};

} // namespace detail

/// Suspends until messages that have arrived, and all coroutines that are ready, had their turn.
[[nodiscard]] inline detail::yield_awaiter yield() noexcept {
  return detail::yield_awaiter();
}

} // namespace weir
