/// A run queue without an actor, with a clock that the test sets: coroutines step by step.
#pragma once

#include "actors/runtime/combinators.hpp"
#include "actors/runtime/run_queue.hpp"
#include "actors/runtime/scope.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace weir::test {

class queue_under_test final : public run_queue_host {
public:
  queue_under_test() : queue(*this), shield(queue), root(queue), turn_(queue) {
    queue.set_shield(&shield);
  }

  /// Resumes until nothing is ready. Bounded: a test that never settles fails.
  void settle() {
    for (int round = 0; round < 1'000'000 && (queue.ready() || queue.deferred()); ++round) {
      queue.drain(10'000);
      queue.next_round();
    }
    ensure(!queue.ready(), "the coroutines of a test settle");
  }
  void advance(std::chrono::nanoseconds by) {
    now += by;
    queue.timers().expire(now);
    settle();
  }

  [[nodiscard]] const std::string& host_name() const override { return name; }
  [[nodiscard]] std::chrono::nanoseconds host_now() const override { return now; }
  void host_failed(error reason) noexcept override { failures.push_back(std::move(reason)); }

  std::string name = "test";
  std::chrono::nanoseconds now{0};
  std::vector<error> failures;
  run_queue queue;
  scope shield;
  scope root;

private:
  run_queue::turn turn_;
};

/// What happened, in order.
using journal = std::vector<std::string>;

/// Says when it is destroyed: the order of unwinding.
class mark {
public:
  mark(journal& log, std::string name) : log_(&log), name_(std::move(name)) {}
  mark(mark&& other) noexcept
      : log_(std::exchange(other.log_, nullptr)), name_(std::move(other.name_)) {}
  mark(const mark&) = delete;
  mark& operator=(const mark&) = delete;
  ~mark() {
    if (log_ != nullptr) log_->push_back("~" + name_);
  }

private:
  journal* log_;
  std::string name_;
};

} // namespace weir::test
