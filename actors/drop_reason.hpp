/// Why a group left the run without being trained, and the totals per reason.
#pragma once

#include "actors/audit/event.hpp"
#include "actors/conservation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

/// In the order of the schema's DropReason; the numbers are stored in bundles.
enum class drop_reason : std::uint8_t {
  stale,         ///< Its weights are too old for the sampler.
  data_failure,  ///< The prompt itself failed too often.
  infra_failure, ///< Generators or environments failed it too often.
  end_of_data,   ///< Too few prompts were left for a whole step.
  poisoned,      ///< The process died too often while it was being generated.
};
inline constexpr std::size_t drop_reasons = 5;

/// The same reason in the audit log, whose list begins with `none`.
[[nodiscard]] constexpr event_reason event_reason_of(drop_reason reason) noexcept {
  return static_cast<event_reason>(static_cast<std::uint8_t>(reason) + 1);
}
static_assert(event_reason_of(drop_reason::stale) == event_reason::stale);
static_assert(event_reason_of(drop_reason::poisoned) == event_reason::poisoned);

[[nodiscard]] constexpr std::string_view to_string(drop_reason reason) noexcept {
  return to_string(event_reason_of(reason));
}

/// Groups dropped for the life of the run, by reason.
struct drop_tallies {
  std::array<group_tally, drop_reasons> by_reason = {};

  void add(drop_reason reason, group_id group) {
    by_reason[static_cast<std::size_t>(reason)].add(group);
  }
  [[nodiscard]] const group_tally& of(drop_reason reason) const {
    return by_reason[static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] group_tally total() const {
    group_tally sum;
    for (const group_tally& one : by_reason)
      sum += one;
    return sum;
  }
  friend bool operator==(const drop_tallies&, const drop_tallies&) = default;
};

} // namespace weir
