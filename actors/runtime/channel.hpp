/// `channel<T>`: a bounded queue between coroutines of one actor; `signal`: "look again".
///
/// A value is handed over exactly once, also under cancellation: a value that was given to a
/// waiting reader whose frame dies before it ran returns to the front of the channel.
#pragma once

#include "actors/runtime/detail/wait_list.hpp"
#include "messages/error.hpp"

#include <deque>
#include <optional>

namespace weir {

template <class T>
class channel;

namespace detail {

template <class T>
class [[nodiscard]] next_awaiter final : public wait_node {
public:
  explicit next_awaiter(channel<T>& from) noexcept : from_(from) {}
  next_awaiter(const next_awaiter&) = delete;
  next_awaiter& operator=(const next_awaiter&) = delete;
  ~next_awaiter() {
    if (given_) from_.take_back(std::move(*given_));
  }

  [[nodiscard]] bool await_ready() {
    given_ = from_.try_next();
    return given_.has_value() || from_.closed();
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> reader,
                     std::source_location where = std::source_location::current()) noexcept {
    suspend(reader.promise(), "the next value of a channel", where);
    from_.readers_.push_back(*this);
  }
  std::optional<T> await_resume() { return std::exchange(given_, std::nullopt); }

private:
  friend class channel<T>;

  channel<T>& from_;
  std::optional<T> given_;
};

template <class T>
class [[nodiscard]] push_awaiter final : public wait_node {
public:
  push_awaiter(channel<T>& to, T value) noexcept : to_(to), value_(std::move(value)) {}
  push_awaiter(const push_awaiter&) = delete;
  push_awaiter& operator=(const push_awaiter&) = delete;

  [[nodiscard]] bool await_ready() {
    pushed_ = to_.offer(value_);
    return pushed_ || to_.closed();
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> writer,
                     std::source_location where = std::source_location::current()) noexcept {
    suspend(writer.promise(), "room in a channel", where);
    to_.writers_.push_back(*this);
  }
  /// True when the value was taken; false when the channel was closed first.
  [[nodiscard]] bool await_resume() const noexcept { return pushed_; }

private:
  friend class channel<T>;

  channel<T>& to_;
  T value_;
  bool pushed_ = false;
};

} // namespace detail

template <class T>
class channel {
public:
  /// At most `capacity` values wait in the channel. @pre capacity > 0
  explicit channel(std::size_t capacity) : capacity_(capacity) {
    ensure(capacity > 0, "a channel holds at least one value");
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  /// Suspends until there is room; true when the value went in, false when the channel is closed.
  /// A cancelled push has not put its value in, or has put it in once.
  [[nodiscard]] detail::push_awaiter<T> push(T value) noexcept {
    return detail::push_awaiter<T>(*this, std::move(value));
  }
  /// Suspends until there is a value, first come first served; nullopt when the channel is closed
  /// and empty.
  [[nodiscard]] detail::next_awaiter<T> next() noexcept { return detail::next_awaiter<T>(*this); }

  /// False when the channel is full or closed: the value is not taken then.
  [[nodiscard]] bool try_push(T value) { return offer(value); }
  [[nodiscard]] std::optional<T> try_next() {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    admit_writer();
    return value;
  }
  /// No value goes in any more; those inside can still be taken. Waiting writers get false.
  void close() noexcept {
    closed_ = true;
    while (auto* writer = writers_.pop_front())
      writer->wake();
    if (!values_.empty()) return;
    while (auto* reader = readers_.pop_front())
      reader->wake();
  }
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

private:
  friend class detail::next_awaiter<T>;
  friend class detail::push_awaiter<T>;

  /// Moves from `value` only when it is taken.
  [[nodiscard]] bool offer(T& value) {
    if (closed_) return false;
    if (auto* reader = readers_.front()) {
      reader->given_.emplace(std::move(value));
      reader->wake();
      return true;
    }
    if (values_.size() >= capacity_) return false;
    values_.push_back(std::move(value));
    return true;
  }
  void admit_writer() {
    auto* writer = writers_.front();
    if (writer == nullptr || values_.size() >= capacity_) return;
    values_.push_back(std::move(writer->value_));
    writer->pushed_ = true;
    writer->wake();
  }
  void take_back(T value) {
    if (auto* reader = readers_.front()) {
      reader->given_.emplace(std::move(value));
      reader->wake();
      return;
    }
    values_.push_front(std::move(value));
  }

  std::size_t capacity_;
  std::deque<T> values_;
  detail::wait_list<detail::next_awaiter<T>> readers_;
  detail::wait_list<detail::push_awaiter<T>> writers_;
  bool closed_ = false;
};

class signal;

namespace detail {

class [[nodiscard]] raised_awaiter final : public wait_node {
public:
  explicit raised_awaiter(signal& raised) noexcept : signal_(raised) {}
  raised_awaiter(const raised_awaiter&) = delete;
  raised_awaiter& operator=(const raised_awaiter&) = delete;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiter,
                     std::source_location where = std::source_location::current()) noexcept;
  void await_resume() const noexcept {}

private:
  signal& signal_;
};

} // namespace detail

/// Wakes everyone who waits at this moment, to look at the state again:
/// `while (!state_.can_admit()) co_await changed_.raised();`. Remembers nothing.
class signal {
public:
  signal() = default;
  signal(const signal&) = delete;
  signal& operator=(const signal&) = delete;

  [[nodiscard]] detail::raised_awaiter raised() noexcept { return detail::raised_awaiter(*this); }
  void raise() noexcept {
    while (auto* waiter = waiting_.pop_front())
      waiter->wake();
  }

private:
  friend class detail::raised_awaiter;
  detail::wait_list<detail::raised_awaiter> waiting_;
};

namespace detail {
template <class Promise>
void raised_awaiter::await_suspend(std::coroutine_handle<Promise> waiter,
                                   std::source_location where) noexcept {
  suspend(waiter.promise(), "a signal", where);
  signal_.waiting_.push_back(*this);
}
} // namespace detail

} // namespace weir
