/// Relays: actors that take frames of every type and pass them on, without knowing a protocol.
///
/// A fault actor stands in front of another actor, a remote handle in front of a connection. Both
/// derive from `relay_actor` and get each frame with its envelope: sender, life, deadline and lease
/// stay those of the one who asked, so that the owner behind a relay recognizes a repeated leased
/// request as if it had come directly. An ordinary actor pays nothing for this: the hook is the
/// path on which a request of an unknown type is refused.
#pragma once

#include "actors/runtime/actor.hpp"

namespace weir::detail {

/// How long the answer to a frame is worth waiting for: as long as its asker does, and for ever
/// when a lease hangs on it.
[[nodiscard]] deadline_after limit_of(const envelope& header, const clock& time);
/// Whether the asker has given up: its answer is not sent, so that it reports its own deadline.
[[nodiscard]] bool overdue(const envelope& header, const clock& time);

/// Waits for the answer to a frame that is passed on. Gives it as it came; an error names who was
/// asked.
class passing_waiter : public ask_waiter, protected passed_frame {
public:
  // By reference: g++ 12 destroys an aggregate argument of a co_await expression twice.
  passing_waiter(address to, const frame& passed, deadline_after limit)
      : ask_waiter(std::move(to), passed.content, limit, lease_hold()), frame_(passed) {
    pass_on(*this);
  }
  [[nodiscard]] answer await_resume();

protected:
  [[nodiscard]] frame& passed() noexcept { return frame_; }

private:
  frame frame_;
};

/// The same, to a mailbox of this process.
class [[nodiscard]] relay_awaiter final : public passing_waiter {
public:
  relay_awaiter(const address& to, const frame& passed, deadline_after limit)
      : passing_waiter(to, passed, limit), to_(to) {}

private:
  void send(const address& from, std::uint64_t request_id) override;

  address to_;
};

class relay_actor : public actor {
protected:
  using actor::actor;

  /// One frame, in the order of arrival up to the first suspension. A note has request id 0, and
  /// its guard is dropped already. Destroyed with its guard (the relay stops), the asker is
  /// answered errc::cancelled, which settles its lease.
  virtual task<void> relay(reply_guard answering, frame came) = 0;

private:
  [[nodiscard]] bool relay_frame(request_origin& asked, frame& request) final;
};

/// Passes a note on from an actor, under its own envelope.
void pass_note(const address& to, const actor& from, frame note);

/// Ends an actor as `actor::fail` on its own turn would.
void end_as_failure(const address& target, error reason);

} // namespace weir::detail
