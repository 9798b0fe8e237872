// A group in flight that is given up while its commit is under way: every order of the steps of
// both, with a cut after each of them. The ledger decides; whoever comes second changes nothing.
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace weir;
using namespace weir::testing;

namespace {

/// One group in flight, with its rows staged or not, and the transactions that may end it.
class contended_group {
public:
  explicit contended_group(bool is_staged)
      : sampler_(policy_of("windowed", 0), 1, {}),
        replay_(policy_of("windowed", 0), {.groups_buffered_max = 1}) {
    std::ignore = admit_batch(sampler_, 0, 1, log_);
    const ledger_record& record = *sampler_.capture().find(group);
    if (is_staged) return start_and_stage(replay_, record, weight_version(0));
    REQUIRE(replay_.request_start({.group = group, .dispatch_index = 0}).has_value());
    CHECK(replay_.grant_permits() == ids({0}));
    replay_.begun(group, weight_version(0));
  }

  /// 'r', 'c': release, then commit or discard. 'd', 's': drop, then stop. 'f': a failed attempt.
  void play(char step) {
    switch (step) {
    case 'r':
      released_ = *sampler_.release(group, 0);
      break;
    case 'c':
      end_commit();
      break;
    case 'd': {
      const std::vector<group_id> groups = {group};
      dropped_ = sampler_.drop(groups, drop_reason::stale, log_.stream, 2)->size();
      break;
    }
    case 's':
      if (dropped_ == 1) count_dropped_rows(replay_.stop(group));
      break;
    default:
      std::ignore = sampler_.record_failure(group, failure_kind::infra, log_.stream, 3);
    }
    // A commit holds its lease from release to commit: no cut falls in between.
    const bool halfway = released_.has_value() && !committed_;
    if (!halfway) check_cut();
  }

  void check_end(bool committed) {
    CHECK(committed_ == committed);
    CHECK(sampler_.capture().find(group) == nullptr);
    CHECK(replay_.buffered() == (committed ? 1 : 0));
    CHECK(replay_.permits().taken() == (committed ? 1 : 0));
    CHECK(replay_.permits().waiting() == 0);
    CHECK(replay_.staged() == 0);
    CHECK(sampler_.capture().dropped.by_reason[0].count == (committed ? 0 : 1));
  }
  [[nodiscard]] std::size_t rows_dropped() const { return rows_dropped_; }

  static constexpr group_id group{0};

private:
  void end_commit() {
    if (!released_) {
      count_dropped_rows(replay_.discard(group, 0));
      return count_dropped_rows(replay_.stop(group));
    }
    const commit_request request{.group = group, .dispatch_index = released_->dispatch_index};
    committed_ = replay_.commit(request, log_.stream, 1).has_value();
  }
  void count_dropped_rows(const std::vector<row_id>& rows) { rows_dropped_ += rows.size(); }

  void check_cut() {
    sampler_.check_invariants();
    replay_.check_invariants();
    cut_tallies tallies;
    add_tallies(sampler_.capture(), tallies);
    add_tallies(replay_.capture(), tallies);
    group_tally everywhere;
    for (const group_tally& one : tallies.in_state)
      everywhere += one;
    CHECK(everywhere == tally_of(group));
  }

  event_log log_;
  sampler_state sampler_;
  replay_state replay_;
  std::optional<release_outcome> released_;
  std::size_t dropped_ = 0;
  std::size_t rows_dropped_ = 0;
  bool committed_ = false;
};

/// Every order of these steps in which 'c' follows 'r' and 's' follows 'd'.
std::vector<std::string> orders_of(std::string steps) {
  std::vector<std::string> orders;
  std::ranges::sort(steps);
  do {
    const bool legal = steps.find('r') <= steps.find('c') && steps.find('d') < steps.find('s');
    if (legal) orders.push_back(steps);
  } while (std::ranges::next_permutation(steps).found);
  return orders;
}

} // namespace

TEST_SUITE("actors/abort") {
  TEST_CASE("commit against abort: one of them ends the group, once, in every order") {
    const auto orders = orders_of("rcds");
    CHECK(orders.size() == 6);
    for (const std::string& order : orders) {
      CAPTURE(order);
      contended_group contended(true);
      for (const char step : order)
        contended.play(step);
      const bool committed = order.find('r') < order.find('d');
      contended.check_end(committed);
      CHECK(contended.rows_dropped() == (committed ? 0 : 2));
    }
  }

  TEST_CASE("an abort ends a group that has no rows yet, whatever its attempt comes to") {
    const auto orders = orders_of("dsf");
    CHECK(orders.size() == 3);
    for (const std::string& order : orders) {
      CAPTURE(order);
      contended_group contended(false);
      for (const char step : order)
        contended.play(step);
      contended.check_end(false);
    }
  }

  TEST_CASE("a failed attempt and an abort leave no slot behind, with rows staged") {
    for (const std::string& order : orders_of("rcdsf")) {
      CAPTURE(order);
      contended_group contended(true);
      for (const char step : order)
        contended.play(step);
      contended.check_end(order.find('r') < order.find('d'));
    }
  }

  TEST_CASE("a policy proposes what began outside of its window, until it is stopped or ready") {
    replay_state replay(policy_of("windowed", 1), {.groups_buffered_max = 2});
    for (const std::uint64_t group : {0U, 1U})
      REQUIRE(replay.request_start({.group = group_id(group), .dispatch_index = 0, .window = 1})
                  .has_value());
    std::ignore = replay.grant_permits();
    CHECK(replay.stale_in_flight(weight_version(9))->empty()); // Neither has a token.
    replay.begun(group_id(0), weight_version(3));
    replay.begun(group_id(7), weight_version(3)); // Unknown: stopped long ago.
    CHECK(replay.stale_in_flight(weight_version(4))->empty());
    CHECK(*replay.stale_in_flight(weight_version(5)) == ids({0}));
    replay.begun(group_id(0), std::nullopt); // Its attempt failed: nothing is kept.
    CHECK(replay.stale_in_flight(weight_version(5))->empty());
    replay.begun(group_id(0), weight_version(3));
    CHECK(replay.stop(group_id(0)).empty());
    CHECK(replay.stale_in_flight(weight_version(5))->empty());
    CHECK_FALSE(replay.awaited(group_id(0)));
    replay.check_invariants();
  }
}
