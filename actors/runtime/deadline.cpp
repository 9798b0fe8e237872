#include "actors/runtime/deadline.hpp"

#include "actors/runtime/combinators.hpp"

#include <array>
#include <utility>

namespace weir {

std::string to_string(deadline_after limit) {
  constexpr std::array<std::pair<std::int64_t, const char*>, 3> units{{
      {1'000'000'000, " s"},
      {1'000'000, " ms"},
      {1'000, " us"},
  }};
  const std::int64_t count = limit.duration.count();
  for (const auto& [size, name] : units) {
    if (count != 0 && count % size == 0) return std::to_string(count / size) + name;
  }
  return std::to_string(count) + " ns";
}

namespace detail {

void sleep_awaiter::enter(promise_base& sleeper, std::source_location where) {
  sleeper.waiting("a time", where, this);
  sleeper_ = &sleeper;
  run_queue& queue = sleeper.queue();
  queue.timers().arm(*this, queue.now() + duration_);
}

error deadline_error(const promise_base& late, deadline_after limit) {
  std::string text = short_function(late.made_at().function_name());
  text += " did not end within " + to_string(limit) + "; it waited for ";
  text += late.waits_for(late.queue().now());
  return error{errc::timed_out, std::move(text), late.queue().host().host_name()};
}

error deadline_passed_error(const promise_base& unstarted, const run_queue& queue) {
  std::string text = short_function(unstarted.made_at().function_name());
  text += " did not begin: its deadline had passed already";
  return error{errc::timed_out, std::move(text), queue.host().host_name()};
}

std::string sleep_awaiter::describe_wait(std::chrono::nanoseconds now) const {
  return "a time in " + age_text(due() - now);
}

void sleep_awaiter::expired() noexcept {
  sleeper_->queue().wake(*sleeper_);
}

} // namespace detail
} // namespace weir
