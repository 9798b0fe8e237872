/// Whether a cut accounts for every group that was ever handed out.
///
/// Owners report named tallies: the dataloader `handed_out`, the sampler `reserved`, `admitted`,
/// `dropped`, `in_reserve`, replay `ready`, `claimed`, `consumed`, `dropped`. Those of one name add
/// up. A cut balances when handed_out equals the sum of all others, in count and in the 128-bit
/// sum.
#pragma once

#include "actors/audit/event.hpp"
#include "actors/conservation.hpp"
#include "messages/error.hpp"

#include <string_view>

namespace weir {

/// Adds one tally of a `Captured` message. `invalid_argument` when no state has that name.
[[nodiscard]] result<void> add_tally(cut_tallies& sums, std::string_view state,
                                     const group_tally& tally);

/// `conflict`, with every number, when the cut does not balance.
[[nodiscard]] result<void> check_balance(const cut_tallies& sums);

} // namespace weir
