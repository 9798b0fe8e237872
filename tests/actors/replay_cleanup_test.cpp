// What the replay actor does when its index and the data plane disagree.
#include "actors/replay/replay.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "actors/runtime/simulation.hpp"
#include "tests/actors/cores.hpp"
#include "tests/support/death.hpp"

#include <doctest/doctest.h>

#include <chrono>

namespace weir::testing {

namespace {

StageGroupT attempt(std::uint32_t number) {
  StageGroupT group;
  group.group = 3;
  group.content_attempt = number;
  auto row = std::make_unique<SiblingRolloutT>();
  row->tokens = {40, 41, 50};
  row->prompt_length = 2;
  row->logprobs = {-0.25F};
  row->versions = {0};
  group.siblings.push_back(std::move(row));
  return group;
}

/// Takes all staged rows away, behind the replay actor's back.
void drop_all_staged(dataplane::store& rows) {
  for (const auto& partition : rows.capture().inventory()) {
    std::vector<row_id> staged;
    for (const dataplane::row_summary& row : partition.rows)
      staged.push_back(row.id);
    ensure(rows.drop_staged(partition.name, staged).has_value(), "the rows are staged");
  }
}

/// Stages a group, and stages its next attempt; `meanwhile` happens to the rows in between.
void stage_twice(void (*meanwhile)(dataplane::store&)) {
  remembered_events events;
  const auto rows = std::make_shared<dataplane::store>();
  const auto counters = std::make_shared<run_counters>();
  simulation around({.seed = 1});
  graph system(around.env());
  const auto buffer =
      system.add<replay>("replay", replay_contents{replay_state(policy_of("in_order"), {}), rows},
                         weight_version(0), events, counters);
  ensure(system.start().has_value(), "the graph starts");
  StartGroupT start;
  start.group = 3;
  start.dispatch_index = start.target_step = 0;
  const deadline_after limit = within(std::chrono::seconds(1));
  ensure(system.ask_blocking(buffer, pack(start), limit).has_value(), "a permit is free");
  ensure(system.ask_blocking(buffer, pack(attempt(0)), limit).has_value(), "there is room");
  meanwhile(*rows);
  const auto again = system.ask_blocking(buffer, pack(attempt(1)), limit);
  ensure(again.has_value(), "there is room for another attempt");
  ensure(rows->stat().staged_rows == 1, "the rows of the first attempt are gone");
  ensure(system.stop().has_value(), "the graph stops");
}

} // namespace

TEST_SUITE("actors/replay") {
  TEST_CASE("a failed clean-up of rows ends the process, and says what does not agree") {
    CHECK(test::death_of([] { stage_twice([](dataplane::store&) {}); }).starts_with("survived"));
    const std::string said = test::death_of([] { stage_twice(&drop_all_staged); });
    INFO(said);
    CHECK(said.find("staged rows of the index are staged in the store") != std::string::npos);
    CHECK(said.find("replay") != std::string::npos);
  }
}

} // namespace weir::testing
