// Shadow mode: what a bundle's buffer and ledger come to when the sampler's buffer is not restored.
#include "actors/rollout/reserve_again.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace weir;
using namespace weir::testing;

namespace {

constexpr std::uint64_t groups_per_step = 3;

/// in_order, whose buffer is not restored.
class forgetful final : public sampler_policy {
public:
  [[nodiscard]] std::string_view name() const override { return "forgetful"; }
  [[nodiscard]] std::uint64_t window() const override { return 2; }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool stamps() const override { return true; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return false; }
  [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override { return true; }
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view&,
                                                     const selection&) const override {
    return std::vector<group_id>();
  }
};

/// A run at version 6: groups 0 and 1 READY, 2 to 4 in flight, 5 to 7 RESERVED.
struct cut_run {
  sampler_image ledger;
  replay_image replay;
  reconciled report;

  cut_run() {
    ledger.sampler = "forgetful";
    ledger.window = 2;
    ledger.groups_per_step = groups_per_step;
    ledger.stamps = true;
    ledger.dispatch_index = 8;
    ledger.next_admission = 4;
    ledger.shortfalls.insert(7, 1);
    ledger.dropped.add(drop_reason::data_failure, group_id(77));
    for (const std::uint64_t group : {0U, 1U})
      add_ready(group);
    for (const std::uint64_t group : {2U, 3U, 4U})
      add_unfinished(group, group_phase::admitted);
    for (const std::uint64_t group : {5U, 6U, 7U})
      add_unfinished(group, group_phase::reserved);
  }

  void add_ready(std::uint64_t group) {
    replay_record ready;
    ready.group = group_id(group);
    ready.sample = {.epoch = 0, .position = group};
    ready.content_attempt = 2;
    ready.dispatch_index = ready.target_step = 7;
    ready.rows = rows_of(ready.group);
    replay.put(ready);
  }
  void add_unfinished(std::uint64_t group, group_phase phase) {
    ledger_record record = record_of(reservation_of(group));
    record.phase = phase;
    record.admission = phase == group_phase::reserved ? 3 : 2;
    record.infra_attempts = 4;
    record.data_attempts = 1;
    record.content_attempt = 1;
    if (phase == group_phase::admitted) {
      record.dispatch_index = record.target_step = 8;
      record.admission_version = weight_version(6);
      record.window = 2;
      record.dispatches = 1;
      record.sibling_records = {{.sibling = 0, .sealed = true, .row = row_id(40)}};
    }
    ledger.put(record);
  }
  result<void> reserve() {
    return reserve_again(ledger, replay, forgetful(), weight_version(6), find, report);
  }
  static result<group_reservation> find(group_id group, sample_id sample) {
    group_reservation prompt = reservation_of(group.value);
    prompt.sample = sample;
    return prompt;
  }
};

std::vector<group_id> groups_of_admission(const sampler_image& ledger, std::uint64_t admission) {
  std::vector<group_id> groups;
  for (const ledger_record& record : in_dispatch_order(ledger.ledger))
    if (record.admission == admission) groups.push_back(record.group);
  return groups;
}

} // namespace

TEST_SUITE("actors/reserve_again") {
  TEST_CASE("every prompt that was not consumed is reserved again, in group order, in batches") {
    cut_run run;
    REQUIRE(run.reserve().has_value());
    CHECK(run.report.buffer_left);
    CHECK(run.replay.index.empty());
    CHECK(run.replay.ready.count == 0);
    CHECK(run.ledger.reserved == tally_of_range(group_id(0), 8));
    CHECK(run.ledger.admitted.count == 0);
    CHECK(groups_of_admission(run.ledger, 4) == ids({0, 1, 2}));
    CHECK(groups_of_admission(run.ledger, 5) == ids({3, 4, 5}));
    CHECK(groups_of_admission(run.ledger, 6) == ids({6, 7}));
    CHECK(run.ledger.next_admission == 7);
    CHECK(check_image(run.ledger).has_value());
    CHECK(check_image(run.replay).has_value());
  }

  TEST_CASE("stamps and shortfalls go, and admission goes on from the restored version") {
    cut_run run;
    REQUIRE(run.reserve().has_value());
    CHECK(run.ledger.dispatch_index == 5);
    CHECK(run.ledger.shortfalls.empty());
    for (const ledger_record& record : in_dispatch_order(run.ledger.ledger)) {
      CHECK(record.phase == group_phase::reserved);
      CHECK(record.target_step == -1);
      CHECK(record.dispatch_index == -1);
      CHECK(record.admission_version == weight_version());
      CHECK(record.sibling_records.empty());
    }
    sampler_state sampler(std::make_shared<const forgetful>(), groups_per_step, {});
    REQUIRE(sampler.load(run.ledger).has_value());
    sampler.check_invariants();
    event_log log;
    const auto admitted = sampler.admit(4, log.stream, 1);
    REQUIRE(admitted.has_value());
    CHECK(admitted->target_step == 6);
  }

  TEST_CASE("attempts are kept, so that a prompt fails no more often than it may") {
    cut_run run;
    REQUIRE(run.reserve().has_value());
    CHECK(run.ledger.find(group_id(0))->content_attempt == 2);
    CHECK(run.ledger.find(group_id(0))->hash == reservation_of(0).hash);
    CHECK(run.ledger.find(group_id(0))->task == "sum");
    CHECK(run.ledger.find(group_id(0))->siblings == 2);
    const ledger_record& unfinished = *run.ledger.find(group_id(3));
    CHECK(unfinished.infra_attempts == 4);
    CHECK(unfinished.data_attempts == 1);
    CHECK(unfinished.content_attempt == 1);
    CHECK(run.ledger.dropped.total().count == 1);
  }

  TEST_CASE("what was not reserved before is an event of the ledger and a line of the table") {
    cut_run run;
    REQUIRE(run.reserve().has_value());
    REQUIRE(run.report.ledger_events.size() == 5);
    CHECK(run.report.replay_events.empty());
    for (const group_event& what : run.report.ledger_events) {
      CHECK(what.from == (what.group.value < 2 ? group_state::ready : group_state::admitted));
      CHECK(what.to == group_state::reserved);
      CHECK(what.reason == event_reason::not_restored);
    }
    CHECK(run.report.groups.front() == restamped_group{group_id(0), 7, -1});
    CHECK(run.report.groups.back() == restamped_group{group_id(4), 8, -1});
  }

  TEST_CASE("a prompt that is not found any more ends the restore with what the dataset says") {
    cut_run run;
    const auto gone = [](group_id, sample_id) -> result<group_reservation> {
      return failure(errc::conflict, "problems.jsonl: record 1 has changed");
    };
    const auto refused =
        reserve_again(run.ledger, run.replay, forgetful(), weight_version(6), gone, run.report);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text == "problems.jsonl: record 1 has changed");
  }
}
