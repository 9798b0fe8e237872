#include "actors/runtime/detail/reply_memory.hpp"

#include "messages/limits.hpp"
#include "messages/rule.hpp"

namespace weir::detail {

reply_memory::verdict reply_memory::admit(const lease_stamp& stamp, asker from, answer& again) {
  origin_memory& memory = origins_[*stamp.origin];
  if (stamp.instance < memory.instance) return verdict::fenced;
  if (stamp.instance > memory.instance) {
    memory = origin_memory();
    memory.instance = stamp.instance;
  }
  const auto [place, is_first] = memory.entries.try_emplace(key(stamp.transaction, stamp.step));
  entry& known = place->second;
  const bool once = enforced(rule::leased_requests_idempotent);
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
  memory.answered.push_back(id);
  if (memory.answered.size() > limits::leased_replies_max) {
    memory.entries.erase(memory.answered.front());
    memory.answered.pop_front();
  }
  return std::exchange(known.waiting, {});
}

std::vector<reply_memory::asker> reply_memory::forget(const lease_stamp& stamp) {
  origin_memory& memory = origins_[*stamp.origin];
  const auto place = memory.entries.find(key(stamp.transaction, stamp.step));
  if (memory.instance != stamp.instance || place == memory.entries.end()) return {};
  auto waiting = std::move(place->second.waiting);
  memory.entries.erase(place);
  return waiting;
}

} // namespace weir::detail
