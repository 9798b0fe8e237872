/// The entrance to mutations of one origin, and the lease that it gives out.
///
/// `auto lease = co_await mutations().enter();` suspends while a barrier holds the gate, first come
/// first served. A lease is the right to send mutating requests: `ask` takes it as first argument
/// and stamps the frame.
///
/// A lease is never held across a wait that another lease could block, nor across generation,
/// transfers or disk. Calling `enter`, `offload`, or `next` and `push` of streams is a bug: it ends
/// the process where
///   - the coroutine that calls, or one that waits for it through `co_await`, a combinator or
///     `shielded`, still has the lease that `enter` gave it; or
///   - it answers a mutating request, which runs under the lease of another actor.
/// A lease that was moved has no known holder from then on, nor has one of `try_enter`; a child
/// that is spawned and joined does not count as called. Those are for the reviewer to see.
#pragma once

#include "actors/runtime/detail/wait_list.hpp"
#include "actors/runtime/gate_state.hpp"
#include "actors/runtime/task.hpp"
#include "messages/frame.hpp"

#include <memory>
#include <optional>
#include <string>

namespace weir {

class mutation_gate;

namespace detail {
class enter_awaiter;
} // namespace detail

/// The right to perform one mutation transaction. Move-only, counted by its gate; the destructor
/// releases. A transaction of more than one request runs in `shielded`, so that cancelling the
/// caller cannot leave it half done.
class [[nodiscard]] lease {
public:
  lease(const lease&) = delete;            // a lease is counted: it can be moved, never copied
  lease& operator=(const lease&) = delete; // a lease is counted: it can be moved, never copied
  lease(lease&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)), transaction_(other.transaction_) {
    other.holding_.drop();
  }
  lease& operator=(lease&& other) noexcept;
  ~lease() { release(); }

  /// Ends the right to send under it. Calling it again does nothing.
  void release() noexcept;
  [[nodiscard]] bool held() const noexcept { return gate_ != nullptr; }
  [[nodiscard]] std::uint64_t transaction() const noexcept { return transaction_; }

private:
  friend class mutation_gate;
  friend class lease_hold;
  friend class detail::enter_awaiter;

  lease(mutation_gate& gate, std::uint64_t transaction) noexcept
      : gate_(&gate), transaction_(transaction) {}
  /// For the coroutine that runs, until it is moved or released.
  lease(lease&& given, run_queue& queue, std::source_location since) noexcept
      : lease(std::move(given)) {
    queue.hold(holding_, "a lease", since);
  }

  mutation_gate* gate_;
  std::uint64_t transaction_;
  detail::held_right holding_;
};

/// A request that was sent under a lease and is not answered: what keeps the transaction unsettled
/// after the one who asked is gone. For the runtime's own use.
class lease_hold {
public:
  lease_hold() = default;
  /// Counts one request and numbers it. @pre the lease is held
  explicit lease_hold(const lease& under);
  lease_hold(lease_hold&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)), stamp_(std::move(other.stamp_)) {}
  lease_hold& operator=(lease_hold&& other) noexcept;
  ~lease_hold() { answered(); }

  void answered() noexcept;
  [[nodiscard]] bool present() const noexcept { return gate_ != nullptr; }
  /// @pre present
  [[nodiscard]] const lease_stamp& stamp() const noexcept { return *stamp_; }

private:
  mutation_gate* gate_ = nullptr;
  std::unique_ptr<lease_stamp> stamp_; ///< Apart: most pending asks have none.
};

/// The lease under which a request came, as its handler sees it. Counts nothing and is valid for
/// that handler only.
class lease_ref {
public:
  explicit lease_ref(lease_stamp stamp) noexcept : stamp_(std::move(stamp)) {}

  [[nodiscard]] const std::string& origin() const noexcept { return *stamp_.origin; }
  [[nodiscard]] std::uint64_t instance() const noexcept { return stamp_.instance; }
  [[nodiscard]] std::uint64_t transaction() const noexcept { return stamp_.transaction; }
  [[nodiscard]] std::uint32_t step() const noexcept { return stamp_.step; }
  /// The newest epoch that the origin knew when it sent.
  [[nodiscard]] epoch_id epoch() const noexcept { return stamp_.epoch; }

private:
  lease_stamp stamp_;
};

