#include "actors/runtime/watchdog_state.hpp"

#include "actors/runtime/detail/task_dump.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace weir {

watchdog_state::watchdog_state(watchdog_options options, std::vector<std::string> names)
    : options_(options) {
  ensure(options_.interval.count() > 0, "a watchdog looks from time to time");
  ensure(options_.stall_timeout.count() > 0, "a wait that is in order takes some time");
  for (auto& name : names)
    actors_.push_back({std::move(name)});
}

std::vector<std::size_t> watchdog_state::begin_round(std::chrono::nanoseconds now) {
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    if (actors_[i].asked_at) continue;
    actors_[i].asked_at = now;
    asked.push_back(i);
  }
  return asked;
}

void watchdog_state::answered(std::size_t actor, std::vector<long_wait> waits) {
  actors_[actor].asked_at.reset();
  actors_[actor].waits = std::move(waits);
}

bool watchdog_state::all_answered() const {
  return std::ranges::none_of(actors_,
                              [](const watched& each) { return each.asked_at.has_value(); });
}

bool watchdog_state::silent(std::size_t actor, std::chrono::nanoseconds now) const {
  const auto& asked_at = actors_[actor].asked_at;
  return asked_at && now - *asked_at >= options_.stall_timeout;
}

watchdog_state::verdict watchdog_state::judge(std::chrono::nanoseconds now) const {
  verdict found;
  std::set<std::string> waiting;
  std::set<std::string> waited_for;
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const watched& each = actors_[i];
    if (silent(i, now)) {
      found.lines.push_back(each.name + " has taken no message for " +
                            detail::age_text(now - *each.asked_at));
      waited_for.insert(each.name);
      continue;
    }
    for (const long_wait& wait : each.waits) {
      found.lines.push_back(each.name + " " + wait.text + ", " + detail::age_text(wait.age) +
                            " so far");
      waited_for.insert(wait.of);
      if (wait.of != each.name) waiting.insert(each.name);
    }
  }
  // Where all wait for one another, nobody is at the end of a chain, and everybody is shown.
  const bool cycle = std::ranges::includes(waiting, waited_for);
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const std::string& name = actors_[i].name;
    if (waited_for.contains(name) && (cycle || !waiting.contains(name))) found.blamed.push_back(i);
  }
  return found;
}

} // namespace weir
