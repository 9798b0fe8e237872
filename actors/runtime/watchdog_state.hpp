/// What a watchdog makes of what it hears: decisions only, no clock, no actor. Times are
/// nanoseconds of the world's clock.
///
/// Each round asks every actor for its waits that are too old. One that does not answer is not
/// asked again: how long it has been silent is the other kind of stall.
#pragma once

#include "messages/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weir {

enum class stall_action : std::uint8_t {
  warn,  ///< Log the attribution, once a round.
  abort, ///< The run ends: the attribution is its failure.
};

struct watchdog_options {
  /// Between two rounds.
  std::chrono::nanoseconds interval = std::chrono::seconds(30);
  /// What waits or is silent for longer is stalled; longer than any wait that is in order.
  std::chrono::nanoseconds stall_timeout = std::chrono::minutes(10);
  stall_action action = stall_action::abort;
};

/// A wait of one actor for another one that has lasted too long.
struct long_wait {
  std::string of;   ///< The actor that has to go on.
  std::string text; ///< "waits for replay to answer CommitGroup".
  std::chrono::nanoseconds age;

  friend bool operator==(const long_wait&, const long_wait&) = default;
};

class watchdog_state {
public:
  /// Who keeps whom. `blamed` are the actors where the chains of waits end: they wait for nobody,
  /// or for one another.
  struct verdict {
    std::vector<std::string> lines = {};
    std::vector<std::size_t> blamed = {};
  };

  watchdog_state(watchdog_options options, std::vector<std::string> names);

  /// Those who are asked now: all but the ones that still owe an answer.
  [[nodiscard]] std::vector<std::size_t> begin_round(std::chrono::nanoseconds now);
  /// The actor took the question and has these waits; none if it has ended or is being restarted.
  void answered(std::size_t actor, std::vector<long_wait> waits);
  [[nodiscard]] bool all_answered() const;
  /// Has owed an answer for longer than the stall timeout.
  [[nodiscard]] bool silent(std::size_t actor, std::chrono::nanoseconds now) const;
  [[nodiscard]] verdict judge(std::chrono::nanoseconds now) const;

private:
  struct watched {
    std::string name;
    std::optional<std::chrono::nanoseconds> asked_at = {}; ///< While it owes an answer.
    std::vector<long_wait> waits = {};
  };

  [[nodiscard]] bool stalled(const watched& actor, std::chrono::nanoseconds now) const;

  const watchdog_options options_;
  std::vector<watched> actors_;
};

} // namespace weir
