/// Small actors that the tests of the runtime talk to. They speak the conversations of the
/// product's schemas, so that everything under test is the real thing.
#pragma once

#include "actors/graph.hpp"
#include "messages/message.hpp"
#include "messages/protocol.hpp"

#include <chrono>
#include <string>

namespace weir::test {

using keeper_protocol = protocol<call<Probe, ProbeAnswered>, call<ReserveBatch, BatchReserved>,
                                 call<StartGroup, GroupStarted>, note<StopGroup>>;

/// Owns a number that leased requests raise.
class keeper : public actor {
public:
  using protocol = keeper_protocol;
  static constexpr bool is_owner = true;

  explicit keeper(context ctx) : actor(std::move(ctx)) {
    serve(&keeper::on_probe);
    serve(&keeper::on_reserve);
    serve(&keeper::on_start);
    serve(&keeper::on_stop);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    ProbeAnsweredT reply;
    reply.actor = name();
    reply.busy_with = std::to_string(applied_) + " applied, " + std::to_string(notes_) + " notes";
    co_return pack(reply);
  }
  task<result<message<BatchReserved>>> on_reserve(lease_ref, message<ReserveBatch>) {
    ++applied_;
    co_return pack(BatchReservedT());
  }
  /// Never answers: whoever asks is timed out or cancelled.
  task<result<message<GroupStarted>>> on_start(message<StartGroup>) {
    co_await never_.raised();
    co_return pack(GroupStartedT());
  }
  task<void> on_stop(message<StopGroup>) {
    ++notes_;
    co_return;
  }

  std::uint64_t applied_ = 0;
  std::uint64_t notes_ = 0;
  signal never_;
};

[[nodiscard]] inline message<Probe> probe() {
  return pack(ProbeT());
}

} // namespace weir::test
