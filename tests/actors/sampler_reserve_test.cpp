// The reserve of spares, in the ledger's core and across both owners: who takes whose place.
#include "actors/sampler/replacement_reserve.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

failure_limits replacing(std::uint32_t attempts = 1) {
  failure_limits limits;
  limits.max_skipped_prompts = 100;
  limits.max_consecutive_dropped_prompts = 100;
  limits.min_step_batch_fraction = 0.0;
  limits.replace_dropped_prompts = true;
  limits.max_replacement_attempts = attempts;
  return limits;
}

/// Groups 0 to 2 are spares, 3 to 5 ADMITTED for step 0, 6 to 8 for step 1.
sampler_state with_spares(event_log& log, const failure_limits& limits = replacing()) {
  sampler_state state(policy_of("in_order", 1), 3, limits);
  REQUIRE(state.divert(reservations(0, 3), log.stream, 5).value() == 3);
  std::ignore = admit_batch(state, 3, 3, log);
  std::ignore = admit_batch(state, 6, 3, log);
  return state;
}

ledger_record replaced(sampler_state& state, std::uint64_t group, event_log& log) {
  const auto outcome = state.replace(group_id(group), drop_reason::data_failure, log.stream, 6);
  REQUIRE(outcome.has_value());
  REQUIRE(outcome->has_value());
  REQUIRE((*outcome)->spare.has_value());
  state.check_invariants();
  return *(*outcome)->spare;
}

bool is_short(sampler_state& state, std::uint64_t group, event_log& log) {
  const auto outcome = state.replace(group_id(group), drop_reason::data_failure, log.stream, 6);
  REQUIRE(outcome.has_value());
  REQUIRE(outcome->has_value());
  state.check_invariants();
  return !(*outcome)->spare.has_value();
}

group_tally accounted(const sampler_state& state) {
  cut_tallies tallies;
  add_tallies(state.capture(), tallies);
  group_tally sum;
  for (const group_tally& one : tallies.in_state)
    sum += one;
  return sum;
}

/// What a bundle would bring back.
sampler_state restored(const sampler_state& state, const failure_limits& limits = replacing()) {
  auto decoded = decode_sampler(encode(state.capture(), {}));
  REQUIRE(decoded.has_value());
  REQUIRE(decode_reserve(encode_reserve(state.capture(), {}), *decoded).has_value());
  sampler_state loaded(policy_of("in_order", 1), 3, limits);
  REQUIRE(loaded.load(decoded->image).has_value());
  loaded.check_invariants();
  return loaded;
}

} // namespace

