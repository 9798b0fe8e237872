#include "actors/runtime/supervision_state.hpp"

#include "actors/runtime/deadline.hpp"

#include <algorithm>
#include <utility>

namespace weir {

supervision_state::supervision_state(std::string group, supervision_options options,
                                     std::vector<std::string> members)
    : group_(std::move(group)), options_(options) {
  ensure(options_.period.count() > 0, "a restart budget counts over a period");
  ensure(options_.backoff.count() >= 0, "a restart follows its failure");
  for (auto& name : members)
    members_.push_back({std::move(name)});
}

bool supervision_state::anybody_leaving() const {
  return std::ranges::find(members_, stage::leaving, &supervised::at) != members_.end();
}

bool supervision_state::affected(std::size_t member, std::size_t by) const {
  switch (options_.how) {
  case restart::one_for_one:
    return member == by;
  case restart::one_for_all:
    return true;
  case restart::rest_for_one:
    return member >= by;
  }
  return false;
}

std::chrono::nanoseconds supervision_state::backoff_of(std::size_t member) const {
  auto wait = std::min(options_.backoff, options_.backoff_max);
  const auto failures = std::ranges::count(recent_, member, &failure_record::member);
  for (auto doubled = failures; doubled > 1 && wait < options_.backoff_max; --doubled)
    wait = wait < options_.backoff_max / 2 ? wait * 2 : options_.backoff_max;
  return wait;
}

error supervision_state::exhausted(std::size_t member, error reason) const {
  reason.text = members_[member].name + " failed after " + std::to_string(recent_.size() - 1) +
                (recent_.size() == 2 ? " restart" : " restarts") + " within " +
                to_string(deadline_after{options_.period}) + ", all that group " + group_ +
                " allows: " + reason.text;
  if (reason.origin.empty()) reason.origin = members_[member].name;
  return reason;
}

supervision_state::decision supervision_state::failed(std::size_t member, error reason,
                                                      std::chrono::nanoseconds now) {
  if (members_[member].at != stage::up) {
    left(member);
    return {};
  }
  members_[member].at = stage::down;
  while (!recent_.empty() && now - recent_.front().at >= options_.period)
    recent_.pop_front();
  recent_.push_back({member, now});
  if (recent_.size() > options_.restarts_max)
    return {.give_up = exhausted(member, std::move(reason))};
  decision wanted;
  const auto due = now + backoff_of(member);
  for (std::size_t other = 0; other < members_.size(); ++other) {
    if (!affected(other, member)) continue;
    members_[other].due = std::max(members_[other].due, due);
    if (members_[other].at != stage::up) continue;
    members_[other].at = stage::leaving;
    wanted.leave.push_back(other);
  }
  return wanted;
}

void supervision_state::left(std::size_t member) {
  if (members_[member].at == stage::leaving) members_[member].at = stage::down;
}

supervision_state::decision supervision_state::renew(std::chrono::nanoseconds now) {
  decision wanted;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i].at = stage::leaving;
    members_[i].due = now;
    wanted.leave.push_back(i);
  }
  return wanted;
}

std::vector<std::size_t> supervision_state::begin_due(std::chrono::nanoseconds now) {
  std::vector<std::size_t> begun;
  if (anybody_leaving()) return begun;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].at != stage::down || members_[i].due > now) continue;
    members_[i].at = stage::up;
    begun.push_back(i);
  }
  return begun;
}

std::optional<std::chrono::nanoseconds> supervision_state::next_due() const {
  std::optional<std::chrono::nanoseconds> next;
  if (anybody_leaving()) return next;
  for (const supervised& each : members_) {
    if (each.at == stage::down) next = next ? std::min(*next, each.due) : each.due;
  }
  return next;
}

} // namespace weir
