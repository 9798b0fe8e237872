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
  /// Has failed or was told to stop: what is left to do is done, nothing new begins. Called
  /// between two resumptions.
  static void settle_stop(actor& stopping);
  /// Destroys every coroutine, before the members of derived classes that they use.
  static void unwind(actor& ending) noexcept {
    ending.root_.cancel();
    ending.shield_.cancel();
  }
  /// Nothing is left that must end by itself.
  [[nodiscard]] static bool ended(const actor& asked) noexcept;
  [[nodiscard]] static std::string describe_asks(const actor& asked, std::chrono::nanoseconds age) {
    return asked.asks_.describe_older_than(age);
  }
  [[nodiscard]] static std::string describe_tasks(const actor& asked) {
    return asked.describe_tasks();
  }
  [[nodiscard]] static actor_counters counters(const actor& asked) { return asked.counters(); }
  [[nodiscard]] static scope& root(actor& asked) noexcept { return asked.root_; }
  [[nodiscard]] static const context& context_of(const actor& asked) noexcept { return asked.ctx_; }
  [[nodiscard]] static run_queue& queue(actor& asked) noexcept { return asked.queue_; }
  [[nodiscard]] static stream_table& streams(actor& asked) noexcept { return asked.streams_; }
  static void answer(actor& answering, const request_origin& origin, weir::detail::answer given);
};

} // namespace weir::detail
