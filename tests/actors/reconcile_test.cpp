#include "actors/rollout/reconcile.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace weir;
using namespace weir::testing;

namespace {

/// A run of N = 3 as a bundle holds it.
struct run {
  sampler_image ledger;
  replay_image replay;
};

run empty_run(const std::string& sampler, std::uint64_t window) {
  run made;
  made.ledger.sampler = sampler;
  made.ledger.window = window;
  made.ledger.groups_per_step = 3;
  made.ledger.stamps = sampler == "in_order";
  return made;
}

void add_admitted(run& to, std::uint64_t group, std::int64_t batch, std::uint64_t version = 0) {
  ledger_record record;
  record.group = group_id(group);
  record.admission = static_cast<std::uint64_t>(batch);
  record.siblings = 2;
  record.phase = group_phase::admitted;
  record.dispatch_index = batch;
  record.target_step = to.ledger.stamps ? batch : -1;
  record.admission_version = weight_version(version);
  record.window = to.ledger.window;
  record.dispatches = 1;
  to.ledger.dispatch_index = std::max(to.ledger.dispatch_index, batch);
  to.ledger.next_admission = std::max(to.ledger.next_admission, record.admission + 1);
  to.ledger.put(record);
}

void add_reserved(run& to, std::uint64_t group, std::uint64_t admission) {
  ledger_record record;
  record.group = group_id(group);
  record.admission = admission;
  record.siblings = 2;
  to.ledger.next_admission = std::max(to.ledger.next_admission, admission + 1);
  to.ledger.put(record);
}

void add_ready(run& to, std::uint64_t group, std::int64_t batch, std::uint64_t version = 0) {
  replay_record record;
  record.group = group_id(group);
  record.dispatch_index = batch;
  record.target_step = to.ledger.stamps ? batch : -1;
  record.admission_version = weight_version(version);
  record.window = to.ledger.window;
  record.start_version = weight_version(version);
  record.end_version = weight_version(version);
  record.rows = rows_of(record.group);
  record.hash = content_hash{.low = group, .high = 1};
  to.ledger.dispatch_index = std::max(to.ledger.dispatch_index, batch);
  to.replay.put(record);
}

result<reconciled> with_sampler(run& made, const std::string& name, std::int64_t window,
                                std::uint64_t version) {
  return reconcile(made.ledger, made.replay, *policy_of(name, window), 3, weight_version(version));
}

std::int64_t target_of(const run& made, std::uint64_t group) {
  if (const replay_record* ready = made.replay.find(group_id(group))) return ready->target_step;
  return made.ledger.find(group_id(group))->target_step;
}

void check_refused(const std::function<void(run&)>& spoil, const std::string& words) {
  run made = empty_run("in_order", 1);
  add_ready(made, 0, 0);
  add_admitted(made, 3, 1);
  spoil(made);
  const auto ledger_before = encode(made.ledger, {});
  const auto replay_before = encode(made.replay, {});
  const auto refused = with_sampler(made, "in_order", 2, 0);
  REQUIRE_FALSE(refused.has_value());
  CAPTURE(refused.error().text);
  CHECK(refused.error().text.find(words) != std::string::npos);
  CHECK(encode(made.ledger, {}) == ledger_before);
  CHECK(encode(made.replay, {}) == replay_before);
}

} // namespace

