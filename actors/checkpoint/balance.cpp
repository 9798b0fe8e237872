#include "actors/checkpoint/balance.hpp"

#include <string>

namespace weir {

result<void> add_tally(cut_tallies& sums, std::string_view state, const group_tally& tally) {
  if (state == "handed_out") {
    sums.handed_out += tally;
    return {};
  }
  for (std::size_t index = 1; index < group_states; ++index) {
    if (state != to_string(static_cast<group_state>(index))) continue;
    sums.in_state[index] += tally;
    return {};
  }
  return failure(errc::invalid_argument, "tally of an unknown state \"" + std::string(state) +
                                             "\": owners report handed_out or a group state");
}

result<void> check_balance(const cut_tallies& sums) {
  group_tally accounted;
  for (const group_tally& tally : sums.in_state)
    accounted += tally;
  if (accounted == sums.handed_out) return {};

  std::string text = "the cut does not balance: handed out " + to_string(sums.handed_out) +
                     ", accounted for " + to_string(accounted) + ":";
  for (std::size_t index = 1; index < group_states; ++index) {
    text += index == 1 ? " " : ", ";
    text += to_string(static_cast<group_state>(index));
    text.append(" ").append(to_string(sums.in_state[index]));
  }
  return failure(errc::conflict, std::move(text));
}

} // namespace weir
