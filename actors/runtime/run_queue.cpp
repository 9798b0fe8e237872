#include "actors/runtime/run_queue.hpp"

#include "actors/runtime/detail/task_dump.hpp"

#include <exception>
#include <utility>

namespace weir {

blocking_pool& run_queue_host::host_pool() noexcept {
  detail::ensure_failed("only actors offload work", std::source_location::current());
}

namespace {
// The only thread-local of the runtime: an allocation function of a coroutine has no other way to
// learn whose turn it is. Read through an opaque call, because a coroutine may continue on another
// thread and must not keep the address.
thread_local run_queue* current_queue = nullptr;
} // namespace

[[gnu::noinline]] run_queue* run_queue::current() noexcept {
  return current_queue;
}

run_queue::turn::turn(run_queue& queue) noexcept : outer_(std::exchange(current_queue, &queue)) {}
run_queue::turn::~turn() {
  current_queue = outer_;
}

namespace detail {

promise_base::~promise_base() {
  if (queue_ == nullptr) return;
  ensure(queue_->running_ != this, "a coroutine does not destroy itself or the scope that owns it");
  if (queue_->next_ == this) queue_->next_ = nullptr;
  // A lease on the heap may outlive the coroutine that put it there; its next holder is unknown.
  if (!queue_->held_.empty()) queue_->forget_holder(*this);
}

void promise_base::start(run_queue& queue, promise_base* parent,
                         child_observer* observer) noexcept {
  queue_ = &queue;
  parent_ = parent;
  caller_ = &parent_;
  observer_ = observer;
  queue.live_.push_new(*this);
}

void promise_base::complete() noexcept {
  run_queue& queue = *queue_;
  queue.running_ = nullptr;
  link<live_tag>::unlink();
  if (failed_) return;
  if (observer_ != nullptr)
    observer_->finished(*this); // may have destroyed this frame
  else
    queue.call(*parent_);
}

void promise_base::unhandled_exception() noexcept {
  failed_ = true;
  std::string text = exception_text(std::current_exception());
  text += "; thrown in " + stack_text(*this);
  queue_->host_->host_failed(error{errc::internal, std::move(text), queue_->host_->host_name()});
}

} // namespace detail

run_queue::~run_queue() {
  ensure(live_.empty(), "every coroutine of an actor ends before the actor");
}

std::size_t run_queue::drain(std::size_t limit) {
  std::size_t resumed = 0;
  while (resumed < limit && !halted_) {
    detail::promise_base* next = std::exchange(next_, nullptr);
    if (next == nullptr) next = ready_.pop_front();
    if (next == nullptr) break;
    running_ = next;
    running_at_.store(next->made_at_, std::memory_order_relaxed);
    next->wait_ = nullptr;
    next->self_.resume();
    running_ = nullptr;
    ++resumed;
  }
  send_collected();
  if (resumed > 0) running_at_.store(std::source_location(), std::memory_order_relaxed);
  return resumed;
}

void run_queue::hold(detail::held_right& right, const char* what,
                     std::source_location since) noexcept {
  right.holder_ = running_;
  right.what_ = what;
  right.since_ = since;
  held_.push_back(right);
}

void run_queue::forget_holder(const detail::promise_base& gone) noexcept {
  held_.each([&gone](detail::held_right& right) {
    if (right.holder_ == &gone) right.holder_ = nullptr;
  });
}

void run_queue::check_held(const char* wait, std::source_location where) const {
  for (const detail::promise_base* at = running_; at != nullptr; at = at->caller()) {
    held_.each([&](const detail::held_right& right) {
      if (right.holder_ != at) return;
      const bool known = right.since_.line() != 0;
      const std::string place_since =
          known ? " (" + detail::short_place(right.since_) + ")" : std::string();
      const std::string text = host_->host_name() + " waits for " + wait + " while it holds " +
                               right.what_ + place_since +
                               ": no barrier could pass before; release the lease first";
      detail::ensure_failed(text.c_str(), where);
    });
  }
}

} // namespace weir
