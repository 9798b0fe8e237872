#include "actors/replay/replay_state.hpp"

#include "actors/sampler/checked_policy.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace weir {

namespace {

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

group_event event_of(const replay_record& record, group_state from, group_state to,
                     std::uint64_t transaction) {
  group_event what{.group = record.group, .from = from, .to = to};
  what.attempt = record.content_attempt;
  what.target_step = record.target_step;
  what.admission_version = record.admission_version;
  what.window = record.window;
  what.start_version = record.start_version;
  what.end_version = record.end_version;
  what.transaction = transaction;
  return what;
}

policy_slot slot_of(const start_request& request) {
  return {.group = request.group,
          .dispatch_index = request.dispatch_index,
          .target_step = request.target_step,
          .admission_version = request.admission_version,
          .window = request.window,
          .start_version = std::nullopt,
          .ready = false};
}

policy_slot slot_of(const replay_record& record) {
  return {.group = record.group,
          .dispatch_index = record.dispatch_index,
          .target_step = record.target_step,
          .admission_version = record.admission_version,
          .window = record.window,
          .start_version = record.start_version,
          .ready = true};
}

slot_key key_of(const replay_record& record) {
  return {.dispatch_index = record.dispatch_index, .group = record.group};
}

} // namespace

result<version_span>
versions_of(std::span<const std::vector<std::uint64_t>> sibling_token_versions) {
  std::optional<version_span> span;
  for (const std::vector<std::uint64_t>& versions : sibling_token_versions)
    for (const std::uint64_t version : versions) {
      const weight_version at(version);
      if (!span) span = version_span{.start = at, .end = at};
      span->start = std::min(span->start, at);
      span->end = std::max(span->end, at);
    }
  if (!span) return failure(errc::invalid_argument, "no sibling has a token");
  return *span;
}

replay_state::replay_state(std::shared_ptr<const sampler_policy> policy, replay_options options)
    : policy_(std::move(policy)), options_(options), permits_(options.groups_buffered_max) {
  ensure(policy_ != nullptr, "replay has the sampler's policy");
}

result<void> replay_state::request_start(const start_request& request) {
  if (image_.find(request.group) != nullptr)
    return failure(errc::conflict, name_of(request.group) + " was committed already");
  if (starts_.emplace(request.group, request).second)
    permits_.request(request.group, request.dispatch_index);
  return {};
}

std::vector<group_id> replay_state::grant_permits() {
  std::vector<group_id> granted = permits_.grant();
  for (const group_id group : granted)
    slots_.insert(slot_of(starts_.at(group)));
  return granted;
}

std::vector<group_id> replay_state::grant_due(weight_version version) {
  std::vector<group_id> granted;
  if (!policy_->stamps()) return granted; // What is READY is selected then, and makes room.
  while (const auto first = permits_.first_waiting()) {
    const start_request& start = starts_.at(*first);
    if (start.target_step > static_cast<std::int64_t>(version.value)) break;
    permits_.grant_over(*first);
    slots_.insert(slot_of(start));
    granted.push_back(*first);
  }
  return granted;
}

bool replay_state::needed_at(group_id group, weight_version version) const {
  const auto place = starts_.find(group);
  if (place == starts_.end() || !enforced(rule::open_step_granted_credit)) return false;
  if (policy_->stamps())
    return place->second.target_step <= static_cast<std::int64_t>(version.value);
  const auto older = [&](const auto& other) {
    return permits_.holds(other.first) &&
           other.second.dispatch_index < place->second.dispatch_index;
  };
  return std::ranges::none_of(starts_, older);
}

void replay_state::begun(group_id group, std::optional<weight_version> start) {
  const auto place = starts_.find(group);
  if (place == starts_.end() || !permits_.holds(group)) return; // Stopped, or READY, meanwhile.
  slots_.set_start({place->second.dispatch_index, group}, start);
}

result<std::vector<group_id>> replay_state::stale_in_flight(weight_version version) const {
  return policy_->abort_in_flight(slots_.view(), version);
}

std::vector<row_id> replay_state::stop(group_id group) {
  const auto start = starts_.find(group);
  if (start == starts_.end()) return {};
  const slot_key key{start->second.dispatch_index, group};
  if (permits_.holds(group))
    release_slots({&key, 1});
  else
    ensure(permits_.give_back(group), "a group that is not started waits for a permit");
  starts_.erase(start);
  const auto staged = staged_.extract(group);
  return staged.empty() ? std::vector<row_id>{} : std::move(staged.mapped().rows);
}