TEST_SUITE("actors/reconcile") {
  TEST_CASE("an unchanged sampler keeps every stamp") {
    run made = empty_run("in_order", 1);
    add_ready(made, 0, 5);
    add_admitted(made, 1, 5, 4);
    add_reserved(made, 6, 6);
    const auto before = encode(made.ledger, {});
    const auto report = with_sampler(made, "in_order", 1, 5);
    REQUIRE(report.has_value());
    CHECK_FALSE(report->restamped);
    CHECK(report->discarded.empty());
    CHECK(encode(made.ledger, {}) == before);
  }

  TEST_CASE("the data plane wins a group that stands in both") {
    run made = empty_run("in_order", 1);
    add_ready(made, 0, 0);
    add_admitted(made, 0, 0);
    add_admitted(made, 1, 0);
    const auto report = with_sampler(made, "in_order", 1, 0);
    REQUIRE(report.has_value());
    CHECK(report->discarded == ids({0}));
    CHECK(made.ledger.find(group_id(0)) == nullptr);
    CHECK(made.ledger.admitted == tally_of(group_id(1)));
    CHECK(made.replay.ready == tally_of(group_id(0)));
  }

  TEST_CASE("images that contradict each other are refused and stay as they were") {
    check_refused(
        [](run& r) {
          add_ready(r, 1, 4);
          r.ledger.dispatch_index = 3;
        },
        "older than its work");
    check_refused([](run& r) { r.ledger.live_version = weight_version(1); }, "version 1 was live");
    check_refused([](run& r) { add_ready(r, 1, 0, 7); }, "was made by version 7");
    check_refused([](run& r) { add_ready(r, 1, 0), add_ready(r, 2, 0), add_admitted(r, 4, 0); },
                  "step 0 has 4 groups, more than 3");
    check_refused([](run& r) { r.ledger.groups_per_step = 4; },
                  "grpo.num_prompts_per_step is 3, but the bundle was made with 4");
  }

  TEST_CASE("windowed to in_order: what is left is stamped in dispatch order from v on") {
    run made = empty_run("windowed", 1);
    add_ready(made, 1, 0, 4);
    add_admitted(made, 2, 0);
    add_ready(made, 3, 1, 4);
    add_ready(made, 5, 1, 4);
    add_reserved(made, 6, 2);
    add_reserved(made, 7, 2);
    add_reserved(made, 8, 2);
    const auto report = with_sampler(made, "in_order", 1, 4);
    REQUIRE(report.has_value());
    CHECK(report->restamped);
    CHECK(report->sampler_before == "windowed");
    for (const std::uint64_t group : {1U, 2U, 3U})
      CHECK(target_of(made, group) == 4);
    // Group 5 alone would leave a step that never fills: reserved groups join it.
    for (const std::uint64_t group : {5U, 6U, 7U})
      CHECK(target_of(made, group) == 5);
    CHECK(target_of(made, 8) == -1);
    CHECK(made.ledger.dispatch_index == 5);
    CHECK(made.ledger.find(group_id(8))->phase == group_phase::reserved);
    CHECK(report->shortfall == 0);
    CHECK(report->ledger_events.size() == 3);
    CHECK(report->replay_events.size() == 3);
    sampler_state sampler(policy_of("in_order", 1), 3, {});
    REQUIRE(sampler.load(made.ledger).has_value());
    sampler.check_invariants();
    replay_state replay(policy_of("in_order", 1), {});
    REQUIRE(replay.load(made.replay).has_value());
    replay.check_invariants();
  }

  TEST_CASE("a ready group that is too old for its new step is generated again for it") {
    run made = empty_run("windowed", 1);
    for (std::uint64_t group = 0; group < 9; ++group)
      add_ready(made, group, static_cast<std::int64_t>(group / 3), 5);
    const auto report = with_sampler(made, "in_order", 1, 5);
    REQUIRE(report.has_value());
    // Steps 5 and 6 may train on version 5, step 7 may not.
    CHECK(made.replay.index.size() == 6);
    CHECK(report->groups.size() == 9);
    for (const std::uint64_t group : {6U, 7U, 8U}) {
      const ledger_record& again = *made.ledger.find(group_id(group));
      CHECK(again.phase == group_phase::admitted);
      CHECK(again.target_step == 7);
      CHECK(again.content_attempt == 1);
      CHECK(again.admission_version == weight_version(6));
      CHECK(report->groups[group] == restamped_group{group_id(group), -1, 7, true});
    }
    CHECK(report->rows.size() == 6);
    CHECK(report->rows.front() == rows_of(group_id(6)).front());
    CHECK(made.ledger.dispatch_index == 7);
    CHECK(check_image(made.ledger).has_value());
    CHECK(check_image(made.replay).has_value());
  }

  TEST_CASE("a group in flight starts only within its window of the new step") {
    run made = empty_run("windowed", 1);
    for (std::uint64_t group = 0; group < 9; ++group)
      add_admitted(made, group, static_cast<std::int64_t>(group / 3), 4);
    REQUIRE(with_sampler(made, "in_order", 0, 5).has_value());
    CHECK(made.ledger.find(group_id(0))->admission_version == weight_version(4));
    CHECK(made.ledger.find(group_id(3))->admission_version == weight_version(5));
    CHECK(made.ledger.find(group_id(8))->admission_version == weight_version(6));
    CHECK(made.ledger.find(group_id(8))->window == 1);
  }

  TEST_CASE(
      "a group that moves to an earlier step does not wait for the weights of the later one") {
    run made = empty_run("in_order", 0);
    for (std::uint64_t group = 0; group < 6; ++group)
      add_admitted(made, group, 7, 7); // As an earlier restore had stamped them.
    made.ledger.groups_per_step = 3;
    for (const std::uint64_t group : {3U, 4U, 5U}) {
      ledger_record later = *made.ledger.find(group_id(group));
      later.target_step = later.dispatch_index = 8;
      later.admission = 8;
      later.admission_version = weight_version(8);
      made.ledger.put(later);
    }
    made.ledger.dispatch_index = 8;
    made.ledger.next_admission = 9;
    REQUIRE(with_sampler(made, "in_order", 1, 5).has_value());
    CHECK(target_of(made, 0) == 5);
    CHECK(target_of(made, 5) == 6);
    CHECK(made.ledger.find(group_id(0))->admission_version == weight_version(5));
    CHECK(made.ledger.find(group_id(5))->admission_version == weight_version(6));
  }

  TEST_CASE("a smaller window keeps the old window for what was admitted") {
    run made = empty_run("in_order", 2);
    for (std::uint64_t group = 0; group < 9; ++group)
      add_admitted(made, group, static_cast<std::int64_t>(group / 3));
    add_reserved(made, 9, 3);
    const auto report = with_sampler(made, "in_order", 0, 0);
    REQUIRE(report.has_value());
    CHECK(report->window_before == 2);
    CHECK(target_of(made, 8) == 2);
    CHECK(made.ledger.find(group_id(8))->window == 2);
    CHECK(made.ledger.dispatch_index == 2);
    CHECK(made.ledger.window == 0);
    // Reserved groups never wait behind a gate that only they could open.
    sampler_state sampler(policy_of("in_order", 0), 3, {});
    REQUIRE(sampler.load(made.ledger).has_value());
    CHECK_FALSE(*sampler.may_admit());
    CHECK(sampler.version_live(weight_version(3)));
    CHECK(*sampler.may_admit());
  }

  TEST_CASE("a reserved group that fills up a step starts only within the new window") {
    run made = empty_run("windowed", 3);
    for (std::uint64_t group = 0; group < 7; ++group)
      add_ready(made, group, static_cast<std::int64_t>(group / 3), 3);
    add_reserved(made, 7, 3);
    add_reserved(made, 8, 3);
    REQUIRE(with_sampler(made, "in_order", 0, 4).has_value());
    CHECK(target_of(made, 7) == 6);
    CHECK(made.ledger.find(group_id(7))->admission_version == weight_version(6));
    CHECK(made.ledger.find(group_id(7))->window == 0);
    CHECK(made.ledger.find(group_id(7))->phase == group_phase::admitted);
  }

  TEST_CASE("a stamp for an earlier step takes back the weights that the one before demanded") {
    run made = empty_run("in_order", 0);
    add_admitted(made, 0, 6, 6); // Stamped on a resume, for a step that has become an earlier one.
    REQUIRE(with_sampler(made, "in_order", 1, 4).has_value());
    CHECK(target_of(made, 0) == 4);
    CHECK(made.ledger.find(group_id(0))->admission_version == weight_version(4));
  }

  TEST_CASE("what is too old for any step takes no place behind the gate") {
    run made = empty_run("windowed", 0);
    for (std::uint64_t group = 0; group < 3; ++group)
      add_ready(made, group, 0, 2);
    REQUIRE(with_sampler(made, "weight_fifo", 0, 3).has_value());
    CHECK(made.ledger.dispatch_index == 2);
    CHECK(made.replay.find(group_id(0))->dispatch_index == 2);
    sampler_state sampler(policy_of("weight_fifo", 0), 3, {});
    REQUIRE(sampler.load(made.ledger).has_value());
    std::ignore = sampler.version_live(weight_version(3));
    CHECK(*sampler.may_admit());
  }

  TEST_CASE("what would be too old at its turn behind the gate is generated again for it") {
    run made = empty_run("windowed", 0);
    for (std::uint64_t group = 0; group < 5; ++group)
      add_ready(made, group, 0, 4);
    add_admitted(made, 5, 0, 4);
    const auto report = with_sampler(made, "weight_fifo", 0, 4);
    REQUIRE(report.has_value());
    CHECK(made.replay.find(group_id(2))->dispatch_index == 4);
    CHECK(report->rows.size() == 2 * rows_of(group_id(3)).size());
    for (std::uint64_t group = 3; group < 6; ++group) {
      CHECK(made.replay.find(group_id(group)) == nullptr);
      const ledger_record& again = *made.ledger.find(group_id(group));
      CHECK(again.dispatch_index == 5);
      CHECK(again.admission_version == weight_version(5));
      CHECK(again.target_step == -1);
    }
  }

  TEST_CASE("without look-ahead and stamps the gate lets in what fills a last batch up") {
    run made = empty_run("windowed", 0);
    add_ready(made, 0, 3, 4);
    REQUIRE(with_sampler(made, "weight_fifo", 0, 4).has_value());
    CHECK(made.ledger.dispatch_index == 3);
    sampler_state sampler(policy_of("weight_fifo", 0), 3, {});
    REQUIRE(sampler.load(made.ledger).has_value());
    std::ignore = sampler.version_live(weight_version(4));
    CHECK(*sampler.may_admit());
  }

  TEST_CASE("a last step that nothing can fill is trained short") {
    run made = empty_run("windowed", 1);
    add_ready(made, 0, 0, 1);
    add_ready(made, 1, 0, 1);
    const auto report = with_sampler(made, "in_order", 1, 2);
    REQUIRE(report.has_value());
    CHECK(report->shortfall == 1);
    CHECK(*made.ledger.shortfalls.find(2) == 1);
    CHECK(made.ledger.dispatch_index == 2);
  }

  TEST_CASE("in_order to a sampler without stamps clears them and keeps all groups") {
    run made = empty_run("in_order", 1);
    add_ready(made, 0, 4);
    add_admitted(made, 1, 4);
    made.ledger.shortfalls.insert(4, 1);
    const auto report = with_sampler(made, "ready_first", 1, 4);
    REQUIRE(report.has_value());
    CHECK(target_of(made, 0) == -1);
    CHECK(target_of(made, 1) == -1);
    CHECK(made.ledger.shortfalls.empty());
    CHECK(made.ledger.dispatch_index == 4);
    CHECK(report->groups.size() == 2);
    CHECK(report->groups[0] == restamped_group{group_id(0), 4, -1});
    CHECK(check_image(made.ledger).has_value());
  }

  TEST_CASE("a changed sampler with nothing unfinished starts at the restored version") {
    run made = empty_run("windowed", 1);
    made.ledger.dispatch_index = 40;
    REQUIRE(with_sampler(made, "in_order", 1, 7).has_value());
    CHECK(made.ledger.dispatch_index == 6);
    CHECK(made.ledger.stamps);
  }
}
