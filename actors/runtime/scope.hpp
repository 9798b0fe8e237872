/// Structured concurrency: children that never outlive the scope that started them.
#pragma once

#include "actors/runtime/detail/wait_list.hpp"
#include "actors/runtime/task.hpp"

#include <functional>
#include <type_traits>

namespace weir {

class scope;

namespace detail {

/// Waits until a scope has no child.
class [[nodiscard]] joined_awaiter final : public wait_node {
public:
  explicit joined_awaiter(scope& joined) noexcept : scope_(joined) {}
  joined_awaiter(const joined_awaiter&) = delete;
  joined_awaiter& operator=(const joined_awaiter&) = delete;
  [[nodiscard]] bool await_ready() const noexcept;
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) noexcept {
    enter(parent.promise(), where);
  }
  void await_resume() const noexcept {}

private:
  void enter(promise_base& waiting, std::source_location where) noexcept;
  scope& scope_;
};

/// The frame of a spawned child: it owns the callable and its arguments.
template <class Callable, class... Args>
root_task run_child(Callable callable, Args... args) {
  co_await std::invoke(std::move(callable), std::move(args)...);
}

/// A function whose frame owns all that it is given: it needs no frame around it.
template <class Callable>
inline constexpr bool owns_arguments = false;
template <class... Args>
inline constexpr bool owns_arguments<task<void> (*)(Args...)> = (!std::is_reference_v<Args> && ...);
template <class Object, class... Args>
inline constexpr bool owns_arguments<task<void> (Object::*)(Args...)> =
    (!std::is_reference_v<Args> && ...);
template <class Object, class... Args>
inline constexpr bool owns_arguments<task<void> (Object::*)(Args...) const> =
    (!std::is_reference_v<Args> && ...);

} // namespace detail

/// Owns the coroutines that are spawned in it. A child that ends leaves by itself; the destructor
/// cancels the rest, and they are gone when it returns. Lives in a coroutine's frame or in an
/// actor, never elsewhere; used on that actor's turn.
class scope final : private detail::child_observer {
public:
  /// A scope of the actor whose turn this is.
  scope() noexcept;
  explicit scope(run_queue& queue) noexcept : queue_(queue) {}
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  ~scope() { cancel(); }

  /// Starts `callable(args...)`, which returns `task<void>`, in this actor's next free moment.
  /// Callable and arguments are moved into the child's frame; a member function takes the object's
  /// pointer as its first argument, and the object must outlive the scope.
  template <class Callable, class... Args>
  void spawn(Callable callable, Args... args) {
    static_assert(std::is_invocable_v<Callable, Args...>,
                  "a spawned callable takes the arguments that are passed with it");
    if constexpr (std::is_invocable_v<Callable, Args...>) {
      static_assert(std::is_same_v<std::invoke_result_t<Callable, Args...>, task<void>>,
                    "a spawned callable returns task<void>");
      if constexpr (detail::owns_arguments<Callable>)
        adopt(std::invoke(callable, std::move(args)...));
      else
        adopt(detail::run_child(std::move(callable), std::move(args)...));
    }
  }

  /// Destroys all children, youngest first. Not to be called by one of them.
  void cancel() noexcept;

  /// Suspends until no child is left. Woken by the last child; a cancelled wait leaves the
  /// children running, owned by the scope.
  [[nodiscard]] detail::joined_awaiter joined() noexcept { return detail::joined_awaiter(*this); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] run_queue& queue() const noexcept { return queue_; }

  /// Takes over a coroutine that was made for it; for the runtime's own coroutines.
  detail::promise_base& adopt(detail::root_task child) noexcept { return adopt(child.release()); }
  detail::promise_base& adopt(task<void> child) noexcept {
    return adopt(detail::frame_of(child).release());
  }

private:
  friend class detail::joined_awaiter;

  void finished(detail::promise_base& child) noexcept override;
  detail::promise_base& adopt(detail::child_promise& child) noexcept;
  void forget(detail::child_promise& child) noexcept;

  run_queue& queue_;
  detail::link_list<detail::child_promise, detail::sibling_tag> children_;
  detail::wait_list<detail::joined_awaiter> waiting_;
  std::size_t size_ = 0;
};

} // namespace weir