result<std::vector<row_id>> replay_state::stage(staged_group staged) {
  if (!starts_.contains(staged.group) || !permits_.holds(staged.group))
    return failure(errc::conflict, name_of(staged.group) + " was not started, or is ready");
  if (staged.rows.empty())
    return failure(errc::invalid_argument, name_of(staged.group) + " is staged without rows");
  std::vector<row_id> replaced;
  const auto earlier = staged_.find(staged.group);
  if (earlier != staged_.end()) {
    if (earlier->second.content_attempt > staged.content_attempt)
      return failure(errc::conflict, name_of(staged.group) + " is at attempt " +
                                         std::to_string(earlier->second.content_attempt) +
                                         ", later than " + std::to_string(staged.content_attempt));
    replaced = std::move(earlier->second.rows);
  }
  const group_id group = staged.group;
  staged_.insert_or_assign(group, std::move(staged));
  return replaced;
}

std::vector<row_id> replay_state::discard(group_id group, std::uint32_t content_attempt) {
  const auto staged = staged_.find(group);
  if (staged == staged_.end() || staged->second.content_attempt != content_attempt) return {};
  std::vector<row_id> rows = std::move(staged->second.rows);
  staged_.erase(staged);
  return rows;
}

result<std::vector<row_id>> replay_state::commit(const commit_request& request,
                                                 event_stream& events, std::uint64_t transaction) {
  const auto staged = staged_.find(request.group);
  if (staged == staged_.end() || staged->second.content_attempt != request.content_attempt)
    return failure(errc::conflict, name_of(request.group) + ": attempt " +
                                       std::to_string(request.content_attempt) + " is not staged");
  const start_request& start = starts_.at(request.group);
  if (start.dispatch_index != request.dispatch_index)
    return failure(errc::conflict, name_of(request.group) + " was started as batch " +
                                       std::to_string(start.dispatch_index) + ", not " +
                                       std::to_string(request.dispatch_index));
  replay_record record{.group = request.group,
                       .sample = request.sample,
                       .content_attempt = request.content_attempt,
                       .dispatch_index = request.dispatch_index,
                       .target_step = request.target_step,
                       .admission_version = request.admission_version,
                       .window = request.window,
                       .start_version = staged->second.start_version,
                       .end_version = staged->second.end_version,
                       .claimed_for = -1,
                       .rows = std::move(staged->second.rows),
                       .hash = request.hash,
                       .task = request.task};
  staged_.erase(staged);
  starts_.erase(request.group);
  slots_.replace(slot_of(record));
  events.append(event_of(record, group_state::admitted, group_state::ready, transaction));
  std::vector<row_id> rows = record.rows;
  image_.put(std::move(record));
  return rows;
}

result<std::vector<group_id>> replay_state::selectable(weight_version version,
                                                       std::uint64_t groups_min,
                                                       std::uint64_t groups_max) const {
  if (groups_max == 0) return std::vector<group_id>{};
  const selection wanted{.version = version,
                         .groups_min = groups_min,
                         .groups_max = groups_max,
                         .ready_prefix_only = options_.ready_prefix_only};
  return policy_->select(slots_.view(), wanted);
}

result<batch_outlook> replay_state::outlook(std::uint64_t step, weight_version version,
                                            std::uint64_t groups_min, std::uint64_t groups) const {
  const auto chosen = selectable(version, 1, groups);
  if (!chosen) return failure(chosen.error());
  if (chosen->size() >= groups_min)
    return batch_outlook{.prospect = batch_prospect::ready, .available = chosen->size()};
  const auto stale = policy_->evict(slots_.view(), version);
  if (!stale) return failure(stale.error());
  const std::uint64_t useful = image_.ready.count - stale->size();
  if (auto fine = check_progress(step, groups_min, chosen->size(), useful); !fine)
    return failure(std::move(fine.error()));
  if (!supply_end_)
    return batch_outlook{.prospect = batch_prospect::wait, .available = chosen->size()};
  if (policy_->stamps() && useful + claimed(step) > 0)
    return failure(errc::exhausted,
                   "step " + std::to_string(step) + " can never fill: " +
                       std::to_string(claimed(step)) + " groups are claimed, " +
                       std::to_string(groups) + " more are needed, " + std::to_string(useful) +
                       " are buffered, and no further group will come (" + *supply_end_ + ")");
  return batch_outlook{.prospect = batch_prospect::ended, .available = useful};
}

