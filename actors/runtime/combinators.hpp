/// Several tasks as one wait: `when_all`, `first_of`, `with_deadline`, `shielded`.
///
/// All are plain functions that take tasks by value, so they too are used in the expression that
/// creates the tasks: `co_await first_of(read(), timer(1s))`. Children are owned by
/// the awaiter: cancelling the wait destroys them.
#pragma once

#include "actors/runtime/deadline.hpp"
#include "actors/runtime/detail/task_dump.hpp"
#include "actors/runtime/scope.hpp"

#include <memory>
#include <tuple>
#include <variant>

namespace weir {

namespace detail {

/// void has no values: it becomes std::monostate in tuples and variants.
template <class T>
using value_or_unit = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
value_or_unit<T> take_value(task_frame<T>& child) {
  if constexpr (std::is_void_v<T>)
    return std::monostate{};
  else
    return child.promise().take();
}

/// Destroys frames as a scope does, the youngest first, except the one of `spared`.
template <class Frames, std::size_t... Index>
void destroy_frames(Frames& frames, const promise_base* spared,
                    std::index_sequence<Index...>) noexcept {
  const auto destroy = [spared](auto& frame) {
    if (frame.alive() && static_cast<promise_base*>(&frame.promise()) != spared) frame.destroy();
  };
  (destroy(std::get<sizeof...(Index) - 1 - Index>(frames)), ...);
}

template <class... T>
class [[nodiscard]] when_all_awaiter final : private child_observer {
public:
  explicit when_all_awaiter(task_frame<T>... children) noexcept
      : children_(std::move(children)...) {}
  when_all_awaiter(const when_all_awaiter&) = delete;
  when_all_awaiter& operator=(const when_all_awaiter&) = delete;
  ~when_all_awaiter() { destroy_frames(children_, nullptr, std::index_sequence_for<T...>()); }

  [[nodiscard]] bool await_ready() const noexcept { return sizeof...(T) == 0; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) noexcept {
    parent_ = &parent.promise();
    parent_->waiting("all of its callees", where);
    std::apply([this](auto&... child) { (begin(child.promise()), ...); }, children_);
  }
  std::tuple<value_or_unit<T>...> await_resume() {
    const auto values = [](auto&... child) {
      return std::tuple<value_or_unit<T>...>(take_value(child)...);
    };
    return std::apply(values, children_);
  }

private:
  void begin(promise_base& child) noexcept {
    child.start(parent_->queue(), parent_, this);
    parent_->queue().wake(child);
  }
  void finished(promise_base&) noexcept override {
    if (--left_ == 0) parent_->queue().call(*parent_);
  }

  std::tuple<task_frame<T>...> children_;
  promise_base* parent_ = nullptr;
  std::size_t left_ = sizeof...(T);
};

template <class... T>
class [[nodiscard]] first_of_awaiter final : private child_observer {
public:
  using value_type = std::variant<value_or_unit<T>...>;

  explicit first_of_awaiter(task_frame<T>... children) noexcept
      : children_(std::move(children)...) {}
  first_of_awaiter(const first_of_awaiter&) = delete;
  first_of_awaiter& operator=(const first_of_awaiter&) = delete;
  ~first_of_awaiter() { destroy_frames(children_, nullptr, std::index_sequence_for<T...>()); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) noexcept {
    parent_ = &parent.promise();
    parent_->waiting("the first of its callees", where);
    std::apply([this](auto&... child) { (begin(child.promise()), ...); }, children_);
  }
  value_type await_resume() { return take_winner(std::index_sequence_for<T...>()); }

private:
  void begin(promise_base& child) noexcept {
    child.start(parent_->queue(), parent_, this);
    parent_->queue().wake(child);
  }
  /// The losers are gone before anything else runs.
  void finished(promise_base& child) noexcept override {
    winner_ = &child;
    destroy_frames(children_, winner_, std::index_sequence_for<T...>());
    parent_->queue().call(*parent_);
  }
  template <std::size_t... Index>
  value_type take_winner(std::index_sequence<Index...>) {
    std::optional<value_type> value;
    const auto take = [this, &value]<std::size_t Place>() {
      auto& child = std::get<Place>(children_);
      if (child.alive() && static_cast<promise_base*>(&child.promise()) == winner_)
        value.emplace(std::in_place_index<Place>, take_value(child));
    };
    (take.template operator()<Index>(), ...);
    return std::move(*value);
  }

