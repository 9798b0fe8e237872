/// A thread that is no actor runs a coroutine on one, and waits for its value.
#pragma once

#include "actors/runtime/combinators.hpp"
#include "actors/runtime/detail/parcel.hpp"

#include <functional>
#include <future>
#include <tuple>

namespace weir::detail {

template <class T>
[[nodiscard]] bool is_ready(const std::future<T>& outcome) {
  return outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// Sets the outcome once; destroyed without (the coroutine was cancelled), it says so.
template <class Outcome>
class outcome_guard {
public:
  outcome_guard() = default;
  outcome_guard(outcome_guard&& other) noexcept
      : outcome_(std::move(other.outcome_)), owed_(std::exchange(other.owed_, false)) {}
  outcome_guard& operator=(outcome_guard&&) = delete;
  ~outcome_guard() {
    if (owed_) outcome_.set_value(failure(errc::cancelled, "the graph was stopped"));
  }
  [[nodiscard]] std::future<Outcome> outcome() { return outcome_.get_future(); }
  void set(Outcome value) {
    owed_ = false;
    outcome_.set_value(std::move(value));
  }

private:
  std::promise<Outcome> outcome_;
  bool owed_ = true;
};

template <class Callable, class... Args>
class blocking_call final : public posted_call {
public:
  using value_type = typename std::invoke_result_t<Callable, Args...>::value_type;
  using outcome_type = typename flat_result<value_type>::type;

  blocking_call(scope& where, Callable callable, Args... args)
      : scope_(where), callable_(std::move(callable)), args_(std::move(args)...) {}

  [[nodiscard]] std::future<outcome_type> outcome() { return guard_.outcome(); }
  void run(actor*) noexcept override {
    const auto start = [this](auto&... arg) {
      scope_.adopt(finish(std::move(guard_), std::move(callable_), std::move(arg)...));
    };
    std::apply(start, args_);
  }

private:
  static root_task finish(outcome_guard<outcome_type> outcome, Callable callable, Args... args) {
    if constexpr (std::is_void_v<value_type>) {
      co_await std::invoke(std::move(callable), std::move(args)...);
      outcome.set(outcome_type());
    } else {
      auto value = co_await std::invoke(std::move(callable), std::move(args)...);
      outcome.set(outcome_type(std::move(value)));
    }
  }

  scope& scope_;
  Callable callable_;
  std::tuple<Args...> args_;
  outcome_guard<outcome_type> guard_;
};

} // namespace weir::detail