/// A policy without stamps that passes over a whole step's groups, and that nothing can change the
/// mind of: the data ended, or the buffer is full of what it does not take.
result<void> replay_state::check_progress(std::uint64_t step, std::uint64_t groups,
                                          std::uint64_t chosen, std::uint64_t useful) const {
  if (policy_->stamps() || useful < groups) return {};
  const bool full = useful == slots_.size() && permits_.taken() >= permits_.permits_max();
  if (!supply_end_ && !full) return {};
  const std::string cause = supply_end_ ? "no further group will come (" + *supply_end_ + ")"
                                        : "the buffer is full (async_rl.max_buffered_rollouts " +
                                              std::to_string(permits_.permits_max()) + ")";
  return failure(errc::exhausted, title_of(*policy_) + ": selects " + std::to_string(chosen) +
                                      " of the " + std::to_string(groups) + " groups that step " +
                                      std::to_string(step) + " needs, although " +
                                      std::to_string(useful) + " are ready and " + cause);
}

result<std::vector<replay_record>>
replay_state::ready_records(std::span<const group_id> groups) const {
  std::vector<replay_record> records;
  std::set<group_id> seen;
  for (const group_id group : groups) {
    const replay_record* record = image_.find(group);
    if (record == nullptr || record->claimed_for >= 0 || !seen.insert(group).second)
      return failure(errc::invalid_argument, title_of(*policy_) + " named " + name_of(group) +
                                                 ", which is not ready, or named it twice");
    records.push_back(*record);
  }
  std::ranges::sort(records, {}, [](const replay_record& record) {
    return std::tuple(record.dispatch_index, record.group);
  });
  return records;
}

result<std::vector<replay_record>> replay_state::claim(std::uint64_t step, weight_version version,
                                                       std::uint64_t groups_min,
                                                       std::uint64_t groups, event_stream& events,
                                                       std::uint64_t transaction) {
  const auto earlier = claims_.find(step);
  if (earlier != claims_.end() && earlier->second.version != version)
    return failure(errc::conflict, "step " + std::to_string(step) + " claims at version " +
                                       std::to_string(earlier->second.version.value) + ", not " +
                                       std::to_string(version.value));
  const auto chosen = selectable(version, groups_min, groups);
  if (!chosen) return failure(chosen.error());
  auto records = ready_records(*chosen);
  if (!records || records->empty()) return records;
  step_claim& claim = claims_[step];
  claim.version = version;
  std::vector<slot_key> released;
  for (replay_record& record : *records) {
    record.claimed_for = static_cast<std::int64_t>(step);
    group_event what = event_of(record, group_state::ready, group_state::claimed, transaction);
    what.step = record.claimed_for;
    what.trainer_version = version;
    events.append(what);
    claim.groups.push_back(record.group);
    released.push_back(key_of(record));
    image_.put(record);
  }
  release_slots(released);
  return records;
}

cleared_groups replay_state::consume(std::uint64_t step, event_stream& events,
                                     std::uint64_t transaction) {
  cleared_groups cleared;
  const auto claim = claims_.find(step);
  if (claim == claims_.end()) return cleared;
  for (const group_id group : claim->second.groups) {
    const replay_record& record = *image_.find(group);
    group_event what = event_of(record, group_state::claimed, group_state::consumed, transaction);
    what.step = record.claimed_for;
    what.trainer_version = claim->second.version;
    events.append(what);
    cleared.rows.insert(cleared.rows.end(), record.rows.begin(), record.rows.end());
    image_.consumed.add(group);
    image_.erase(group);
  }
  cleared.groups = std::move(claim->second.groups);
  claims_.erase(claim);
  return cleared;
}

std::optional<replay_record> replay_state::promote(std::int64_t target_step,
                                                   std::int64_t dispatch_index,
                                                   event_stream& events,
                                                   std::uint64_t transaction) {
  std::optional<policy_slot> furthest;
  for (const policy_slot& slot : slots_.view()) {
    if (!slot.ready || slot.target_step <= target_step) continue;
    if (!furthest || slot.target_step > furthest->target_step) furthest = slot;
  }
  if (!furthest) return std::nullopt;
  replay_record before = *image_.find(furthest->group);
  replay_record record = before;
  record.target_step = target_step;
  record.dispatch_index = dispatch_index;
  const slot_key place{before.dispatch_index, before.group};
  slots_.erase(std::span(&place, 1));
  slots_.insert(slot_of(record));
  group_event what = event_of(record, group_state::ready, group_state::ready, transaction);
  what.reason = event_reason::promoted;
  events.append(what);
  image_.put(std::move(record));
  return before;
}

result<bool> replay_state::eviction_due(weight_version version) const {
  const auto stale = policy_->evict(slots_.view(), version);
  if (!stale) return failure(stale.error());
  return !stale->empty();
}

