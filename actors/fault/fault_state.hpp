/// The decisions of a fault actor, without coroutine, clock or actor: what happens to the next
/// message, who overtakes whom, and how bytes are damaged.
///
/// One seed and one order of messages give one order of faults. Numbers are drawn only for a rule
/// that matches and leaves something to chance, so that a rule which is added for other messages
/// changes nothing for these.
#pragma once

#include "actors/fault/fault_plan.hpp"
#include "actors/runtime/world.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir {

class fault_state {
public:
  fault_state(fault_plan plan, random_source random);

  /// What happens to a message. `content` is null for an answer that is an error; such a one
  /// matches `any_reply` alone. A delay is drawn: `shortest` and `longest` are the same.
  [[nodiscard]] fault_effect decide(fault_side side, const payload_ptr& content);

  /// A message is held until 1 to `span` others of its direction have gone past; returns the
  /// number that it is held under.
  [[nodiscard]] std::uint64_t hold(fault_side side, std::uint32_t span);
  /// A message goes past: those that have been overtaken often enough are held no longer.
  void went_past(fault_side side);
  /// Held no longer: its time is over.
  void let_go(std::uint64_t number);
  [[nodiscard]] bool holds(std::uint64_t number) const;

  /// Flips bits in the encoded bytes of a copy until `decode` refuses them, and returns its error.
  /// A flip that leaves a valid frame makes another message, not a corrupt one.
  [[nodiscard]] error damage(const frame& value);

  /// How often each rule has struck, in the order of the plan.
  [[nodiscard]] std::vector<std::uint64_t> struck() const;

private:
  struct tally {
    std::uint64_t matched = 0;
    std::uint64_t struck = 0;
  };
  struct held_message {
    std::uint64_t number;
    fault_side side;
    std::uint64_t left; ///< How many still have to overtake it.
  };

  [[nodiscard]] static bool matches(const fault_rule& rule, fault_side side,
                                    const payload_ptr& content);
  [[nodiscard]] bool strikes(const fault_rule& rule, tally& counted);

  fault_plan plan_;
  random_source random_;
  std::vector<tally> tallies_;
  std::vector<held_message> held_;
  std::uint64_t held_ever_ = 0;
};

} // namespace weir