  std::tuple<task_frame<T>...> children_;
  promise_base* parent_ = nullptr;
  promise_base* winner_ = nullptr;
};

/// `result<T>`, and a result stays one.
template <class T>
struct flat_result {
  using type = result<T>;
};
template <class T>
struct flat_result<result<T>> {
  using type = result<T>;
};

/// The error of a deadline that passed, naming what was too slow.
[[nodiscard]] error deadline_error(const promise_base& late, deadline_after limit);
/// The error of one that had passed before its task began.
[[nodiscard]] error deadline_passed_error(const promise_base& unstarted, const run_queue& queue);

template <class T>
class [[nodiscard]] deadline_awaiter final : private child_observer,
                                             private timer_node,
                                             private described_wait {
public:
  using value_type = typename flat_result<T>::type;

  deadline_awaiter(task_frame<T> child, deadline_after limit) noexcept
      : child_(std::move(child)), limit_(limit) {}
  deadline_awaiter(const deadline_awaiter&) = delete;
  deadline_awaiter& operator=(const deadline_awaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) {
    parent_ = &parent.promise();
    parent_->waiting("its callee, with a deadline", where, this);
    run_queue& queue = parent_->queue();
    if (limit_.duration.count() <= 0) {
      late_.emplace(deadline_passed_error(child_.promise(), queue));
      return false;
    }
    child_.promise().start(queue, parent_, this);
    queue.call(child_.promise());
    queue.timers().arm(*this, queue.now() + limit_.duration);
    return true;
  }
  value_type await_resume() {
    if (late_) return value_type(tl::unexpect, std::move(*late_));
    if constexpr (std::is_void_v<T>)
      return value_type();
    else
      return value_type(child_.promise().take());
  }

private:
  void finished(promise_base&) noexcept override {
    disarm();
    parent_->queue().call(*parent_);
  }
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override {
    return "its callee, for at most " + age_text(due() - now);
  }
  void expired() noexcept override {
    late_.emplace(deadline_error(child_.promise(), limit_));
    child_.destroy();
    parent_->queue().wake(*parent_);
  }

  task_frame<T> child_;
  deadline_after limit_;
  promise_base* parent_ = nullptr;
  std::optional<error> late_;
};

/// Where a shielded task leaves its value, for as long as one of both sides is there.
template <class T>
struct shield_state {
  std::optional<value_or_unit<T>> value;
  promise_base* waiting = nullptr;
};

template <class T>
root_task run_shielded(task_frame<T> work, std::shared_ptr<shield_state<T>> state) {
  if constexpr (std::is_void_v<T>) {
    co_await task_awaiter<T>(std::move(work));
    state->value.emplace();
  } else {
    auto value = co_await task_awaiter<T>(std::move(work));
    state->value.emplace(std::move(value));
  }
  if (promise_base* waiting = std::exchange(state->waiting, nullptr))
    waiting->queue().wake(*waiting);
}

template <class T>
class [[nodiscard]] shielded_awaiter final {
public:
  explicit shielded_awaiter(task_frame<T> work) noexcept : work_(std::move(work)) {}
  shielded_awaiter(const shielded_awaiter&) = delete;
  shielded_awaiter& operator=(const shielded_awaiter&) = delete;
  ~shielded_awaiter() {
    if (state_) state_->waiting = nullptr;
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) {
    promise_base& waiting = parent.promise();
    waiting.waiting("a shielded callee", where);
    state_ = std::make_shared<shield_state<T>>();
    state_->waiting = &waiting;
    scope* shield = waiting.queue().shield();
    ensure(shield != nullptr, "shielded is used inside an actor");
    promise_base& root = shield->adopt(run_shielded<T>(std::move(work_), state_));
    root.called_by(&state_->waiting); // In the state, which lives as long as the root's frame.
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return std::move(*state_->value);
  }

private:
  task_frame<T> work_;
  std::shared_ptr<shield_state<T>> state_;
};

} // namespace detail

/// Runs all tasks; gives a tuple of their values (`std::monostate` for void) when the last one
/// has ended.
template <class... T>
[[nodiscard]] detail::when_all_awaiter<T...> when_all(task<T>... tasks) {
  return detail::when_all_awaiter<T...>(detail::frame_of(tasks)...);
}

/// Runs all tasks; gives a variant with the value of the first one that ends. The others are
/// cancelled, the youngest first, and gone before this wait is over.
template <class... T>
[[nodiscard]] detail::first_of_awaiter<T...> first_of(task<T>... tasks) {
  static_assert(sizeof...(T) > 0, "first_of chooses between at least one task");
  return detail::first_of_awaiter<T...>(detail::frame_of(tasks)...);
}

/// Runs one task for at most `limit`; then it is cancelled and the value is errc::timed_out. A
/// limit that is not positive has passed already: the task never begins. A `task<result<T>>` gives
/// one flat `result<T>`.
template <class T>
[[nodiscard]] detail::deadline_awaiter<T> with_deadline(task<T> work, deadline_after limit) {
  return detail::deadline_awaiter<T>(detail::frame_of(work), limit);
}

/// Runs one task that cancellation of the caller does not reach: it belongs to the actor, which
/// waits for it when it stops. For durable steps only; the task must own what it uses.
template <class T>
[[nodiscard]] detail::shielded_awaiter<T> shielded(task<T> work) {
  return detail::shielded_awaiter<T>(detail::frame_of(work));
}

} // namespace weir
