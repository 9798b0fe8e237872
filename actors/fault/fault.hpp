/// `fault<Protocol>`: an actor that stands in front of another one and does to its messages what a
/// plan says. For tests of your own actors, in three lines:
///
///   weir::fault_plan plan{weir::on<CommitGroup>().duplicate().chance(0.5)};
///   auto flaky = system.add<weir::fault<replay_protocol>>("flaky-replay", replay, plan);
///   auto rollout = system.add<weir::rollout>("rollout", options, flaky, ...);
///
/// The actor behind may be local or remote; whoever has the handle of the fault actor cannot tell
/// the difference. What passes keeps sender, life, deadline and lease. Faults are drawn from
/// `world::random("fault NAME")`. Streams that a request names go past it: their ends find each
/// other by name.
///
/// A request that is dropped is answered by nobody; its asker's deadline ends the wait. A leased
/// one leaves its transaction unsettled, as a lost message would: a barrier that waits for it names
/// it, and when the fault actor ends, it is answered errc::cancelled and settled.
#pragma once

#include "actors/fault/fault_state.hpp"
#include "actors/runtime/detail/relay.hpp"

namespace weir {

/// The part of a fault actor that does not depend on the protocol.
class fault_actor : public detail::relay_actor {
protected:
  fault_actor(context ctx, detail::address target, fault_plan plan);

private:
  task<void> relay(detail::reply_guard answering, frame came) override;
  task<void> ask_and_give(detail::reply_guard answering, frame asked);
  task<void> send_copy(frame copy);
  /// Waits until a delay is over, or until the message was overtaken.
  task<void> hold_back(fault_side side, fault_effect effect);
  task<void> until_overtaken(std::uint64_t held);
  /// The asker learns nothing; one with a lease when this actor ends.
  task<void> lose(detail::reply_guard answering, bool leased);

  [[nodiscard]] fault_effect decide(fault_side side, const frame& asked,
                                    const payload_ptr& content);
  void went_past(fault_side side);
  /// Kills what the effect says, if anything.
  void kill(fault_kind kind);
  [[nodiscard]] error refusal(const fault_effect& effect, const frame& about);

  detail::address target_;
  fault_state state_;
  signal overtaken_;
  signal never_;
};

template <class Protocol>
class fault final : public fault_actor {
public:
  using protocol = Protocol;

  fault(context ctx, const handle<Protocol>& target, fault_plan plan)
      : fault_actor(std::move(ctx), target.where(), std::move(plan)) {}
};

} // namespace weir
