#include "actors/rollout/drop_replay.hpp"

#include "messages/rule.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace weir {

namespace {

/// Gives each group the admission of those that share its stamp.
class admissions {
public:
  explicit admissions(sampler_image& ledger) : ledger_(ledger) {}

  std::uint64_t of(const ledger_record& record) {
    const auto terms = std::tuple(record.phase, record.dispatch_index, record.target_step,
                                  record.admission_version, record.window);
    const auto known = by_terms_.emplace(terms, ledger_.next_admission);
    if (known.second) ++ledger_.next_admission;
    return known.first->second;
  }

private:
  sampler_image& ledger_;
  std::map<std::tuple<group_phase, std::int64_t, std::int64_t, weight_version, std::uint64_t>,
           std::uint64_t>
      by_terms_;
};

} // namespace

ledger_record unfinished_again(const replay_record& ready) {
  ledger_record record;
  record.group = ready.group;
  record.sample = ready.sample;
  record.hash = *ready.hash;
  record.task = ready.task;
  record.siblings = static_cast<std::uint32_t>(ready.rows.size());
  record.content_attempt = ready.content_attempt + 1;
  if (!enforced(rule::drop_replay_keeps_stamps)) return record;
  record.phase = group_phase::admitted;
  record.dispatch_index = ready.dispatch_index;
  record.target_step = ready.target_step;
  record.admission_version = ready.admission_version;
  record.window = ready.window;
  return record;
}

result<dropped_replay> drop_replay(sampler_image& ledger, replay_image& replay) {
  dropped_replay report;
  sampler_image kept = ledger;
  replay_image emptied = replay;
  admissions given(kept);
  for (const replay_record& ready : in_dispatch_order(replay.index)) {
    if (!ready.hash)
      return failure(errc::unsupported,
                     "replay_buffer_metadata.fb: group " + std::to_string(ready.group.value) +
                         " has no content hash, since an older program wrote it: resume without "
                         "--drop-replay, and drop from a bundle of this program");
    ledger_record record = unfinished_again(ready);
    record.admission = given.of(record);
    group_event what = event_of(record, group_state::ready, group_state::admitted, 0);
    what.reason = event_reason::drop_replay;
    report.ledger_events.push_back(what);
    report.groups.push_back(ready.group);
    report.rows.insert(report.rows.end(), ready.rows.begin(), ready.rows.end());
    kept.put(std::move(record));
    emptied.erase(ready.group);
  }
  ledger = std::move(kept);
  replay = std::move(emptied);
  return report;
}

} // namespace weir
