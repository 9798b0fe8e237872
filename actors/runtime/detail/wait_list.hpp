/// The base of awaiters that wait in line: a node that knows which coroutine waits.
#pragma once

#include "actors/runtime/run_queue.hpp"

namespace weir::detail {

struct wait_tag;

/// A suspended coroutine in somebody's line. Destroying it (the awaiting frame dies) leaves the
/// line; waking it makes the coroutine ready on its own actor's queue.
class wait_node : public link<wait_tag> {
public:
  wait_node() = default;

  /// Remembers who waits, and for what: a literal, or what `described` says.
  void suspend(promise_base& waiting, const char* what, std::source_location where,
               const described_wait* described = nullptr) noexcept {
    waiting_ = &waiting;
    waiting.waiting(what, where, described);
  }
  [[nodiscard]] bool suspended() const noexcept { return waiting_ != nullptr; }
  [[nodiscard]] promise_base& waiting() const noexcept { return *waiting_; }
  /// Leaves the line and makes the coroutine ready, once.
  void wake() noexcept {
    link<wait_tag>::unlink();
    if (promise_base* ready = std::exchange(waiting_, nullptr)) ready->queue().wake(*ready);
  }

private:
  promise_base* waiting_ = nullptr;
};

template <class Node>
using wait_list = link_list<Node, wait_tag>;

} // namespace weir::detail