void replay_state::drop_ready(group_id group, drop_reason reason, cleared_groups& cleared,
                              event_stream& events, std::uint64_t transaction) {
  const replay_record& record = *image_.find(group);
  group_event what = event_of(record, group_state::ready, group_state::dropped, transaction);
  what.reason = event_reason_of(reason);
  events.append(what);
  cleared.groups.push_back(group);
  cleared.rows.insert(cleared.rows.end(), record.rows.begin(), record.rows.end());
  image_.dropped.add(reason, group);
  image_.erase(group);
}

result<cleared_groups> replay_state::evict(weight_version version, event_stream& events,
                                           std::uint64_t transaction) {
  const auto stale = policy_->evict(slots_.view(), version);
  if (!stale) return failure(stale.error());
  auto records = ready_records(*stale);
  if (!records) return failure(std::move(records.error()));
  cleared_groups cleared;
  std::vector<slot_key> released;
  for (const replay_record& record : *records) {
    released.push_back(key_of(record));
    drop_ready(record.group, drop_reason::stale, cleared, events, transaction);
  }
  release_slots(released);
  return cleared;
}

cleared_groups replay_state::drop_remainder(event_stream& events, std::uint64_t transaction) {
  cleared_groups cleared;
  for (const auto& [step, claim] : claims_)
    for (const group_id group : claim.groups) {
      const replay_record& record = *image_.find(group);
      group_event what = event_of(record, group_state::claimed, group_state::ready, transaction);
      what.step = record.claimed_for;
      events.append(what);
    }
  claims_.clear();
  std::vector<slot_key> released;
  for (const replay_record& record : in_dispatch_order(image_.index)) {
    if (record.claimed_for < 0) released.push_back(key_of(record));
    drop_ready(record.group, drop_reason::end_of_data, cleared, events, transaction);
  }
  release_slots(released);
  return cleared;
}

void replay_state::end_supply(std::string reason) {
  if (!supply_end_) supply_end_ = std::move(reason);
}

std::uint64_t replay_state::claimed(std::uint64_t step) const {
  const auto claim = claims_.find(step);
  return claim == claims_.end() ? 0 : claim->second.groups.size();
}

result<replay_restored> replay_state::load(const replay_image& image) {
  if (!image_.index.empty() || image_.consumed.count != 0 || !starts_.empty() ||
      image_.dropped.total().count != 0)
    return failure(errc::conflict, "a replay index is loaded only into an empty replay");
  if (auto fine = check_image(image); !fine) return failure(fine.error());
  image_ = image;
  replay_restored restored;
  for (replay_record& record : in_dispatch_order(image.index)) {
    ++restored.ready;
    slots_.insert(slot_of(record));
    permits_.overdraw(record.group);
    if (record.claimed_for < 0) continue;
    ++restored.unclaimed;
    record.claimed_for = -1;
    image_.put(std::move(record));
  }
  return restored;
}

void replay_state::release_slots(std::span<const slot_key> keys) {
  slots_.erase(keys);
  for (const slot_key& key : keys)
    ensure(permits_.give_back(key.group), "a slot holds a permit");
}

void replay_state::check_invariants() const {
  ensure(check_image(image_).has_value(), "the live index is as a bundle must be");
  ensure(permits_.taken() == slots_.size(), "permits taken are live slots");
  group_tally ready;
  slot_key before;
  for (const policy_slot& slot : slots_.view()) {
    const slot_key key{slot.dispatch_index, slot.group};
    ensure(before < key, "slots stand in dispatch order");
    before = key;
    ensure(permits_.holds(slot.group), "a slot holds a permit");
    ensure(starts_.contains(slot.group) != slot.ready, "a slot is either started or ready");
    if (!slot.ready) continue;
    const replay_record* record = image_.find(slot.group);
    ensure(record != nullptr && record->claimed_for < 0, "a ready slot is READY in the index");
    ensure(slot == slot_of(*record), "a ready slot says what the index says");
    ready.add(slot.group);
  }
  ensure(ready == image_.ready, "every READY group has a slot");
  group_tally claimed;
  for (const auto& [step, claim] : claims_)
    for (const group_id group : claim.groups) {
      const replay_record* record = image_.find(group);
      ensure(record != nullptr, "a claimed group stands in the index");
      ensure(record->claimed_for == static_cast<std::int64_t>(step), "it says for which step");
      claimed.add(group);
    }
  ensure(claimed == image_.claimed, "claims hold the CLAIMED groups and no other");
  for (const auto& [group, staged] : staged_)
    ensure(starts_.contains(group) && permits_.holds(group),
           "only started groups have rows staged");
}

} // namespace weir
