#include "actors/sampler/slot_table.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir {

namespace {

/// Closes the gaps that `places` leave; they rise.
template <class T>
void take_out(std::vector<T>& column, std::span<const std::size_t> places) {
  std::size_t to = places.front();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t end = i + 1 < places.size() ? places[i + 1] : column.size();
    const auto from = column.begin() + static_cast<std::ptrdiff_t>(places[i] + 1);
    const auto until = column.begin() + static_cast<std::ptrdiff_t>(end);
    std::copy(from, until, column.begin() + static_cast<std::ptrdiff_t>(to));
    to += end - places[i] - 1;
  }
  column.resize(to);
}

template <class T>
void put_in(std::vector<T>& column, std::size_t place, T value) {
  column.insert(column.begin() + static_cast<std::ptrdiff_t>(place), value);
}

} // namespace

slot_table::slot_table(std::span<const policy_slot> slots) {
  for (const policy_slot& slot : slots)
    insert(slot);
}

slot_view slot_table::view() const {
  return {.size = groups_.size(),
          .group = groups_.data(),
          .dispatch_index = dispatch_indices_.data(),
          .target_step = target_steps_.data(),
          .admission_version = admission_versions_.data(),
          .window = windows_.data(),
          .start_version = start_versions_.data(),
          .last_version = last_versions_.data(),
          .ready = ready_.data()};
}

std::size_t slot_table::lower_bound(slot_key key) const {
  const auto [first, last] = std::ranges::equal_range(dispatch_indices_, key.dispatch_index);
  const auto begin = first - dispatch_indices_.begin();
  const auto end = last - dispatch_indices_.begin();
  const auto place = std::lower_bound(groups_.begin() + begin, groups_.begin() + end, key.group);
  return static_cast<std::size_t>(place - groups_.begin());
}

std::size_t slot_table::place_of(slot_key key) const {
  const std::size_t place = lower_bound(key);
  ensure(place < groups_.size() && groups_[place] == key.group &&
             dispatch_indices_[place] == key.dispatch_index,
         "a group that has a slot stands in the table");
  return place;
}

void slot_table::insert(const policy_slot& slot) {
  const std::size_t place = lower_bound({slot.dispatch_index, slot.group});
  ensure(place == groups_.size() || groups_[place] != slot.group ||
             dispatch_indices_[place] != slot.dispatch_index,
         "a group has one slot");
  put_in(groups_, place, slot.group);
  put_in(dispatch_indices_, place, slot.dispatch_index);
  put_in(target_steps_, place, slot.target_step);
  put_in(admission_versions_, place, slot.admission_version);
  put_in(windows_, place, slot.window);
  put_in(start_versions_, place, unset_version);
  put_in(last_versions_, place, unset_version);
  set_start_at(place, slot.start_version);
  put_in(ready_, place, static_cast<std::uint8_t>(slot.ready ? 1 : 0));
}

void slot_table::replace(const policy_slot& slot) {
  const std::size_t place = place_of({slot.dispatch_index, slot.group});
  target_steps_[place] = slot.target_step;
  admission_versions_[place] = slot.admission_version;
  windows_[place] = slot.window;
  set_start_at(place, slot.start_version);
  ready_[place] = slot.ready ? 1 : 0;
}

void slot_table::set_start(slot_key key, std::optional<weight_version> start) {
  set_start_at(place_of(key), start);
}

void slot_table::set_start_at(std::size_t place, std::optional<weight_version> start) {
  start_versions_[place] = start.value_or(unset_version);
  // A window that reaches beyond all versions ends with them.
  const std::uint64_t most = start ? unset_version.value - start->value : 0;
  const std::uint64_t reach = std::min(windows_[place], most);
  last_versions_[place] = start ? weight_version(start->value + reach) : unset_version;
}

void slot_table::erase(std::span<const slot_key> keys) {
  if (keys.empty()) return;
  std::vector<std::size_t> places;
  places.reserve(keys.size());
  for (const slot_key& key : keys)
    places.push_back(place_of(key));
  ensure(std::ranges::is_sorted(places, std::ranges::less_equal()), "slots leave in order, once");
  take_out(groups_, places);
  take_out(dispatch_indices_, places);
  take_out(target_steps_, places);
  take_out(admission_versions_, places);
  take_out(windows_, places);
  take_out(start_versions_, places);
  take_out(last_versions_, places);
  take_out(ready_, places);
}

} // namespace weir
