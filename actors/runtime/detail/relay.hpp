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

/// Waits for the answer to a frame that is passed on to a mailbox of this process. The answer is
/// given as it came, an error with the name of who was asked.
class [[nodiscard]] relay_awaiter final : public ask_waiter {
public:
  relay_awaiter(address to, const frame& passed, deadline_after limit)
      : ask_waiter(std::move(to), passed.content, limit, lease_hold()), header_(passed.header) {
    pass_on(header_);
  }
  [[nodiscard]] answer await_resume();

private:
  envelope header_;
};

class relay_actor : public actor {
protected:
  using actor::actor;

  /// One frame, in the order of arrival up to the first suspension. A note has request id 0, and
  /// its guard is dropped already. Destroyed with its guard (the relay stops), the asker is
  /// answered errc::cancelled, which settles its lease.
  virtual task<void> relay(reply_guard answering, frame came) = 0;

  /// How long the answer to a frame is worth waiting for: as long as its asker does, and for ever
  /// when a lease hangs on it.
  [[nodiscard]] deadline_after limit_of(const envelope& header) const;
  /// Whether the asker has given up: its answer is not sent, so that it reports its own deadline.
  [[nodiscard]] bool overdue(const envelope& header) const;
  /// Passes a note on, under its own envelope.
  void pass_note(const address& to, frame note) const;

private:
  [[nodiscard]] bool relay_frame(request_origin& asked, frame& request) final;
};

/// Ends an actor as `actor::fail` on its own turn would.
void end_as_failure(const address& target, error reason);

} // namespace weir::detail
