/// A bounded number of permits, granted to groups first come first served in dispatch order.
///
/// Used twice: capacity of the replay buffer (held from start until the group is claimed, evicted,
/// dropped or failed) and rollouts in flight (held while one runs). A permit belongs to a group, so
/// giving it back twice is visible: it happens once or not at all.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace weir {

class dispatch_permits {
public:
  explicit dispatch_permits(std::uint64_t permits_max) : permits_max_(permits_max) {
    ensure(permits_max > 0, "there is at least one permit");
  }

  /// Queues a request. Nothing if the group holds a permit or waits for one already.
  void request(group_id group, std::int64_t dispatch_index) {
    if (holds(group) || waiting_index_.contains(group)) return;
    waiting_.emplace(dispatch_index, group);
    waiting_index_.emplace(group, dispatch_index);
  }

  /// Grants what is free and returns the groups that got a permit, in dispatch order. None while
  /// the permits are overdrawn.
  [[nodiscard]] std::vector<group_id> grant() {
    std::vector<group_id> granted;
    while (!waiting_.empty() && holders_.size() < permits_max_) {
      const group_id group = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      waiting_index_.erase(group);
      holders_.insert(group);
      granted.push_back(group);
    }
    return granted;
  }

  /// The next group in line.
  [[nodiscard]] std::optional<group_id> first_waiting() const {
    return waiting_.empty() ? std::nullopt : std::optional(waiting_.begin()->second);
  }
  /// Grants a request at once, over the limit if need be. @pre The group waits.
  void grant_over(group_id group) {
    ensure(give_back(group), "a group that gets a permit waits for one");
    overdraw(group);
  }

  /// Gives a restored group its permit, over the limit if need be. @pre It holds none.
  void overdraw(group_id group) {
    ensure(holders_.insert(group).second, "a restored group takes one permit");
  }

  /// Gives the permit back, or the request up. Returns whether the group had either.
  bool give_back(group_id group) {
    if (holders_.erase(group) == 1) return true;
    const auto waiting = waiting_index_.find(group);
    if (waiting == waiting_index_.end()) return false;
    waiting_.erase({waiting->second, group});
    waiting_index_.erase(waiting);
    return true;
  }

  [[nodiscard]] bool holds(group_id group) const { return holders_.contains(group); }
  [[nodiscard]] bool waits(group_id group) const { return waiting_index_.contains(group); }
  [[nodiscard]] std::uint64_t taken() const { return holders_.size(); }
  [[nodiscard]] std::uint64_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::uint64_t permits_max() const { return permits_max_; }
  [[nodiscard]] bool overdrawn() const { return holders_.size() > permits_max_; }

private:
  std::uint64_t permits_max_;
  std::set<group_id> holders_;
  std::set<std::pair<std::int64_t, group_id>> waiting_;
  std::map<group_id, std::int64_t> waiting_index_;
};

} // namespace weir
