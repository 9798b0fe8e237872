/// `completion<T>`: a value that a foreign thread hands to a coroutine, through the mailbox.
///
/// For callbacks of devices and libraries. The setter may be copied, called from any thread, and
/// outlive everything; the first `set` counts. The value is posted, never resumed in place.
#pragma once

#include "actors/runtime/detail/address.hpp"
#include "actors/runtime/detail/ask_table.hpp"
#include "actors/runtime/detail/wait_list.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace weir {

namespace detail {

/// Shared by the completion and its setters. `value` is written by the one that wins `claimed`, and
/// read on the actor's turn after the post.
template <class T>
class completion_state {
public:
  /// `fatal`: an error fails the actor instead of reaching the one who waits.
  explicit completion_state(address owner, bool fatal = false) noexcept
      : owner_(std::move(owner)), fatal_(fatal) {}

  [[nodiscard]] bool claim() noexcept { return !claimed_.exchange(true); }
  void put(result<T> value) { value_.emplace(std::move(value)); }
  [[nodiscard]] const address& owner() const noexcept { return owner_; }

  // On the turn only.
  void deliver() noexcept {
    delivered_ = true;
    promise_base* waiting = std::exchange(waiting_, nullptr);
    if (waiting == nullptr) return;
    if (fatal_ && !value_->has_value())
      waiting->queue().host().host_failed(value_->error());
    else
      waiting->queue().wake(*waiting);
  }
  [[nodiscard]] bool delivered() const noexcept { return delivered_; }
  void wait(promise_base* waiting) noexcept { waiting_ = waiting; }
  [[nodiscard]] result<T> take() { return std::move(*value_); }

private:
  address owner_;
  bool fatal_;
  std::atomic<bool> claimed_ = false;
  std::optional<result<T>> value_;
  promise_base* waiting_ = nullptr;
  bool delivered_ = false;
};

template <class T>
class delivery final : public posted_call {
public:
  explicit delivery(std::shared_ptr<completion_state<T>> state) noexcept
      : state_(std::move(state)) {}
  void run(actor*) noexcept override { state_->deliver(); }

private:
  std::shared_ptr<completion_state<T>> state_;
};

template <class T>
void complete(const std::shared_ptr<completion_state<T>>& state, result<T> value) {
  if (!state->claim()) return;
  state->put(std::move(value));
  parcel sent;
  sent.kind = parcel_kind::call;
  sent.posted = std::make_shared<delivery<T>>(state);
  post(state->owner(), address(), std::move(sent));
}

/// What the copies of a setter share: the last one to go without a value says so.
template <class T>
class setter_state {
public:
  explicit setter_state(std::shared_ptr<completion_state<T>> state) noexcept
      : state_(std::move(state)) {}
  setter_state(const setter_state&) = delete;
  setter_state& operator=(const setter_state&) = delete;
  ~setter_state() {
    complete<T>(state_, failure(errc::unavailable, "the completion was dropped without a value"));
  }
  void set(result<T> value) { complete<T>(state_, std::move(value)); }

private:
  std::shared_ptr<completion_state<T>> state_;
};

template <class T>
class [[nodiscard]] completion_awaiter final {
public:
  explicit completion_awaiter(std::shared_ptr<completion_state<T>> state) noexcept
      : state_(std::move(state)) {}
  completion_awaiter(const completion_awaiter&) = delete;
  completion_awaiter& operator=(const completion_awaiter&) = delete;
  ~completion_awaiter() { state_->wait(nullptr); }

  [[nodiscard]] bool await_ready() const noexcept { return state_->delivered(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> parent,
                     std::source_location where = std::source_location::current()) noexcept {
    promise_base& waiting = parent.promise();
    waiting.waiting("a completion from outside", where);
    state_->wait(&waiting);
  }
  [[nodiscard]] result<T> await_resume() { return state_->take(); }

private:
  std::shared_ptr<completion_state<T>> state_;
};

/// The actor whose turn this is.
[[nodiscard]] address self_of_this_turn();

} // namespace detail

/// Sets a completion from any thread. Copyable; the first value counts. When the last copy is
/// destroyed without one, the wait ends with errc::unavailable.
template <class T>
class completion_setter {
public:
  explicit completion_setter(std::shared_ptr<detail::completion_state<T>> state)
      : shared_(std::make_shared<detail::setter_state<T>>(std::move(state))) {}
  void set(T value) const { shared_->set(std::move(value)); }
  void fail(error reason) const { shared_->set(failure(std::move(reason))); }

private:
  std::shared_ptr<detail::setter_state<T>> shared_;
};

/// The waiting side; lives on the actor. Waited for once.
template <class T>
class completion {
public:
  explicit completion(std::shared_ptr<detail::completion_state<T>> state) noexcept
      : state_(std::move(state)) {}
  completion(completion&&) noexcept = default;
  completion& operator=(completion&&) = delete;
  ~completion() = default;

  /// Made once for each call that is handed out: its copies share it.
  [[nodiscard]] completion_setter<T> setter() const { return completion_setter<T>(state_); }
  /// Suspends until a value was set. Cancelling leaves the foreign work to finish: it owns what it
  /// uses, and its value is dropped.
  [[nodiscard]] detail::completion_awaiter<T> wait() noexcept {
    return detail::completion_awaiter<T>(state_);
  }

private:
  std::shared_ptr<detail::completion_state<T>> state_;
};

/// A completion of the actor whose turn this is.
template <class T>
[[nodiscard]] completion<T> make_completion() {
  return completion<T>(std::make_shared<detail::completion_state<T>>(detail::self_of_this_turn()));
}

} // namespace weir
