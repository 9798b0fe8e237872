/// The asks of one actor that wait for an answer.
///
/// A slot has an index and a generation; both make the request id, so that an answer finds its
/// slot without a search, is never matched by order, and one that comes too late is recognized,
/// counted and dropped. A slot outlives its asker only while a lease hangs on it.
#pragma once

#include "actors/runtime/deadline.hpp"
#include "actors/runtime/detail/address.hpp"
#include "actors/runtime/detail/reply_memory.hpp"
#include "actors/runtime/gate.hpp"

#include <deque>
#include <vector>

namespace weir {
struct long_wait;
} // namespace weir

namespace weir::detail {

class ask_table;

/// For relays alone: what they pass on under a lease waits for its answer, however late.
inline constexpr deadline_after unlimited{std::chrono::nanoseconds::max()};

/// The part of an ask's awaiter that does not depend on the reply: request, deadline, outcome.
class ask_waiter : private timer_node, private described_wait {
public:
  ask_waiter(address to, payload_ptr request, deadline_after limit, lease_hold hold) noexcept
      : to_(std::move(to)), request_(std::move(request)), limit_(limit), hold_(std::move(hold)) {}
  ask_waiter(const ask_waiter&) = delete;
  ask_waiter& operator=(const ask_waiter&) = delete;
  ~ask_waiter() override;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> asking,
                     std::source_location where = std::source_location::current()) {
    begin(asking.promise(), where);
  }

protected:
  /// The reply's payload, or why there is none, with who was asked for what.
  [[nodiscard]] result<payload_ptr> take_outcome();
  /// Sends under somebody else's envelope: sender, life, lease and deadline stay theirs.
  void pass_on(const envelope& theirs) noexcept { passed_on_ = &theirs; }

private:
  friend class ask_table;

  void begin(promise_base& asking, std::source_location where);
  void settle(answer given) noexcept;
  void expired() noexcept override;
  [[nodiscard]] std::string described() const;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;

  address to_;
  payload_ptr request_;
  deadline_after limit_;
  lease_hold hold_;
  const envelope* passed_on_ = nullptr;
  ask_table* table_ = nullptr;
  std::uint32_t slot_ = 0;
  promise_base* asking_ = nullptr;
  answer outcome_;
};

class ask_table {
public:
  ask_table(run_queue& queue, shared_name asker, incarnation life) noexcept
      : queue_(queue), asker_(std::move(asker)), life_(life) {}
  ask_table(const ask_table&) = delete;
  ask_table& operator=(const ask_table&) = delete;
  /// Forgets what leases still wait for: the actor is gone.
  ~ask_table() = default;

  void set_self(address self) noexcept { self_ = std::move(self); }
  [[nodiscard]] const address& self() const noexcept { return self_; }
  [[nodiscard]] const shared_name& asker() const noexcept { return asker_; }
  [[nodiscard]] incarnation life() const noexcept { return life_; }

  /// An answer came. Unknown ids are counted and dropped.
  void answered(std::uint64_t request_id, answer given);

  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  [[nodiscard]] std::uint64_t late_answers() const noexcept { return late_answers_; }
  /// Adds the asks that are older.
  void add_waits(std::chrono::nanoseconds age, std::vector<long_wait>& waits) const;

private:
  friend class ask_waiter;

  struct slot {
    ask_waiter* waiter = nullptr; ///< Null once the asker is gone.
    lease_hold hold;
    address to;
    message_type type;
    std::chrono::nanoseconds since{0};
    std::uint32_t generation = 0; ///< Another one for each use.
    bool used = false;
  };

  [[nodiscard]] std::uint32_t open(ask_waiter& waiter);
  void send(const ask_waiter& waiter, std::uint32_t index);
  /// The asker does not wait any more; under a lease the slot stays until the answer.
  void abandon(std::uint32_t index) noexcept;
  void close(std::uint32_t index) noexcept;

  run_queue& queue_;
  shared_name asker_;
  incarnation life_;
  address self_;
  std::deque<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t pending_ = 0;
  std::uint64_t late_answers_ = 0;
};

} // namespace weir::detail