TEST_SUITE("actors/sampler_reserve") {
  TEST_CASE("a batch that is set aside is owned by the reserve, without an admission") {
    event_log log;
    sampler_state state(policy_of("in_order", 1), 3, replacing());
    CHECK(state.divert(reservations(0, 3), log.stream, 5).value() == 3);
    CHECK(state.capture().in_reserve == tally_of_range(group_id(0), 3));
    CHECK(state.unfinished_groups() == 0);
    CHECK(state.next_admission() == 0);
    REQUIRE(log.sink.groups.size() == 3);
    CHECK(log.sink.groups[0].from == group_state::none);
    CHECK(log.sink.groups[0].to == group_state::in_reserve);
    CHECK(log.sink.groups[0].sample == sample_id{.epoch = 0, .position = 0});
    CHECK(log.sink.groups[0].transaction == 5);
    CHECK(state.divert(reservations(2, 3), log.stream, 5).error().code == errc::conflict);
    CHECK(state.reserve(0, reservations(2, 1), log.stream, 5).error().code == errc::conflict);
    CHECK(state.spares() == 3);
    state.check_invariants();
  }

  TEST_CASE("a spare takes the place of a dropped group with its stamp, and no step is short") {
    event_log log;
    sampler_state state = with_spares(log);
    const ledger_record spare = replaced(state, 4, log);
    CHECK(spare.group == group_id(0));
    CHECK(spare.phase == group_phase::admitted);
    CHECK(spare.dispatch_index == 0);
    CHECK(spare.target_step == 0);
    CHECK(spare.dispatches == 1);
    CHECK(state.target(0) == 3);
    CHECK(state.spares() == 2);
    CHECK(state.capture().replaced_prompt_groups == 1);
    CHECK(state.capture().skipped_prompts == 1);
    CHECK(state.capture().dropped.of(drop_reason::data_failure) == tally_of(group_id(4)));
    CHECK(accounted(state) == tally_of_range(group_id(0), 9));
    const group_event& taken = log.sink.groups.back();
    CHECK(taken.from == group_state::in_reserve);
    CHECK(taken.to == group_state::admitted);
    CHECK(taken.reason == event_reason::restamped);
    CHECK(taken.window == 1);
  }

  TEST_CASE("one place uses up so many spares, then its step is short") {
    event_log log;
    sampler_state state = with_spares(log, replacing(2));
    CHECK(replaced(state, 4, log).replacements == 1);
    CHECK(replaced(state, 0, log).replacements == 2);
    CHECK(is_short(state, 1, log));
    CHECK(state.target(0) == 2);
    CHECK(state.spares() == 1);
    // Another place has attempts of its own.
    CHECK(replaced(state, 5, log).replacements == 1);
    CHECK(is_short(state, 6, log)); // The reserve is empty.
    CHECK(state.target(1) == 2);
  }

  TEST_CASE("budgets count a replaced prompt too, and a refusal changes nothing") {
    event_log log;
    failure_limits limits = replacing();
    limits.max_skipped_prompts = 1;
    sampler_state state = with_spares(log, limits);
    std::ignore = replaced(state, 4, log);
    const auto before = encode(state.capture(), {});
    const auto refused = state.replace(group_id(5), drop_reason::data_failure, log.stream, 6);
    CHECK(refused.error().code == errc::exhausted);
    CHECK(refused.error().text.find("max_skipped_prompts (1)") != std::string::npos);
    CHECK(encode(state.capture(), {}) == before);
  }

  TEST_CASE("who shrinks, or has no stamps, never takes a spare") {
    event_log log;
    failure_limits shrinking = replacing();
    shrinking.replace_dropped_prompts = false;
    sampler_state state = with_spares(log, shrinking);
    CHECK(is_short(state, 4, log));
    CHECK(state.target(0) == 2);
    CHECK(state.spares() == 3);
    CHECK_FALSE(state.replace(group_id(4), drop_reason::data_failure, log.stream, 6)->has_value());
    sampler_state unstamped(policy_of("windowed", 1), 3, replacing());
    REQUIRE(unstamped.divert(reservations(0, 3), log.stream, 5).has_value());
    std::ignore = admit_batch(unstamped, 3, 3, log);
    CHECK(is_short(unstamped, 4, log));
    CHECK(unstamped.spares() == 3);
  }

  TEST_CASE("a finished group of the furthest later step is promoted, and the spare repays it") {
    event_log log;
    sampler_state sampler = with_spares(log);
    replay_state replay(policy_of("in_order", 1), {});
    finish_group(sampler, replay, group_id(3), weight_version(0), log);
    finish_group(sampler, replay, group_id(7), weight_version(0), log);
    ledger_record spare = replaced(sampler, 4, log);
    const auto lender = replay.promote(spare.target_step, spare.dispatch_index, log.stream, 6);
    REQUIRE(lender.has_value());
    CHECK(lender->group == group_id(7));
    CHECK(lender->target_step == 1);
    CHECK(replay.capture().find(group_id(7))->target_step == 0);
    CHECK(log.sink.groups.back().reason == event_reason::promoted);
    const lent_stamp lent{lender->dispatch_index, lender->target_step, lender->admission_version};
    const auto repaid = sampler.repay(spare.group, lent, log.stream, 6);
    REQUIRE(repaid.has_value());
    CHECK(repaid->target_step == 1);
    CHECK(repaid->dispatch_index == 1);
    CHECK(sampler.capture().promoted_prompt_groups == 1);
    sampler.check_invariants();
    replay.check_invariants();
    // The short step has all but the one that still runs; the spare commits as group of step 1.
    CHECK(replay.outlook(0, weight_version(0), 3)->available == 2);
    finish_group(sampler, replay, spare.group, weight_version(0), log);
    finish_group(sampler, replay, group_id(5), weight_version(0), log);
    CHECK(replay.claim(0, weight_version(0), 3, log.stream, 7)->size() == 3);
  }

  TEST_CASE("only later steps lend, and only what is READY") {
    event_log log;
    sampler_state sampler = with_spares(log);
    replay_state replay(policy_of("in_order", 1), {});
    finish_group(sampler, replay, group_id(3), weight_version(0), log);
    CHECK_FALSE(replay.promote(0, 0, log.stream, 6).has_value());
    CHECK_FALSE(replay.promote(1, 1, log.stream, 6).has_value());
    finish_group(sampler, replay, group_id(7), weight_version(0), log);
    CHECK_FALSE(replay.promote(1, 1, log.stream, 6).has_value());
    CHECK(replay.promote(0, 0, log.stream, 6)->group == group_id(7));
  }

  TEST_CASE("of several later steps the furthest lends, whichever finished first") {
    event_log log;
    sampler_state sampler = with_spares(log);
    replay_state replay(policy_of("in_order", 1), {});
    REQUIRE(sampler.version_live(weight_version(1)));
    std::ignore = admit_batch(sampler, 9, 3, log);
    finish_group(sampler, replay, group_id(7), weight_version(0), log);
    finish_group(sampler, replay, group_id(10), weight_version(1), log);
    const auto lender = replay.promote(0, 0, log.stream, 6);
    REQUIRE(lender.has_value());
    CHECK(lender->group == group_id(10));
    CHECK(lender->target_step == 2);
    CHECK(replay.promote(0, 0, log.stream, 6)->group == group_id(7));
  }

  TEST_CASE("a debt is not owed by a group that took nobody's place") {
    event_log log;
    sampler_state state = with_spares(log);
    CHECK(state.repay(group_id(4), {1, 1, {}}, log.stream, 6).error().code == errc::conflict);
    CHECK(state.repay(group_id(99), {1, 1, {}}, log.stream, 6).error().code == errc::not_found);
  }

  TEST_CASE("at the end of the data spares become ordinary reserved groups, the oldest first") {
    event_log log;
    sampler_state state = with_spares(log);
    const auto drained = state.drain(2, 2, log.stream, 6);
    REQUIRE(drained.has_value());
    REQUIRE(drained->size() == 2);
    CHECK((*drained)[0].group == group_id(0));
    CHECK((*drained)[0].phase == group_phase::reserved);
    CHECK(state.spares() == 1);
    CHECK(state.next_admission() == 3);
    CHECK(log.sink.groups.back().from == group_state::in_reserve);
    CHECK(log.sink.groups.back().to == group_state::reserved);
    CHECK(state.drain(2, 9, log.stream, 6)->size() == 1); // The same admission, filled up.
    CHECK(state.drain(1, 1, log.stream, 6).error().code == errc::conflict);
    CHECK(state.version_live(weight_version(1)));
    CHECK(state.admit(2, log.stream, 6)->groups == ids({0, 1, 2}));
    CHECK(accounted(state) == tally_of_range(group_id(0), 9));
    state.check_invariants();
  }

  TEST_CASE("each transition of the reserve survives a cut") {
    event_log log;
    sampler_state state = with_spares(log);
    CHECK(restored(state).spares() == 3);
    std::ignore = replaced(state, 4, log);
    const sampler_state after = restored(state);
    CHECK(after.spares() == 2);
    CHECK(after.capture().find(group_id(0))->replacements == 1);
    CHECK(after.capture().find(group_id(0))->target_step == 0);
    CHECK(after.capture().replaced_prompt_groups == 1);
    CHECK(state.drain(2, 2, log.stream, 6).has_value());
    CHECK(restored(state).spares() == 0);
    CHECK(restored(state).capture().reserved == state.capture().reserved);
  }

  TEST_CASE("a reserve that is missing, doubled or in two places is refused with the reason") {
    event_log log;
    const sampler_state state = with_spares(log);
    auto decoded = decode_sampler(encode(state.capture(), {}));
    REQUIRE(decoded.has_value());
    CHECK(decode_reserve({}, *decoded)
              .error()
              .text.find("0 spares, rollout_recovery.fb announces 3") != std::string::npos);
    const auto bytes = encode_reserve(state.capture(), {});
    decoded->spares = 2;
    CHECK(decode_reserve(bytes, *decoded).error().code == errc::corrupt);
    decoded->spares = 3;
    decoded->image.put({.group = group_id(1), .siblings = 2});
    CHECK(decode_reserve(bytes, *decoded).error().text.find("group 1 stands in the ledger too") !=
          std::string::npos);
    CHECK(decoded->image.in_reserve.count == 0);
    for (std::size_t length = 1; length < bytes.size(); ++length)
      CHECK_FALSE(decode_reserve(std::span(bytes).first(length), *decoded).has_value());
  }

  TEST_CASE("a reserve with any flipped bit is refused, or as many spares as were announced") {
    event_log log;
    const sampler_state state = with_spares(log);
    const auto section = encode(state.capture(), {});
    const auto bytes = encode_reserve(state.capture(), {});
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      CAPTURE(bit);
      auto decoded = decode_sampler(section);
      REQUIRE(decoded.has_value());
      const bool taken = decode_reserve(flipped, *decoded).has_value();
      CHECK(decoded->image.in_reserve.count == (taken ? 3 : 0));
    }
  }
}
