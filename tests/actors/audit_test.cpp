#include "actors/audit/audit.hpp"
#include "tests/actors/run_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace weir {
namespace {

using testing::run_log;

/// The texts of the problems of one rule.
std::vector<std::string> texts(const audit_report& report, audit_rule rule) {
  std::vector<std::string> found;
  for (const audit_problem& each : report.problems)
    if (each.rule == rule) found.push_back(each.text);
  return found;
}

std::string first_problem(const audit_report& report) {
  return report.problems.empty() ? "clean" : to_string(report.problems.front());
}

std::uint64_t count_of(const audit_report& report, group_state state) {
  return report.in_state[static_cast<std::size_t>(state)];
}

/// A run that trained two steps of two groups and has two more ready.
run_log ordinary_run() {
  run_log run;
  run.start();
  run.make(2);
  run.train({0, 1});
  run.make(2);
  run.train({2, 3});
  run.make(2);
  return run;
}

} // namespace

TEST_SUITE("actors/audit") {
  TEST_CASE("an uninterrupted run is clean and counted") {
    run_log run = ordinary_run();
    run.reserve(3);
    run.drop(6, event_reason::end_of_data);
    const auto report = run.audited();
    CHECK(first_problem(report) == "clean");
    CHECK(report.handed_out == 9);
    CHECK(count_of(report, group_state::consumed) == 4);
    CHECK(count_of(report, group_state::ready) == 2);
    CHECK(count_of(report, group_state::reserved) == 2);
    CHECK(report.dropped[static_cast<std::size_t>(event_reason::end_of_data)] == 1);
    CHECK(report.steps_finished == 2);
    CHECK(report.consumed == std::vector{group_id(0), group_id(1), group_id(2), group_id(3)});
    REQUIRE(report.incarnations.size() == 1);
    CHECK(report.incarnations[0].survives);
    CHECK(report.incarnations[0].rolled_back == 0);
  }

  TEST_CASE("nothing to audit is clean") {
    CHECK(audit({}, {}).clean());
    run_log run;
    run.start();
    CHECK(run.audited().clean());
  }

  TEST_CASE("what lies beyond the restored cut never happened") {
    run_log run = ordinary_run();
    const auto bundle = run.save();
    run.train({4, 5}); // beyond the cut, and again after the restore
    run.make(2);
    run.restore(bundle);
    run.train({4, 5});
    run.make(2);
    run.train({6, 7});
    run.end(finish_reason::end_of_data);
    const auto report = run.audited();
    CHECK(first_problem(report) == "clean");
    CHECK(count_of(report, group_state::consumed) == 8);
    CHECK(report.steps_finished == 4);
    REQUIRE(report.incarnations.size() == 2);
    CHECK(report.incarnations[0].survives);
    CHECK(report.incarnations[0].rolled_back == 12); // 2 claims, 2 consumed, 1 step, 7 of the batch
    CHECK(report.incarnations[1].restored_bundle == bundle.bundle);
    CHECK(report.incarnations[1].rolled_back == 0);
  }

  TEST_CASE("a claimed group is ready again after a restore") {
    run_log run = ordinary_run();
    run.claim(4);
    const auto bundle = run.save();
    run.restore(bundle);
    run.train({4, 5});
    run.end(finish_reason::end_of_data);
    const auto report = run.audited();
    CHECK(first_problem(report) == "clean");
    CHECK(count_of(report, group_state::consumed) == 6);
  }

  TEST_CASE("several incarnations may restore one bundle, and only the last of them counts") {
    run_log run = ordinary_run();
    const auto bundle = run.save();
    run.restore(bundle);
    run.train({4, 5});
    run.restore(bundle);
    run.make(3);
    run.restore(bundle);
    run.train({4, 5});
    const auto later = run.save();
    run.restore(later);
    run.make(1);
    const auto report = run.audited();
    CHECK(first_problem(report) == "clean");
    CHECK(report.handed_out == 7);
    REQUIRE(report.incarnations.size() == 5);
    CHECK_FALSE(report.incarnations[1].survives);
    CHECK(report.incarnations[1].rolled_back == report.incarnations[1].events);
    CHECK_FALSE(report.incarnations[2].survives);
    CHECK(report.incarnations[3].survives);
  }

  TEST_CASE("a cut holds prefixes, even when an owner wrote on before the cut was logged") {
    run_log run = ordinary_run();
    const cut_event cut = run.cut_now();
    run.make(2);
    const auto at_cut = [&run] {
      auto before = run.now;
      before.groups.erase(6);
      before.groups.erase(7);
      before.next_group = 6;
      return before;
    }();
    auto bundle = run.publish(cut);
    bundle.at = at_cut;
    run.restore(bundle);
    run.make(2);
    run.train({4, 5});
    CHECK(first_problem(run.audited()) == "clean");
  }

  TEST_CASE("an incarnation that died while it restored does not matter") {
    run_log run = ordinary_run();
    run.save();
    run.start();
    const auto report = run.audited();
    CHECK(first_problem(report) == "clean");
    CHECK(report.incarnations[0].survives);
    CHECK(count_of(report, group_state::consumed) == 4);
  }

  TEST_CASE("a torn last line is the kill's; any other malformed line is named") {
    run_log run = ordinary_run();
    SUBCASE("torn") {
      run.append_text("{\"i\":1,\"o\":\"samp");
      const auto report = run.audited();
      CHECK(first_problem(report) == "clean");
      CHECK(report.incarnations[0].torn_tail);
    }
    SUBCASE("zeros of a lost page") {
      run.append_text(std::string(100, '\0'));
      CHECK(run.audited().clean());
    }
    SUBCASE("malformed") {
      run.append_text("{\"i\":1,\"o\":\"samp\n");
      CHECK(first_problem(run.audited()) ==
            "events-1.jsonl:33: log: column 17: expected printable text and a closing quote");
    }
  }

  TEST_CASE("a gap in an owner's sequence is a lost event") {
    run_log run = ordinary_run();
    run.append("trainer", 9, step_finished_event{.step = 2, .version = weight_version(3)});
    const auto found = texts(run.audited(), audit_rule::log);
    REQUIRE(found.size() == 1);
    CHECK(found[0] == "trainer: event 9 where 3 was due: events are missing");
  }

  TEST_CASE("an event of another incarnation is no event of this log") {
    run_log run = ordinary_run();
    std::string foreign;
    encode_event(foreign, incarnation(7), "trainer", sequence_number(3),
                 step_finished_event{.step = 2, .version = weight_version(3)});
    run.append_text(foreign);
    CHECK(texts(run.audited(), audit_rule::log) ==
          std::vector<std::string>{"an event of incarnation 7 in the log of 1"});
  }

  TEST_CASE("at most the first thousand problems are kept, all are counted") {
    run_log run;
    run.start();
    for (int line = 0; line < 1500; ++line)
      run.append_text("nothing\n");
    const auto report = run.audited();
    CHECK(report.problems_total == 1500);
    CHECK(report.problems.size() == audit_problems_max);
    CHECK_FALSE(report.clean());
  }
}

} // namespace weir
