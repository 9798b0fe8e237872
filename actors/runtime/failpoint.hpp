/// Named points at which a test, a configuration or the command line makes something go wrong.
///
/// Compiled in always; one relaxed load while none is armed. Process-wide, because code below the
/// actors has them too. A specification is a comma-separated list of
///   name=kill | error | park | delay:50ms      what happens when the point is reached
///   name=kill@3                                only at the third time
///   name=error%20                              every twentieth time
/// kill: SIGKILL, as a crash would. error: errc::io_failed. park: the coroutine waits until it is
/// cancelled (plain code reports an error instead). delay: in ns, us, ms or s.
#pragma once

#include "actors/runtime/deadline.hpp"
#include "messages/error.hpp"

#include <atomic>
#include <string_view>

namespace weir {

/// Arms points; those named before with another action are replaced. On an error nothing changes.
[[nodiscard]] result<void> arm_failpoints(std::string_view specification);
/// Disarms all points and forgets their counts.
void disarm_failpoints();

namespace detail {

extern std::atomic<bool> failpoints_armed;

enum class failpoint_action : std::uint8_t { none, error, park, delay };
struct failpoint_hit {
  failpoint_action action = failpoint_action::none;
  std::chrono::nanoseconds delay{0};
};
/// Counts the hit; kills the process if so armed.
[[nodiscard]] failpoint_hit reach_failpoint(std::string_view name);
[[nodiscard]] result<void> hit_armed_failpoint(std::string_view name);
[[nodiscard]] error failpoint_error(std::string_view name);

class failpoint_awaiter final : private timer_node {
public:
  explicit failpoint_awaiter(std::string_view name) noexcept : name_(name) {}
  failpoint_awaiter(const failpoint_awaiter&) = delete;
  failpoint_awaiter& operator=(const failpoint_awaiter&) = delete;

  [[nodiscard]] bool await_ready() {
    if (!failpoints_armed.load(std::memory_order_relaxed)) [[likely]]
      return true;
    hit_ = reach_failpoint(name_);
    return hit_.action == failpoint_action::none || hit_.action == failpoint_action::error;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) {
    wait(parent.promise(), where);
  }
  /// Not [[nodiscard]]: a point that no error can come from is often only there to kill.
  result<void> await_resume() const {
    if (hit_.action == failpoint_action::error) [[unlikely]]
      return failure(failpoint_error(name_));
    return {};
  }

private:
  void wait(promise_base& parent, std::source_location where);
  void expired() noexcept override;

  std::string_view name_;
  failpoint_hit hit_;
  promise_base* waiting_ = nullptr;
};

} // namespace detail

/// `auto fine = co_await failpoint("replay.commit.before_index");` in coroutines. The name is a
/// literal.
[[nodiscard]] inline detail::failpoint_awaiter failpoint(std::string_view name) noexcept {
  return detail::failpoint_awaiter(name);
}

/// The same in plain code; a delay blocks the thread.
inline result<void> hit_failpoint(std::string_view name) {
  if (!detail::failpoints_armed.load(std::memory_order_relaxed)) [[likely]]
    return {};
  return detail::hit_armed_failpoint(name);
}

} // namespace weir