namespace detail {

class [[nodiscard]] enter_awaiter final : public wait_node, private described_wait {
public:
  enter_awaiter(mutation_gate& gate, std::source_location where) noexcept
      : gate_(gate), where_(where) {}
  enter_awaiter(const enter_awaiter&) = delete;
  enter_awaiter& operator=(const enter_awaiter&) = delete;
  [[nodiscard]] bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> entering,
                     std::source_location where = std::source_location::current()) noexcept {
    wait(entering.promise(), where);
  }
  lease await_resume() noexcept;

private:
  friend class weir::mutation_gate;
  void wait(promise_base& entering, std::source_location where) noexcept;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;

  mutation_gate& gate_;
  std::source_location where_;
  std::optional<lease> given_;
};

class [[nodiscard]] quiesced_awaiter final : public wait_node, private described_wait {
public:
  quiesced_awaiter(mutation_gate& gate, epoch_id epoch) noexcept : gate_(gate), epoch_(epoch) {}
  quiesced_awaiter(const quiesced_awaiter&) = delete;
  quiesced_awaiter& operator=(const quiesced_awaiter&) = delete;
  [[nodiscard]] bool await_ready() const noexcept;
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting,
                     std::source_location where = std::source_location::current()) noexcept {
    wait(waiting.promise(), where);
  }
  [[nodiscard]] result<void> await_resume() const;

private:
  friend class weir::mutation_gate;
  void wait(promise_base& waiting, std::source_location where) noexcept;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;

  mutation_gate& gate_;
  epoch_id epoch_;
};

} // namespace detail

class mutation_gate : private detail::timer_node {
public:
  /// `instance` numbers the lives of this origin: owners refuse what an older one sends.
  mutation_gate(run_queue& queue, shared_name origin, std::uint64_t instance);
  mutation_gate(const mutation_gate&) = delete;
  mutation_gate& operator=(const mutation_gate&) = delete;
  /// @pre every lease was released, and what was sent under it answered or given up
  ~mutation_gate() override;

  /// Suspends until the gate is open and everyone before has entered. Cancelling leaves the line,
  /// or gives back the lease that was just given. @pre the caller holds no lease
  [[nodiscard]] detail::enter_awaiter
  enter(std::source_location where = std::source_location::current()) noexcept {
    queue_.ensure_nothing_held("an open mutation gate", where);
    return detail::enter_awaiter(*this, where);
  }
  /// A lease if the gate is open and nobody waits.
  [[nodiscard]] std::optional<lease> try_enter();

  /// For the barrier's participant. Quiesce: closes, and opens by itself after `hold_limit`. False
  /// when the epoch is not newer than the last.
  bool close(epoch_id epoch, std::chrono::nanoseconds hold_limit);
  /// Suspends until every lease is settled; errc::conflict when the gate is not, or no longer,
  /// closed for `epoch`.
  [[nodiscard]] detail::quiesced_awaiter quiesced(epoch_id epoch) noexcept {
    return detail::quiesced_awaiter(*this, epoch);
  }
  /// Resume: opens; true when the gate had stayed closed since it was quiesced.
  [[nodiscard]] bool open(epoch_id epoch);
  void abort(epoch_id epoch);
  /// For an actor that stops and is told nothing any more: opens, and no barrier closes it again.
  /// What waits to enter is let in, and settles.
  void leave_barrier() { abort(state_.last_epoch()); }

  /// "transaction 17 of rollout, 5.2 s old: 1 request unanswered", or "no lease".
  [[nodiscard]] std::string oldest() const;
  [[nodiscard]] const gate_state& state() const noexcept { return state_; }
  [[nodiscard]] const std::string& origin() const noexcept { return *origin_; }

private:
  friend class lease;
  friend class lease_hold;
  friend class detail::enter_awaiter;
  friend class detail::quiesced_awaiter;

  void expired() noexcept override;
  void state_changed() noexcept;
  void release(std::uint64_t transaction) noexcept;
  void answered(std::uint64_t transaction) noexcept;
  [[nodiscard]] lease_stamp stamp(std::uint64_t transaction);

  run_queue& queue_;
  shared_name origin_;
  std::uint64_t instance_;
  gate_state state_;
  detail::wait_list<detail::enter_awaiter> entering_;
  detail::wait_list<detail::quiesced_awaiter> quiescing_;
};

} // namespace weir
