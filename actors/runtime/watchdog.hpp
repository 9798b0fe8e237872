/// The watchdog: an actor that attributes a hang to an actor, and to the request it waits on.
///
///   system.watch({.interval = 30s, .stall_timeout = 10min, .action = stall_action::abort});
///
/// Once an interval it asks every actor for its waits (answers, items of streams, leases) that are
/// older than the stall timeout. It waits for nobody: one that does not take the question is
/// silent, and named with the coroutine that it does not come back from. So a stall is attributed
/// within two intervals of the moment at which it is one.
#pragma once

#include "actors/runtime/actor.hpp"
#include "actors/runtime/watchdog_state.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace weir {

namespace detail {

/// Whom a watchdog watches: written by the graph before it starts, except for the pulse.
struct watched_actors {
  watchdog_options options;
  std::vector<std::string> names = {};
  std::vector<address> where = {};
  std::atomic<std::int64_t> pulse_ns = 0; ///< The watchdog's own last sign of life.
};

/// Where an actor is that does not come to an end with its turn: "in reader::parse (reader.cpp:12)"
/// or "on its turn, in no coroutine". From any thread.
[[nodiscard]] std::string whereabouts(const address& of);

} // namespace detail

class watchdog final : public actor {
public:
  using protocol = weir::protocol<>;

  watchdog(context ctx, std::shared_ptr<detail::watched_actors> watched);

private:
  task<void> run() override;
  task<void> ask(std::size_t member);
  task<void> round_answered();
  task<std::string> attribution(watchdog_state::verdict found);
  task<std::string> tasks_of(std::size_t member);
  [[nodiscard]] std::chrono::nanoseconds now() const;

  const std::shared_ptr<detail::watched_actors> watched_;
  watchdog_state state_;
  signal answered_;
};

} // namespace weir
