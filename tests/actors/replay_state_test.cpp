#include "actors/replay/replay_state.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

replay_state replay_of(const std::string& sampler, std::uint64_t capacity = 64,
                       std::int64_t window = 1, bool prefix_only = false) {
  return {policy_of(sampler, window),
          {.groups_buffered_max = capacity, .ready_prefix_only = prefix_only}};
}

start_request start_of(std::uint64_t group, std::int64_t batch) {
  return {.group = group_id(group),
          .dispatch_index = batch,
          .target_step = batch,
          .admission_version = weight_version(0),
          .window = 1};
}

staged_group staged_of(std::uint64_t group, std::uint32_t attempt = 0, std::uint64_t version = 0) {
  return {.group = group_id(group),
          .content_attempt = attempt,
          .start_version = weight_version(version),
          .end_version = weight_version(version),
          .rows = rows_of(group_id(group))};
}

commit_request commit_of(std::uint64_t group, std::int64_t batch, std::uint32_t attempt = 0) {
  return {.group = group_id(group),
          .content_attempt = attempt,
          .sample = {.epoch = 0, .position = group},
          .dispatch_index = batch,
          .target_step = batch,
          .admission_version = weight_version(0),
          .window = 1};
}

void start(replay_state& state, std::uint64_t group, std::int64_t batch) {
  REQUIRE(state.request_start(start_of(group, batch)).has_value());
  REQUIRE(state.grant_permits() == ids({group}));
}

/// Start, stage and commit.
void finish(replay_state& state, std::uint64_t group, std::int64_t batch, event_log& log,
            std::uint64_t version = 0) {
  start(state, group, batch);
  REQUIRE(state.stage(staged_of(group, 0, version)).has_value());
  REQUIRE(state.commit(commit_of(group, batch), log.stream, 1).has_value());
  state.check_invariants();
}

std::vector<group_id> groups_of(const std::vector<replay_record>& records) {
  std::vector<group_id> groups;
  for (const replay_record& record : records)
    groups.push_back(record.group);
  return groups;
}

} // namespace

