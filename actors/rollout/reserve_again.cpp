#include "actors/rollout/reserve_again.hpp"

#include <map>
#include <utility>

namespace weir {

namespace {

group_event event_of(group_id group, group_state from, std::uint32_t attempt) {
  group_event what{.group = group, .from = from, .to = group_state::reserved};
  what.reason = event_reason::not_restored;
  what.attempt = attempt;
  return what;
}

/// The unconsumed groups of both images as RESERVED records, by group.
using reserved_records = std::map<group_id, ledger_record>;

result<void> take_ready(const replay_image& replay, const prompt_lookup& find,
                        reserved_records& reserved, reconciled& report) {
  for (const replay_record& ready : in_dispatch_order(replay.index)) {
    auto prompt = find(ready.group, ready.sample);
    if (!prompt) return failure(std::move(prompt.error()));
    ledger_record record;
    record.group = ready.group;
    record.sample = ready.sample;
    record.hash = prompt->hash;
    record.task = std::move(prompt->task);
    record.siblings = static_cast<std::uint32_t>(ready.rows.size());
    record.content_attempt = ready.content_attempt;
    report.groups.push_back({ready.group, ready.target_step, -1});
    report.ledger_events.push_back(
        event_of(ready.group, group_state::ready, ready.content_attempt));
    reserved.insert_or_assign(ready.group, std::move(record));
  }
  return {};
}

void take_unfinished(const sampler_image& ledger, reserved_records& reserved, reconciled& report) {
  for (ledger_record& record : in_dispatch_order(ledger.ledger)) {
    if (record.phase == group_phase::admitted) {
      report.groups.push_back({record.group, record.target_step, -1});
      report.ledger_events.push_back(
          event_of(record.group, group_state::admitted, record.content_attempt));
    }
    record.phase = group_phase::reserved;
    record.dispatch_index = -1;
    record.target_step = -1;
    record.admission_version = {};
    record.window = 0;
    record.sibling_records.clear();
    reserved.emplace(record.group, std::move(record));
  }
}

} // namespace

result<void> reserve_again(sampler_image& ledger, replay_image& replay,
                           const sampler_policy& policy, weight_version version,
                           const prompt_lookup& find, reconciled& report) {
  report.buffer_left = true;
  reserved_records reserved;
  if (auto taken = take_ready(replay, find, reserved, report); !taken) return taken;
  take_unfinished(ledger, reserved, report);
  for (const auto& [group, record] : reserved) {
    replay.erase(group);
    ledger.erase(group);
  }
  ledger.sampler = policy.name();
  ledger.window = policy.window();
  ledger.stamps = policy.stamps();
  ledger.dispatch_index = static_cast<std::int64_t>(version.value) - 1;
  ledger.shortfalls.clear();
  std::uint64_t in_batch = 0;
  for (auto& [group, record] : reserved) {
    record.admission = ledger.next_admission;
    ledger.put(std::move(record));
    if (++in_batch < ledger.groups_per_step) continue;
    ++ledger.next_admission;
    in_batch = 0;
  }
  if (in_batch > 0) ++ledger.next_admission;
  return {};
}

} // namespace weir
