#include "actors/runtime/run_queue.hpp"

#include <exception>
#include <map>
#include <set>
#include <utility>
#include <vector>

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

namespace {

std::string place(const std::source_location& where) {
  std::string file = where.file_name();
  return file + ":" + std::to_string(where.line());
}

std::string frame_text(const detail::promise_base& task) {
  std::string text = task.made_at().function_name();
  return text + " [" + place(task.made_at()) + "]";
}

} // namespace

namespace detail {

promise_base::~promise_base() {
  ensure(queue_ == nullptr || queue_->running_ != this,
         "a coroutine does not destroy itself or the scope that owns it");
  // A lease on the heap may outlive the coroutine that put it there; its next holder is unknown.
  if (queue_ != nullptr && !queue_->held_.empty()) queue_->forget_holder(*this);
}

void promise_base::start(run_queue& queue, promise_base* parent,
                         child_observer* observer) noexcept {
  queue_ = &queue;
  parent_ = parent;
  caller_ = &parent_;
  observer_ = observer;
  queue.live_.push_back(*this);
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
  std::string text = "an exception that is not derived from std::exception";
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& thrown) {
    text = thrown.what();
  } catch (...) {
    text += ", thrown by a library";
  }
  text += " (thrown in " + frame_text(*this);
  for (const promise_base* at = caller(); at != nullptr; at = at->caller())
    text += ", called by " + frame_text(*at);
  text += ")";
  queue_->host_->host_failed(error{errc::internal, std::move(text), queue_->host_->host_name()});
}

} // namespace detail

run_queue::~run_queue() {
  ensure(live_.empty(), "every coroutine of an actor ends before the actor");
}

std::size_t run_queue::drain(std::size_t limit) {
  std::size_t resumed = 0;
  while (resumed < limit && !halted_) {
    detail::promise_base* next = ready_.pop_front();
    if (next == nullptr) break;
    running_ = next;
    next->self_.resume();
    running_ = nullptr;
    ++resumed;
  }
  return resumed;
}

namespace {

using children_by_parent =
    std::map<const detail::promise_base*, std::vector<const detail::promise_base*>>;

void describe_tree(std::string& text, const children_by_parent& children,
                   const detail::promise_base& root) {
  std::vector<std::pair<const detail::promise_base*, std::size_t>> pending{{&root, 1}};
  while (!pending.empty()) {
    const auto [task, depth] = pending.back();
    pending.pop_back();
    text.append(2 * depth, ' ').append(frame_text(*task)) += " waits for ";
    text += task->waits_for();
    if (task->waits_at().line() != 0) text += " at " + place(task->waits_at());
    text += "\n";
    const auto below = children.find(task);
    if (below == children.end()) continue;
    for (auto child = below->second.rbegin(); child != below->second.rend(); ++child)
      pending.emplace_back(*child, depth + 1);
  }
}

} // namespace

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
      const std::string text = host_->host_name() + " waits for " + wait + " while it holds " +
                               right.what_ + " (" + place(right.since_) +
                               "): no barrier could pass before; release the lease first";
      detail::ensure_failed(text.c_str(), where);
    });
  }
}

std::string run_queue::describe_tasks() const {
  children_by_parent children;
  std::set<const detail::promise_base*> alive;
  live_.each([&](const detail::promise_base& task) {
    children[task.parent()].push_back(&task);
    alive.insert(&task);
  });
  std::string text = host_->host_name() + "\n";
  live_.each([&](const detail::promise_base& task) {
    // A spawned child outlives the one that spawned it: then it is a root of its own.
    if (task.parent() == nullptr || !alive.contains(task.parent()))
      describe_tree(text, children, task);
  });
  return text;
}

} // namespace weir
