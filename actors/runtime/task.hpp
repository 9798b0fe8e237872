/// `task<T>`: a lazy coroutine that is awaited in the expression that creates it.
///
/// A task cannot be moved, copied or stored to be awaited later, so what it refers to in that
/// expression is alive while it runs. Awaiting starts it; when the awaiting frame is destroyed, the
/// task's frame is destroyed first: cancelling is destroying, child before parent, and only
/// destructors run. Nobody resumes anybody: start and return go through the run queue.
#pragma once

#include "actors/runtime/run_queue.hpp"

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

namespace weir {

template <class T>
class task;

namespace detail {

template <class T>
class task_promise;

/// Owns a frame that was made and perhaps started; the movable inside of a task, for combinators.
template <class T>
class task_frame {
public:
  using handle = std::coroutine_handle<task_promise<T>>;

  explicit task_frame(handle frame) noexcept : frame_(frame) {}
  task_frame(task_frame&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  task_frame& operator=(task_frame&&) = delete;
  ~task_frame() {
    if (frame_) frame_.destroy();
  }

  [[nodiscard]] task_promise<T>& promise() const noexcept { return frame_.promise(); }
  [[nodiscard]] bool alive() const noexcept { return static_cast<bool>(frame_); }
  void destroy() noexcept {
    if (frame_) std::exchange(frame_, {}).destroy();
  }
  /// Leaves the frame to whoever asked for its promise.
  [[nodiscard]] task_promise<T>& release() noexcept { return std::exchange(frame_, {}).promise(); }

private:
  handle frame_;
};

/// Waits for one child; owns its frame.
template <class T>
class [[nodiscard]] task_awaiter {
public:
  explicit task_awaiter(task_frame<T> child) noexcept : child_(std::move(child)) {}
  task_awaiter(const task_awaiter&) = delete;
  task_awaiter& operator=(const task_awaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) noexcept {
    child_.promise().start_called(parent.promise(), where);
  }
  T await_resume() { return child_.promise().take(); }

private:
  task_frame<T> child_;
};

/// Tells the observer, if there is one; that may end the life of the frame.
class final_awaiter {
public:
  explicit final_awaiter(bool observed) noexcept : observed_(observed) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    if (observed_) ended.promise().complete();
  }
  void await_resume() const noexcept {}

private:
  bool observed_;
};

class awaiting_promise : public promise_base {
public:
  [[nodiscard]] final_awaiter final_suspend() noexcept {
    // Here and not when it is suspended: then it would have to be found from its handle. Nothing
    // runs before it is.
    return final_awaiter(!return_to_parent());
  }
};

struct sibling_tag;

/// A coroutine that a scope may own.
class child_promise : public awaiting_promise, public link<sibling_tag> {
public:
  using promise_base::destroy;
};

template <class T>
class task_promise : public awaiting_promise {
public:
  [[nodiscard]] task<T>
  get_return_object(std::source_location where = std::source_location::current()) noexcept;

  template <class Value>
    requires std::constructible_from<T, Value>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  [[nodiscard]] T take() {
    ensure(value_.has_value(), "a finished coroutine has returned a value");
    return std::move(*value_);
  }

private:
  std::optional<T> value_;
};

template <>
class task_promise<void> : public child_promise {
public:
  [[nodiscard]] task<void>
  get_return_object(std::source_location where = std::source_location::current()) noexcept;

  void return_void() const noexcept {}
  void take() const noexcept {}
};

/// Takes the frame out of a task: how combinators take over what they are given.
template <class T>
[[nodiscard]] task_frame<T> frame_of(task<T>& from) noexcept {
  return std::move(from.frame_);
}

} // namespace detail

/// A coroutine that has not started. `co_await f(x)` runs it and gives its value.
///
/// Awaited: the end of the coroutine. Resumed by: the run queue of the same actor. Cancelled:
/// by destroying the awaiting frame; the child's locals are destroyed first. Arguments: by value,
/// owned by the child's frame. Errors: as the value says (`task<result<T>>`).
template <class T>
class [[nodiscard]] task {
public:
  using promise_type = detail::task_promise<T>;
  using value_type = T;

  task(const task&) = delete; // a task must be awaited in the expression that creates it
  task(task&&) = delete;      // a task must be awaited in the expression that creates it
  task& operator=(const task&) = delete;
  task& operator=(task&&) = delete;
  ~task() = default;

private:
  friend promise_type;
  friend detail::task_frame<T> detail::frame_of<T>(task&) noexcept;

  explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  detail::task_frame<T> frame_;
};

/// Takes the task by value: only the expression that made it can pass it.
template <class T>
[[nodiscard]] detail::task_awaiter<T> operator co_await(task<T> child) noexcept {
  return detail::task_awaiter<T>(detail::frame_of(child));
}

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object(std::source_location where) noexcept {
  const auto self = std::coroutine_handle<task_promise>::from_promise(*this);
  this->made(self, where);
  return task<T>(self);
}

inline task<void> task_promise<void>::get_return_object(std::source_location where) noexcept {
  const auto self = std::coroutine_handle<task_promise>::from_promise(*this);
  this->made(self, where);
  return task<void>(self);
}

/// A coroutine that nobody awaits, owned by a scope.
class root_task {
public:
  class promise_type : public child_promise {
  public:
    [[nodiscard]] root_task
    get_return_object(std::source_location where = std::source_location::current()) noexcept {
      const auto self = std::coroutine_handle<promise_type>::from_promise(*this);
      made(self, where, true);
      return root_task(self);
    }
    void return_void() const noexcept {}
  };

  explicit root_task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
  [[nodiscard]] promise_type& release() noexcept { return std::exchange(frame_, {}).promise(); }
  root_task(const root_task&) = delete;
  root_task& operator=(const root_task&) = delete;
  ~root_task() {
    if (frame_) frame_.destroy();
  }

private:
  std::coroutine_handle<promise_type> frame_;
};

} // namespace detail
} // namespace weir
