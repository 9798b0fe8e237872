/// Gives generators their weights: every new version, and to one that comes back what it missed.
///
/// Not an actor: part of the trainer, whose turns its coroutines run on. A generator that fails is
/// restarted in place and has lost its weights; the request that waits there (`AwaitWeightsLost`)
/// ends with it, and tells so. Until it has the newest version again it serves nobody, and no
/// publish waits for it.
///
/// Waits on: generators, each time for at most `transfer_timeout`.
#pragma once

#include "actors/protocols.hpp"
#include "actors/runtime/channel.hpp"
#include "actors/runtime/handle.hpp"
#include "actors/runtime/scope.hpp"
#include "actors/runtime/task.hpp"
#include "actors/runtime/world.hpp"
#include "messages/ids.hpp"
#include "messages/message.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// One version on its way: the request that carries its weights, shared by all generators.
struct published_version {
  weight_version version = {};
  message<UpdateWeights> weights;
};

struct weight_publisher_options {
  /// Until a generator says that new weights are live.
  std::chrono::nanoseconds transfer_timeout = std::chrono::seconds(60);
  /// How long a request stays with a generator that lost nothing before it is asked again: less
  /// than what a watchdog takes for a stall.
  std::chrono::nanoseconds attendance = std::chrono::seconds(20);
  /// Between two attempts to reach a generator that is being restarted.
  std::chrono::nanoseconds retry_pause = std::chrono::milliseconds(20);
};

class weight_publisher {
public:
  /// `time` outlives it; `say` is told for people what became of a generator. Made on the owner's
  /// turn. @pre there is a generator
  weight_publisher(const weir::clock& time, std::vector<handle<generator_protocol>> generators,
                   weight_publisher_options options, std::function<void(std::string)> say);
  weight_publisher(const weight_publisher&) = delete;
  weight_publisher& operator=(const weight_publisher&) = delete;
  ~weight_publisher() = default;

  /// Makes the last of `versions` (oldest first, not empty) live: returns when every generator that
  /// serves has it. A generator that came back gets all of them, in order; the others what is new.
  /// Errors: timed_out naming the generator that did not take a version in time, or, when none
  /// serves, all of them; what a generator refused a version with.
  [[nodiscard]] task<result<void>> publish(std::vector<published_version> versions);

private:
  /// What is known of one generator.
  struct receiver {
    std::optional<weight_version> has; ///< Newest version it took in this life of it.
    bool busy = false;                 ///< A feed is under way: it takes versions in order.
    std::optional<error> refused;
  };

  task<void> feed(std::size_t index);
  task<void> attend(std::size_t index);
  [[nodiscard]] task<result<void>> await_one();
  task<void> somebody_serves();
  [[nodiscard]] const published_version* next_for(std::size_t index) const;

  const weir::clock& clock_;
  const std::vector<handle<generator_protocol>> generators_;
  const weight_publisher_options options_;
  const std::function<void(std::string)> say_;
  std::vector<published_version> versions_;
  std::vector<receiver> receivers_;
  signal moved_;
  scope attending_;
};

} // namespace weir
