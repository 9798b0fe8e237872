#include "actors/runtime/detail/reply_memory.hpp"

#include "messages/limits.hpp"
#include "messages/rule.hpp"

#include <algorithm>

namespace weir::detail {

reply_memory::verdict reply_memory::admit(const lease_stamp& stamp, asker from, answer& again) {
  origin_memory& memory = origins_[*stamp.origin];
  if (stamp.instance < memory.instance) return verdict::fenced;
  if (stamp.instance > memory.instance) {
    memory = origin_memory();
    memory.instance = stamp.instance;
  }
  forget_settled(memory, stamp.settled_before);
  const bool once = enforced(rule::leased_requests_idempotent);
  if (stamp.transaction < memory.settled_before && once) return verdict::settled;
  const auto [place, is_first] = memory.entries.try_emplace(key(stamp.transaction, stamp.step));
  entry& known = place->second;
  if (known.done && once) {
    again = known.given;
    return verdict::answered;
  }
  known.waiting.push_back(std::move(from));
  return is_first || !once ? verdict::first : verdict::pending;
}

std::vector<reply_memory::asker> reply_memory::settle(const lease_stamp& stamp, answer given) {
  origin_memory& memory = origins_[*stamp.origin];
  const key id(stamp.transaction, stamp.step);
  const auto place = memory.entries.find(id);
  if (memory.instance != stamp.instance || place == memory.entries.end())
    return {}; // fenced meanwhile: its askers are of an incarnation that nobody waits in
  entry& known = place->second;
  known.given = std::move(given);
  known.done = true;
  auto waiting = std::exchange(known.waiting, {});
  if (memory.entries.size() > limits::leased_replies_max) forget_oldest(memory);
  return waiting;
}

std::vector<reply_memory::asker> reply_memory::forget(const lease_stamp& stamp) {
  origin_memory& memory = origins_[*stamp.origin];
  const auto place = memory.entries.find(key(stamp.transaction, stamp.step));
  if (memory.instance != stamp.instance || place == memory.entries.end()) return {};
  auto waiting = std::move(place->second.waiting);
  memory.entries.erase(place);
  return waiting;
}

/// What is still being applied stays: its handler will settle it.
void reply_memory::forget_settled(origin_memory& memory, std::uint64_t settled_before) {
  if (settled_before <= memory.settled_before) return;
  memory.settled_before = settled_before;
  const auto end = memory.entries.lower_bound(key(settled_before, 0));
  for (auto place = memory.entries.begin(); place != end;)
    place = place->second.done ? memory.entries.erase(place) : std::next(place);
}

void reply_memory::forget_oldest(origin_memory& memory) {
  const auto oldest =
      std::ranges::find_if(memory.entries, [](const auto& known) { return known.second.done; });
  if (oldest != memory.entries.end()) memory.entries.erase(oldest);
}

} // namespace weir::detail
