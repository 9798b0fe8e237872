#include "actors/runtime/run_queue.hpp"

#include "actors/runtime/detail/task_dump.hpp"

#include <exception>
#include <map>
#include <utility>

namespace weir {

blocking_pool& run_queue_host::host_pool(work_class /*kind*/) noexcept {
  detail::ensure_failed("only actors offload work", std::source_location::current());
}

namespace detail {

void promise_base::leave() noexcept {
  ensure(queue_->running_ != this, "a coroutine does not destroy itself or the scope that owns it");
  if (called()) parent_->callee_ = nullptr;
  if (queue_->next_ == this) queue_->next_ = nullptr;
  bare_link<ready_tag>::unlink();
  bare_link<live_tag>::unlink();
  // A lease on the heap may outlive the coroutine that put it there; its next holder is unknown.
  if (!queue_->held_.empty()) queue_->forget_holder(*this);
}

void promise_base::start(run_queue& queue, promise_base* parent,
                         child_observer* observer) noexcept {
  queue_ = &queue;
  parent_ = parent;
  observer_ = observer;
  age_ = ++queue.observed_ever_;
  queue.observed_.push_new(*this);
}

void promise_base::complete() noexcept {
  queue_->running_ = nullptr;
  bare_link<live_tag>::unlink();
  observer_->finished(*this); // may have destroyed this frame
}

std::string promise_base::waits_for(std::chrono::nanoseconds now) const {
  if (callee_ != nullptr) return "its callee";
  if (wait_ != nullptr && !ready()) return wait_->describe_wait(now);
  return waits_for_ != nullptr ? waits_for_ : "its turn";
}

namespace {
/// Of a coroutine that has failed: whoever waits for it is destroyed with the actor.
class unheard final : public child_observer {
public:
  static unheard& end() noexcept {
    static unheard only;
    return only;
  }

private:
  void finished(promise_base&) noexcept override {}
};
} // namespace

void promise_base::unhandled_exception() noexcept {
  std::string text = exception_text(std::current_exception());
  text += "; thrown in " + stack_text(*this);
  if (called()) {
    parent_->callee_ = nullptr;
    parent_->waiting("its callee", parent_->waits_at_);
  }
  observer_ = &unheard::end();
  queue_->host_->host_failed(error{errc::internal, std::move(text), queue_->host_->host_name()});
}

} // namespace detail

[[gnu::noinline]] run_queue* run_queue::current() noexcept {
  return detail::current_queue;
}

run_queue::turn::turn(run_queue& queue) noexcept
    : outer_(std::exchange(detail::current_queue, &queue)) {}
run_queue::turn::~turn() {
  detail::current_queue = outer_;
}

run_queue::~run_queue() {
  ensure(observed_.empty(), "every coroutine of an actor ends before the actor");
}

void run_queue::put_back_next() noexcept {
  ready_.push_front(*next_);
}

std::size_t run_queue::drain(std::size_t limit) {
  std::size_t left = limit;
  while (left != 0 && !halted_) {
    detail::promise_base* next = std::exchange(next_, nullptr);
    if (next == nullptr) next = ready_.pop_front();
    if (next == nullptr) break;
    running_ = next;
    running_at_.store(next->made_at_, std::memory_order_relaxed);
    next->coroutine().resume();
    --left;
  }
  running_ = nullptr;
  const std::size_t resumed = limit - left;
  send_collected();
  if (resumed > 0) running_at_.store(std::source_location(), std::memory_order_relaxed);
  return resumed;
}

template <class Visit>
void run_queue::each_live(Visit visit) const {
  observed_.each([&visit](const detail::promise_base& observed) {
    for (const auto* at = &observed; at != nullptr; at = at->callee_)
      visit(*at);
  });
}

std::size_t run_queue::live() const {
  std::size_t count = 0;
  each_live([&count](const detail::promise_base&) { ++count; });
  return count;
}

std::vector<const detail::promise_base*> run_queue::by_age() const {
  // One that was called has the number of the youngest observed one of its time and comes after it;
  // of equal ones the caller comes first.
  std::multimap<std::pair<std::uint64_t, bool>, const detail::promise_base*> sorted;
  each_live([&sorted](const detail::promise_base& task) {
    sorted.emplace(std::pair(task.age_, task.called()), &task);
  });
  std::vector<const detail::promise_base*> all;
  for (const auto& [age, task] : sorted)
    all.push_back(task);
  return all;
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
