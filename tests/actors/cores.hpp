/// What the tests of the functional cores share: a log that remembers, options, short makers.
#pragma once

#include "actors/audit/event.hpp"
#include "actors/replay/replay_state.hpp"
#include "actors/sampler/sampler_state.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir::testing {

/// Keeps every event of one owner.
class remembered_events final : public event_sink {
public:
  void append(std::string_view, sequence_number, const event& what) override {
    if (const auto* group = std::get_if<group_event>(&what)) groups.push_back(*group);
    ++count;
  }
  std::vector<group_event> groups;
  std::size_t count = 0;
};

struct event_log {
  remembered_events sink;
  event_stream stream{sink, "owner"};
};

inline std::shared_ptr<const sampler_policy> policy_of(const std::string& name,
                                                       std::int64_t window = 1) {
  sampler_options options;
  options.name = name;
  options.max_lookahead_versions = window;
  options.max_staleness_versions = window;
  auto policy = make_sampler_policy(options);
  REQUIRE(policy.has_value());
  return *policy;
}

inline group_reservation reservation_of(std::uint64_t group) {
  return {.group = group_id(group),
          .sample = {.epoch = group / 100, .position = group % 100},
          .hash = {.low = group * 3, .high = group * 5},
          .task = "sum",
          .siblings = 2};
}

inline group_reservation reservation_of(const ledger_record& record) {
  return {.group = record.group,
          .sample = record.sample,
          .hash = record.hash,
          .task = record.task,
          .siblings = record.siblings};
}

inline std::vector<group_reservation> reservations(std::uint64_t first, std::uint64_t count) {
  std::vector<group_reservation> groups;
  for (std::uint64_t group = first; group < first + count; ++group)
    groups.push_back(reservation_of(group));
  return groups;
}

inline std::vector<group_id> ids(std::initializer_list<std::uint64_t> numbers) {
  std::vector<group_id> groups;
  for (const std::uint64_t number : numbers)
    groups.emplace_back(number);
  return groups;
}

/// Reserves and admits the groups `first` ... as one batch of N. @pre The gate is open.
inline admission_outcome admit_batch(sampler_state& state, std::uint64_t first, std::uint64_t count,
                                     event_log& log) {
  const std::uint64_t admission = state.next_admission();
  REQUIRE(state.reserve(admission, reservations(first, count), log.stream, 1).has_value());
  const auto outcome = state.admit(admission, log.stream, 2);
  REQUIRE(outcome.has_value());
  REQUIRE(outcome->admitted);
  return *outcome;
}

/// The rows of a group's two siblings, as every test numbers them.
inline std::vector<row_id> rows_of(group_id group) {
  return {row_id(group.value * 2), row_id(group.value * 2 + 1)};
}

/// Starts a group of the ledger in replay and stages its rows. @pre A permit is free.
inline void start_and_stage(replay_state& replay, const ledger_record& record,
                            weight_version made_by) {
  const start_request start{.group = record.group,
                            .dispatch_index = record.dispatch_index,
                            .target_step = record.target_step,
                            .admission_version = record.admission_version,
                            .window = record.window};
  REQUIRE(replay.request_start(start).has_value());
  std::ignore = replay.grant_permits();
  REQUIRE(replay.started(record.group));
  REQUIRE(replay
              .stage({.group = record.group,
                      .content_attempt = record.content_attempt,
                      .start_version = made_by,
                      .end_version = made_by,
                      .rows = rows_of(record.group)})
              .has_value());
}

/// The commit transaction over both owners: the ledger decides, then replay follows.
inline bool commit_group(sampler_state& sampler, replay_state& replay, group_id group,
                         std::uint32_t attempt, event_log& log) {
  const ledger_record* record = sampler.capture().find(group);
  const group_reservation prompt =
      record == nullptr ? group_reservation() : reservation_of(*record);
  const auto released = sampler.release(group, attempt);
  REQUIRE(released.has_value());
  if (!*released) return false;
  const release_outcome& stamp = **released;
  const commit_request request{.group = group,
                               .content_attempt = attempt,
                               .sample = stamp.sample,
                               .dispatch_index = stamp.dispatch_index,
                               .target_step = stamp.target_step,
                               .admission_version = stamp.admission_version,
                               .window = stamp.window,
                               .hash = prompt.hash,
                               .task = prompt.task};
  const auto rows = replay.commit(request, log.stream, 3);
  REQUIRE(rows.has_value());
  CHECK(*rows == rows_of(group));
  return true;
}

/// Generates and commits an admitted group of the ledger.
inline void finish_group(sampler_state& sampler, replay_state& replay, group_id group,
                         weight_version made_by, event_log& log) {
  const ledger_record* record = sampler.capture().find(group);
  REQUIRE(record != nullptr);
  const std::uint32_t attempt = record->content_attempt;
  start_and_stage(replay, ledger_record(*record), made_by);
  CHECK(commit_group(sampler, replay, group, attempt, log));
}

} // namespace weir::testing
