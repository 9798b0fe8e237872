// A restore that wants fresh samples: READY groups go back into the ledger.
#include "actors/rollout/drop_replay.hpp"
#include "actors/rollout/reconcile.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

/// Groups 0 to 2 for step 0: 0 and 1 READY, 1 CLAIMED, 2 unfinished. Groups 3 to 5 for step 1: 4
/// READY at its second attempt, the others unfinished.
struct cut_run {
  explicit cut_run(const std::string& policy = "in_order") {
    event_log log;
    sampler_state sampler(policy_of(policy, 1), 3, {});
    replay_state replay(policy_of(policy, 1), {});
    std::ignore = admit_batch(sampler, 0, 3, log);
    std::ignore = admit_batch(sampler, 3, 3, log);
    for (const std::uint64_t group : {0U, 1U, 4U}) {
      if (group == 4)
        REQUIRE(sampler.record_failure(group_id(4), failure_kind::data, log.stream, 1).has_value());
      finish_group(sampler, replay, group_id(group), weight_version(0), log);
    }
    ledger = sampler.capture();
    index = replay.capture();
    replay_record claimed = *index.find(group_id(1));
    claimed.claimed_for = 0;
    index.put(claimed);
  }
  [[nodiscard]] group_tally accounted() const {
    cut_tallies tallies;
    add_tallies(ledger, tallies);
    add_tallies(index, tallies);
    group_tally sum;
    for (const group_tally& one : tallies.in_state)
      sum += one;
    return sum;
  }
  sampler_image ledger;
  replay_image index;
};

} // namespace

TEST_SUITE("actors/drop_replay") {
  TEST_CASE("drop_replay keeps stamps and ids, and takes the next attempt") {
    cut_run run;
    const auto dropped = drop_replay(run.ledger, run.index);
    REQUIRE(dropped.has_value());
    CHECK(dropped->groups == ids({0, 1, 4}));
    CHECK(dropped->rows.size() == 6);
    CHECK(run.index.index.empty());
    CHECK(check_image(run.ledger).has_value());
    CHECK(run.accounted() == tally_of_range(group_id(0), 6));
    const ledger_record& again = *run.ledger.find(group_id(4));
    CHECK(again.phase == group_phase::admitted);
    CHECK(again.dispatch_index == 1);
    CHECK(again.target_step == 1);
    CHECK(again.window == 1);
    CHECK(again.content_attempt == 2);
    CHECK(again.sample == sample_id{.epoch = 0, .position = 4});
    CHECK(again.hash == content_hash{.low = 12, .high = 20});
    CHECK(again.task == "sum");
    CHECK(again.siblings == 2);
    CHECK(run.ledger.find(group_id(1))->content_attempt == 1);
    CHECK(run.ledger.find(group_id(2))->content_attempt == 0);
    CHECK(run.ledger.dispatch_index == 1);
  }

  TEST_CASE("each of them is an event of the ledger") {
    cut_run run;
    const auto dropped = drop_replay(run.ledger, run.index);
    REQUIRE(dropped.has_value());
    REQUIRE(dropped->ledger_events.size() == 3);
    const group_event& what = dropped->ledger_events[2];
    CHECK(what.group == group_id(4));
    CHECK(what.from == group_state::ready);
    CHECK(what.to == group_state::admitted);
    CHECK(what.reason == event_reason::drop_replay);
    CHECK(what.attempt == 2);
    CHECK(what.target_step == 1);
  }

  TEST_CASE("a bundle without content hashes is refused, and nothing is changed") {
    cut_run run;
    replay_record old = *run.index.find(group_id(4));
    old.hash.reset();
    run.index.put(old);
    const auto refused = drop_replay(run.ledger, run.index);
    CHECK(refused.error().code == errc::unsupported);
    CHECK(run.ledger.find(group_id(0)) == nullptr);
    CHECK(run.index.index.size() == 3);
  }

  TEST_CASE("with another sampler the dropped groups are stamped anew like all others") {
    cut_run run("weight_fifo");
    REQUIRE(drop_replay(run.ledger, run.index).has_value());
    const auto report =
        reconcile(run.ledger, run.index, *policy_of("in_order", 1), 3, weight_version(0));
    REQUIRE(report.has_value());
    CHECK(run.ledger.find(group_id(0))->target_step == 0);
    CHECK(run.ledger.find(group_id(4))->target_step == 1);
    CHECK(run.ledger.find(group_id(4))->content_attempt == 2);
    sampler_state sampler(policy_of("in_order", 1), 3, {});
    CHECK(sampler.load(run.ledger)->admitted == 6);
  }

  TEST_CASE("there is nothing to drop in an empty index") {
    sampler_image ledger;
    replay_image index;
    const auto dropped = drop_replay(ledger, index);
    REQUIRE(dropped.has_value());
    CHECK(dropped->groups.empty());
  }
}