TEST_SUITE("actors/replay_state") {
  TEST_CASE("permits are granted in dispatch order, whatever the order of requests") {
    replay_state state = replay_of("in_order", 2);
    for (const std::uint64_t group : {5U, 3U, 4U, 0U})
      REQUIRE(
          state.request_start(start_of(group, static_cast<std::int64_t>(group / 3))).has_value());
    CHECK(state.grant_permits() == ids({0, 3}));
    CHECK(state.grant_permits().empty());
    CHECK(state.stop(group_id(0)).empty());
    CHECK(state.grant_permits() == ids({4}));
    CHECK(state.slots() == 2);
    CHECK(state.permits().waiting() == 1);
    state.check_invariants();
  }

  TEST_CASE("a start that comes twice takes one permit") {
    replay_state state = replay_of("in_order", 2);
    start(state, 0, 0);
    REQUIRE(state.request_start(start_of(0, 0)).has_value());
    CHECK(state.grant_permits().empty());
    CHECK(state.permits().taken() == 1);
    CHECK(state.permits().waiting() == 0);
  }

  TEST_CASE("a group that stops gives its permit, its request or its rows back once") {
    replay_state state = replay_of("in_order", 1);
    start(state, 0, 0);
    REQUIRE(state.request_start(start_of(1, 0)).has_value());
    REQUIRE(state.stage(staged_of(0)).has_value());
    CHECK(state.stop(group_id(1)).empty());
    CHECK(state.permits().waiting() == 0);
    CHECK(state.stop(group_id(0)) == rows_of(group_id(0)));
    CHECK(state.stop(group_id(0)).empty());
    CHECK(state.permits().taken() == 0);
    CHECK(state.staged() == 0);
    state.check_invariants();
  }

  TEST_CASE("staging replaces an earlier attempt and refuses a later one") {
    replay_state state = replay_of("in_order");
    CHECK(state.stage(staged_of(0)).error().code == errc::conflict);
    start(state, 0, 0);
    CHECK(state.stage(staged_of(0))->empty());
    staged_group second = staged_of(0, 1);
    second.rows = {row_id(100), row_id(101)};
    CHECK(*state.stage(second) == rows_of(group_id(0)));
    CHECK(state.stage(staged_of(0)).error().code == errc::conflict);
    CHECK(state.discard(group_id(0), 0).empty());
    CHECK(state.discard(group_id(0), 1) == std::vector{row_id(100), row_id(101)});
    CHECK(state.staged() == 0);
    CHECK(state.started(group_id(0)));
    second.rows.clear();
    CHECK(state.stage(second).error().code == errc::invalid_argument);
    state.check_invariants();
  }

  TEST_CASE("a commit needs the staged rows of its very attempt, or changes nothing") {
    event_log log;
    replay_state state = replay_of("in_order");
    start(state, 0, 0);
    REQUIRE(state.stage(staged_of(0, 1)).has_value());
    CHECK(state.commit(commit_of(0, 0, 0), log.stream, 1).error().code == errc::conflict);
    CHECK(state.commit(commit_of(0, 1, 1), log.stream, 1).error().code == errc::conflict);
    CHECK(state.commit(commit_of(7, 0, 0), log.stream, 1).error().code == errc::conflict);
    CHECK(log.sink.count == 0);
    CHECK(state.buffered() == 0);
    REQUIRE(state.commit(commit_of(0, 0, 1), log.stream, 4).has_value());
    CHECK(state.commit(commit_of(0, 0, 1), log.stream, 1).error().code == errc::conflict);
    CHECK(state.request_start(start_of(0, 0)).error().code == errc::conflict);
    CHECK(state.stage(staged_of(0, 2)).error().code == errc::conflict);
    REQUIRE(log.sink.groups.size() == 1);
    CHECK(log.sink.groups[0].from == group_state::admitted);
    CHECK(log.sink.groups[0].to == group_state::ready);
    CHECK(log.sink.groups[0].attempt == 1);
    CHECK(log.sink.groups[0].transaction == 4);
    CHECK(state.slots() == 1);
    state.check_invariants();
  }

  TEST_CASE("the order of commits does not change the order of a batch") {
    event_log log;
    replay_state state = replay_of("in_order");
    for (const std::uint64_t group : {2U, 0U, 1U})
      finish(state, group, 0, log);
    const auto batch = state.claim(0, weight_version(0), 3, log.stream, 5);
    REQUIRE(batch.has_value());
    CHECK(groups_of(*batch) == ids({0, 1, 2}));
    CHECK((*batch)[1].rows == rows_of(group_id(1)));
    CHECK((*batch)[1].claimed_for == 0);
  }

  TEST_CASE("a claim takes exactly what was asked for, or nothing") {
    event_log log;
    replay_state state = replay_of("in_order");
    finish(state, 0, 0, log);
    finish(state, 3, 1, log);
    const auto short_one = state.claim(0, weight_version(0), 2, log.stream, 1);
    REQUIRE(short_one.has_value());
    CHECK(short_one->empty());
    CHECK(state.claimed(0) == 0);
    CHECK(state.buffered() == 2);
    finish(state, 1, 0, log);
    CHECK(state.outlook(0, weight_version(0), 2)->prospect == batch_prospect::ready);
    CHECK(groups_of(*state.claim(0, weight_version(0), 2, log.stream, 1)) == ids({0, 1}));
    CHECK(state.claimed(0) == 2);
    CHECK(state.buffered() == 1);
    CHECK(state.permits().taken() == 1);
    const group_event& last = log.sink.groups.back();
    CHECK(last.to == group_state::claimed);
    CHECK(last.step == 0);
    CHECK(last.trainer_version == weight_version(0));
    state.check_invariants();
  }

  TEST_CASE("a step may claim in chunks, all at one version, and is consumed whole") {
    event_log log;
    replay_state state = replay_of("in_order");
    for (const std::uint64_t group : {0U, 1U, 2U})
      finish(state, group, 0, log);
    CHECK(groups_of(*state.claim(0, weight_version(0), 2, log.stream, 1)) == ids({0, 1}));
    CHECK(state.claim(0, weight_version(1), 1, log.stream, 1).error().code == errc::conflict);
    CHECK(groups_of(*state.claim(0, weight_version(0), 1, log.stream, 1)) == ids({2}));
    const cleared_groups cleared = state.consume(0, log.stream, 8);
    CHECK(cleared.groups == ids({0, 1, 2}));
    CHECK(cleared.rows.size() == 6);
    CHECK(state.capture().consumed == tally_of_range(group_id(0), 3));
    CHECK(state.capture().index.empty());
    CHECK(state.slots() == 0);
    CHECK(state.consume(0, log.stream, 8).groups.empty());
    CHECK(log.sink.groups.back().from == group_state::claimed);
    CHECK(log.sink.groups.back().to == group_state::consumed);
    state.check_invariants();
  }

  TEST_CASE("an eviction drops past targets only, frees their permits and hands out their rows") {
    event_log log;
    replay_state state = replay_of("in_order", 2);
    finish(state, 0, 0, log);
    finish(state, 3, 1, log);
    REQUIRE(state.request_start(start_of(6, 2)).has_value());
    CHECK(state.grant_permits().empty());
    CHECK_FALSE(*state.eviction_due(weight_version(0)));
    CHECK(state.evict(weight_version(0), log.stream, 1)->groups.empty());
    CHECK(*state.eviction_due(weight_version(1)));
    const cleared_groups cleared = *state.evict(weight_version(1), log.stream, 2);
    CHECK(cleared.groups == ids({0}));
    CHECK(cleared.rows == rows_of(group_id(0)));
    CHECK(state.capture().dropped.of(drop_reason::stale) == tally_of(group_id(0)));
    CHECK(state.grant_permits() == ids({6}));
    CHECK(log.sink.groups.back().reason == event_reason::stale);
    state.check_invariants();
  }

  TEST_CASE("a reproducible claim takes the ready prefix only") {
    event_log log;
    replay_state state = replay_of("in_order", 64, 0, true);
    start(state, 0, 0);
    finish(state, 1, 0, log);
    finish(state, 2, 0, log);
    CHECK(state.outlook(0, weight_version(0), 2)->prospect == batch_prospect::wait);
    CHECK(state.claim(0, weight_version(0), 2, log.stream, 1)->empty());
    REQUIRE(state.stage(staged_of(0)).has_value());
    REQUIRE(state.commit(commit_of(0, 0), log.stream, 1).has_value());
    CHECK(groups_of(*state.claim(0, weight_version(0), 2, log.stream, 1)) == ids({0, 1}));
  }

  TEST_CASE("a chunk is what is ready, from the least that is asked up to what the step lacks") {
    event_log log;
    replay_state state = replay_of("in_order");
    finish(state, 0, 0, log);
    CHECK(state.outlook(0, weight_version(0), 2, 4)->prospect == batch_prospect::wait);
    CHECK(state.claim(0, weight_version(0), 2, 4, log.stream, 1)->empty());
    finish(state, 1, 0, log);
    finish(state, 2, 0, log);
    CHECK(state.outlook(0, weight_version(0), 2, 4)->available == 3);
    CHECK(groups_of(*state.claim(0, weight_version(0), 2, 4, log.stream, 1)) == ids({0, 1, 2}));
    finish(state, 3, 0, log);
    finish(state, 4, 1, log);
    CHECK(groups_of(*state.claim(0, weight_version(0), 1, 1, log.stream, 1)) == ids({3}));
    CHECK(state.claimed(0) == 4);
    state.check_invariants();
  }

  TEST_CASE("a stamped step that can never fill says what it has and what it lacks") {
    event_log log;
    replay_state state = replay_of("in_order");
    for (const std::uint64_t group : {0U, 1U})
      finish(state, group, 0, log);
    finish(state, 3, 1, log);
    REQUIRE(state.claim(0, weight_version(0), 1, log.stream, 1).has_value());
    CHECK(state.outlook(0, weight_version(0), 2)->prospect == batch_prospect::wait);
    state.end_supply("the dataset is at its end");
    const auto never = state.outlook(0, weight_version(0), 2);
    REQUIRE_FALSE(never.has_value());
    CHECK(never.error().code == errc::exhausted);
    CHECK(never.error().text ==
          "step 0 can never fill: 1 groups are claimed, 2 more are needed, 2 are buffered, and no "
          "further group will come (the dataset is at its end)");
  }

  TEST_CASE("running out of data with nothing left is a normal end") {
    event_log log;
    replay_state state = replay_of("in_order");
    state.end_supply("the dataset is at its end");
    CHECK(state.supply_ended());
    const auto end = state.outlook(4, weight_version(4), 3);
    REQUIRE(end.has_value());
    CHECK(end->prospect == batch_prospect::ended);
    CHECK(end->available == 0);
  }

  TEST_CASE("without stamps a short last step is dropped and counted, claimed part included") {
    event_log log;
    replay_state state = replay_of("ready_first", 4);
    for (const std::uint64_t group : {0U, 1U, 2U})
      finish(state, group, 0, log);
    REQUIRE(state.claim(0, weight_version(0), 1, log.stream, 1)->size() == 1);
    state.end_supply("the dataset is at its end");
    const auto end = state.outlook(0, weight_version(0), 3);
    REQUIRE(end.has_value());
    CHECK(end->prospect == batch_prospect::ended);
    CHECK(end->available == 2);
    const cleared_groups cleared = state.drop_remainder(log.stream, 1);
    CHECK(cleared.groups == ids({0, 1, 2}));
    CHECK(cleared.rows.size() == 6);
    CHECK(state.capture().dropped.of(drop_reason::end_of_data) == tally_of_range(group_id(0), 3));
    CHECK(state.permits().taken() == 0);
    state.check_invariants();
  }

  TEST_CASE("a step without groups is ready at once") {
    const replay_state state = replay_of("in_order");
    CHECK(state.outlook(0, weight_version(0), 0)->prospect == batch_prospect::ready);
  }

  TEST_CASE("a policy that names what is not ready ends the claim with its name") {
    class liar final : public sampler_policy {
    public:
      [[nodiscard]] std::string_view name() const override { return "liar"; }
      [[nodiscard]] std::uint64_t window() const override { return 0; }
      [[nodiscard]] bool gated() const override { return false; }
      [[nodiscard]] bool supports_buffer_checkpoint() const override { return false; }
      [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override {
        return true;
      }
      [[nodiscard]] result<std::vector<group_id>> select(const slot_view&,
                                                         const selection&) const override {
        return ids({41, 41});
      }
    };
    event_log log;
    replay_state state(std::make_shared<const liar>(), {});
    const auto claimed = state.claim(0, weight_version(0), 2, log.stream, 1);
    REQUIRE_FALSE(claimed.has_value());
    CHECK(claimed.error().text ==
          "sampler liar named group 41, which is not ready, or named it twice");
    CHECK(state.claimed(0) == 0);
  }

  TEST_CASE("the versions of a group are those of its first and of its last token") {
    const std::vector<std::vector<std::uint64_t>> siblings = {{4, 4, 5}, {}, {3, 6}};
    const auto span = versions_of(siblings);
    REQUIRE(span.has_value());
    CHECK(span->start == weight_version(3));
    CHECK(span->end == weight_version(6));
    CHECK_FALSE(versions_of(std::vector<std::vector<std::uint64_t>>{{}, {}}).has_value());
  }
}
