/// What the mailbox below an actor may do with it.
#pragma once

#include "actors/runtime/actor.hpp"

namespace weir::detail {

class actor_access {
public:
  [[nodiscard]] static result<void> check_graph(const actor& asked, const graph_roster& all) {
    return asked.check_graph(all);
  }
  /// Spawns `run`; once, on the actor's first turn.
  static void start(actor& started);
  static void receive(actor& receiver, const address& from, parcel& came) {
    receiver.receive(from, came);
  }
  /// Destroys every coroutine, before the members of derived classes that they use.
  static void unwind(actor& ending) noexcept {
    ending.root_.cancel();
    ending.shield_.cancel();
  }
  /// Has failed or was told to stop.
  [[nodiscard]] static bool ends(const actor& asked) noexcept {
    return asked.failed_ || asked.stopping_;
  }
  /// For one that ends: what is left to do is done, nothing new begins. Called between two
  /// resumptions; true when nothing is left that must end by itself.
  [[nodiscard]] static bool settle_stop(actor& stopping);
  /// Ends this life on behalf of a supervisor.
  static void leave(actor& leaving, error reason);
  [[nodiscard]] static bool failed(const actor& asked) noexcept { return asked.failed_; }
  [[nodiscard]] static const std::optional<error>& ends_for(const actor& asked) noexcept {
    return asked.ends_for_;
  }
  /// What a request is answered whose handler was destroyed.
  [[nodiscard]] static error unanswered(const actor& asked) { return asked.unanswered(); }
  [[nodiscard]] static std::vector<long_wait> long_waits(const actor& asked,
                                                         std::chrono::nanoseconds age) {
    return asked.long_waits(age);
  }
  [[nodiscard]] static actor_counters counters(const actor& asked) { return asked.counters(); }
  [[nodiscard]] static scope& root(actor& asked) noexcept { return asked.root_; }
  [[nodiscard]] static const context& context_of(const actor& asked) noexcept { return asked.ctx_; }
  [[nodiscard]] static run_queue& queue(actor& asked) noexcept { return asked.queue_; }
  [[nodiscard]] static stream_table& streams(actor& asked) noexcept { return asked.streams_; }
  static void answer(actor& answering, const request_origin& origin, weir::detail::answer given);
};

} // namespace weir::detail
