#include "actors/runtime/scope.hpp"

namespace weir {

namespace detail {

bool joined_awaiter::await_ready() const noexcept {
  return scope_.size() == 0;
}

void joined_awaiter::enter(promise_base& waiting, std::source_location where) noexcept {
  suspend(waiting, "the children of a scope", where);
  scope_.waiting_.push_back(*this);
}

} // namespace detail

namespace {
run_queue& queue_of_this_turn() noexcept {
  run_queue* queue = run_queue::current();
  ensure(queue != nullptr, "a scope is made on an actor's turn");
  return *queue;
}
} // namespace

scope::scope() noexcept : queue_(queue_of_this_turn()) {}

detail::promise_base& scope::adopt(detail::child_promise& child) noexcept {
  child.start(queue_, queue_.running(), this);
  child.called_by(nullptr);
  children_.push_back(child);
  ++size_;
  queue_.wake(child);
  return child;
}

void scope::forget(detail::child_promise& child) noexcept {
  static_cast<detail::link<detail::sibling_tag>&>(child).unlink();
  --size_;
  child.destroy();
}

void scope::finished(detail::promise_base& child) noexcept {
  forget(static_cast<detail::child_promise&>(child));
  if (size_ != 0) return;
  while (auto* waiter = waiting_.pop_front())
    waiter->wake();
}

void scope::cancel() noexcept {
  while (auto* child = children_.back())
    forget(*child);
  while (auto* waiter = waiting_.pop_front())
    waiter->wake();
}

} // namespace weir
