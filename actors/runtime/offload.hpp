/// `offload(fn)`: blocking work on one of the world's pools, its value back on the actor.
#pragma once

#include "actors/runtime/blocking_pool.hpp"
#include "actors/runtime/completion.hpp"

#include <exception>
#include <functional>
#include <type_traits>

namespace weir {

namespace detail {

/// A pool of the actor whose turn this is.
[[nodiscard]] blocking_pool& pool_of_this_turn(work_class kind);
/// A thrown exception of a library, as an error.
[[nodiscard]] error describe_exception(const std::exception_ptr& thrown);

template <class Function>
class [[nodiscard]] offload_awaiter final {
public:
  using value_type = std::invoke_result_t<Function&>;
  using stored_type = std::conditional_t<std::is_void_v<value_type>, bool, value_type>;

  offload_awaiter(Function work, work_class kind)
      : kind_(kind),
        state_(std::make_shared<completion_state<stored_type>>(self_of_this_turn(), true)),
        work_(std::make_shared<Function>(std::move(work))) {}
  offload_awaiter(const offload_awaiter&) = delete;
  offload_awaiter& operator=(const offload_awaiter&) = delete;
  ~offload_awaiter() { state_->wait(nullptr); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) {
    promise_base& waiting = parent.promise();
    waiting.waiting("blocking work", where);
    state_->wait(&waiting);
    const auto job = [state = state_, work = work_] { run(state, *work); };
    if (!pool_of_this_turn(kind_).submit(job))
      complete<stored_type>(state_, failure(errc::exhausted, "the blocking pool is full"));
  }
  value_type await_resume() {
    auto value = state_->take();
    ensure(value.has_value(), "whoever waits for work that failed is never resumed");
    if constexpr (!std::is_void_v<value_type>) return std::move(*value);
  }

private:
  static void run(const std::shared_ptr<completion_state<stored_type>>& state, Function& work) {
    try {
      if constexpr (std::is_void_v<value_type>) {
        work();
        complete<stored_type>(state, true);
      } else {
        complete<stored_type>(state, result<stored_type>(tl::in_place, work()));
      }
    } catch (...) {
      complete<stored_type>(state, failure(describe_exception(std::current_exception())));
    }
  }

  work_class kind_;
  std::shared_ptr<completion_state<stored_type>> state_;
  std::shared_ptr<Function> work_;
};

} // namespace detail

/// `auto read = co_await offload(work);` runs `work()` on the blocking pool and gives its value.
///
/// `work` owns all that it uses. Resumed on the actor. Cancelling leaves the work to finish; its
/// value is dropped. A `work` that throws fails the actor. @pre the caller holds no lease
template <class Function>
[[nodiscard]] detail::offload_awaiter<Function>
offload(Function work, std::source_location where = std::source_location::current()) {
  detail::ensure_without_lease("blocking work", where);
  return detail::offload_awaiter<Function>(std::move(work), work_class::awaited);
}

/// The same for work that may take long and that nothing waits for which computes: a bundle that is
/// written. It has a pool of its own, so that a slow disk keeps no score waiting, and whose threads
/// rest where others want the processors; long work calls `give_way` between its pieces.
template <class Function>
[[nodiscard]] detail::offload_awaiter<Function>
offload_in_background(Function work, std::source_location where = std::source_location::current()) {
  detail::ensure_without_lease("blocking work", where);
  return detail::offload_awaiter<Function>(std::move(work), work_class::background);
}

} // namespace weir
