#include "actors/checkpoint/balance.hpp"
#include "actors/checkpoint/barrier_state.hpp"

#include <doctest/doctest.h>

namespace weir {
namespace {

using stage = barrier_state::stage;

constexpr std::int64_t ms = 1'000'000;

epoch_id epoch(std::uint64_t number) {
  return {.incarnation = 4, .life = 1, .number = number};
}

constexpr barrier_options unannounced{.announce_timeout_ns = 0};

barrier_state two_by_two(bool has_bundle = false, barrier_options options = unannounced) {
  return {options, incarnation(4), 1, {"rollout", "trainer"}, {"sampler", "trainer"}, has_bundle};
}

/// "quiesce>rollout 1", one word for each effect.
std::string text(const barrier_effects& effects) {
  struct {
    std::string operator()(const send_announce& e) { return sent("announce", e.to, e.epoch); }
    std::string operator()(const send_quiesce& e) { return sent("quiesce", e.to, e.epoch); }
    std::string operator()(const send_cut& e) { return sent("cut", e.to, e.epoch); }
    std::string operator()(const send_resume& e) { return sent("resume", e.to, e.epoch); }
    std::string operator()(const send_abort& e) { return sent("abort", e.to, e.epoch); }
    std::string operator()(const send_release& e) { return sent("release", e.to, e.epoch); }
    std::string operator()(const publish_cut& e) { return sent("publish", "", e.cut.epoch); }
    std::string operator()(const answer_published& e) {
      return (e.unchanged ? "unchanged:" : "published:") + tickets(e.tickets);
    }
    std::string operator()(const answer_refused& e) { return "refused:" + tickets(e.tickets); }
    std::string operator()(const end_run&) { return "end"; }

    static std::string sent(std::string what, const std::string& to, epoch_id epoch) {
      return what.append(">").append(to).append(" ").append(std::to_string(epoch.number));
    }
    static std::string tickets(const std::vector<request_ticket>& some) {
      std::string list;
      for (const auto ticket : some)
        list.append(list.empty() ? "" : ",").append(std::to_string(ticket.value));
      return list;
    }
  } visitor;
  std::string all;
  for (const barrier_effect& effect : effects)
    all.append(all.empty() ? "" : " ").append(std::visit(visitor, effect));
  return all;
}

error refusal(const barrier_effects& effects) {
  for (const barrier_effect& effect : effects)
    if (const auto* refused = std::get_if<answer_refused>(&effect)) return refused->why;
  return {};
}

/// The sampler holds one group, of ten that were handed out; nine are consumed.
captured_report report(group_state state, std::uint64_t first, std::uint64_t count) {
  captured_report of;
  of.sequence = sequence_number(count);
  of.tallies.of(state) = tally_of_range(group_id(first), count);
  of.mutations = 1;
  return of;
}

captured_report sampler_report() {
  captured_report of = report(group_state::admitted, 9, 1);
  of.tallies.handed_out = tally_of_range(group_id(0), 10);
  return of;
}

captured_report trainer_report() {
  captured_report of = report(group_state::consumed, 0, 9);
  of.trainer_step = 12;
  return of;
}

/// Takes the barrier from idle, or from its start, to `publishing` or wherever the answers lead.
barrier_effects through(barrier_state& barrier, std::int64_t now, const captured_report& sampler,
                        const captured_report& trainer, bool held = true) {
  const epoch_id at = barrier.epoch();
  std::ignore = barrier.quiesced(now, "rollout", at);
  std::ignore = barrier.quiesced(now, "trainer", at);
  std::ignore = barrier.captured(now, "sampler", at, sampler);
  std::ignore = barrier.captured(now, "trainer", at, trainer);
  std::ignore = barrier.resumed(now, "rollout", at, true);
  return barrier.resumed(now, "trainer", at, held);
}

} // namespace

TEST_SUITE("actors/checkpoint/barrier_state") {
  TEST_CASE("the stages follow each other, and Resume does not wait for anything else") {
    barrier_state barrier = two_by_two();
    CHECK(text(barrier.request(0, {7})) == "quiesce>rollout 1 quiesce>trainer 1");
    CHECK(barrier.now_in() == stage::quiescing);
    CHECK(barrier.unanswered() == std::vector<std::string>{"rollout", "trainer"});
    CHECK(text(barrier.quiesced(1 * ms, "trainer", epoch(1))).empty());
    CHECK(text(barrier.quiesced(2 * ms, "rollout", epoch(1))) == "cut>sampler 1 cut>trainer 1");
    CHECK(text(barrier.captured(3 * ms, "trainer", epoch(1), trainer_report())).empty());
    CHECK(barrier.unanswered() == std::vector<std::string>{"sampler"});
    CHECK(text(barrier.captured(5 * ms, "sampler", epoch(1), sampler_report())) ==
          "resume>rollout 1 resume>trainer 1");
    CHECK(text(barrier.resumed(6 * ms, "rollout", epoch(1), true)).empty());
    const auto effects = barrier.resumed(9 * ms, "trainer", epoch(1), true);
    REQUIRE(text(effects) == "publish> 1");
    const cut_facts& cut = std::get<publish_cut>(effects[0]).cut;
    CHECK(cut.owners == std::vector<owner_sequence>{{"sampler", sequence_number(1)},
                                                    {"trainer", sequence_number(9)}});
    CHECK(cut.tallies.handed_out == tally_of_range(group_id(0), 10));
    CHECK(cut.tallies.of(group_state::consumed).count == 9);
    CHECK(cut.mutations == 2);
    CHECK(cut.trainer_step == 12);
    CHECK(cut.timings.drain_ns == 2 * ms);
    CHECK(cut.timings.capture_ns == 3 * ms);
    CHECK(cut.timings.hold_ns == 9 * ms);
    CHECK(text(barrier.published(20 * ms, epoch(1))) ==
          "release>sampler 1 release>trainer 1 published:7");
    CHECK(barrier.now_in() == stage::idle);
    CHECK_FALSE(barrier.deadline().has_value());
  }

  TEST_CASE("a barrier is announced to everybody once, and holds nothing until they answered") {
    barrier_state barrier = two_by_two(false, {.announce_timeout_ns = 3 * ms});
    CHECK(text(barrier.request(0, {7})) ==
          "announce>rollout 1 announce>trainer 1 announce>sampler 1");
    CHECK(barrier.now_in() == stage::announcing);
    CHECK(barrier.deadline() == 3 * ms);
    CHECK(barrier.quiesced(0, "rollout", epoch(1)).empty());
    CHECK(barrier.failed(0, "rollout", epoch(1), {errc::unavailable, "it is dead"}).empty());
    CHECK(barrier.announced(1 * ms, "trainer", epoch(1)).empty()); // Origin and owner at once.
    CHECK(barrier.announced(1 * ms, "trainer", epoch(1)).empty());
    CHECK(barrier.announced(1 * ms, "rollout", epoch(1)).empty());
    CHECK(barrier.announced(1 * ms, "sampler", epoch(2)).empty());
    CHECK(text(barrier.announced(2 * ms, "sampler", epoch(1))) ==
          "quiesce>rollout 1 quiesce>trainer 1");
    CHECK(barrier.announced(2 * ms, "sampler", epoch(1)).empty());
    const auto effects = through(barrier, 9 * ms, sampler_report(), trainer_report());
    REQUIRE(text(effects) == "publish> 1");
    CHECK(std::get<publish_cut>(effects[0]).cut.timings.hold_ns == 7 * ms);
  }

  TEST_CASE("nobody needs to answer an announcement") {
    barrier_state barrier = two_by_two(false, {.announce_timeout_ns = 3 * ms});
    std::ignore = barrier.request(0, {7});
    CHECK(barrier.announced(1 * ms, "rollout", epoch(1)).empty());
    CHECK(barrier.tick(2 * ms, {}).empty());
    CHECK(text(barrier.tick(3 * ms, {})) == "quiesce>rollout 1 quiesce>trainer 1");
    CHECK(barrier.announced(4 * ms, "sampler", epoch(1)).empty());
    CHECK(barrier.deadline() == 5003 * ms);
  }

  TEST_CASE("late, doubled and foreign answers do nothing") {
    barrier_state barrier = two_by_two();
    CHECK(barrier.quiesced(0, "rollout", epoch(1)).empty());
    std::ignore = barrier.request(0, {7});
    CHECK(barrier.quiesced(0, "rollout", epoch(2)).empty());
    CHECK(barrier.quiesced(0, "rollout", {.incarnation = 3, .life = 1, .number = 1}).empty());
    CHECK(barrier.quiesced(0, "stranger", epoch(1)).empty());
    CHECK(barrier.captured(0, "sampler", epoch(1), sampler_report()).empty());
    CHECK(barrier.resumed(0, "rollout", epoch(1), true).empty());
    CHECK(barrier.published(0, epoch(1)).empty());
    CHECK(barrier.quiesced(0, "rollout", epoch(1)).empty());
    CHECK(barrier.quiesced(0, "rollout", epoch(1)).empty()); // not the trainer's answer
    CHECK(barrier.now_in() == stage::quiescing);
    CHECK(barrier.unanswered() == std::vector<std::string>{"trainer"});
  }

  TEST_CASE("requests during a checkpoint are answered by the next one") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {1});
    CHECK_FALSE(barrier.has_waiting());
    CHECK(barrier.request(0, {2}).empty());
    CHECK(barrier.has_waiting());
    CHECK(text(through(barrier, 0, sampler_report(), trainer_report())) == "publish> 1");
    CHECK(barrier.request(0, {3}).empty());
    CHECK(text(barrier.published(0, epoch(1))) ==
          "release>sampler 1 release>trainer 1 published:1 quiesce>rollout 2 quiesce>trainer 2");
    CHECK(text(through(barrier, 0, sampler_report(), trainer_report())) == "publish> 2");
    CHECK(text(barrier.published(0, epoch(2))) ==
          "release>sampler 2 release>trainer 2 published:2,3");
  }

  TEST_CASE("the waiting requests are bounded") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {0});
    for (std::uint64_t ticket = 1; ticket <= waiting_requests_max; ++ticket)
      CHECK(barrier.request(0, {ticket}).empty());
    const auto effects = barrier.request(0, {9999});
    CHECK(text(effects) == "refused:9999");
    CHECK(refusal(effects).code == errc::exhausted);
  }

  TEST_CASE("a timeout aborts everybody once and names who did not answer, with its oldest lease") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    std::ignore = barrier.quiesced(0, "trainer", epoch(1));
    CHECK(barrier.deadline() == 5000 * ms);
    CHECK(barrier.tick(4999 * ms, {}).empty());
    const lease_report lease{"rollout", "commit of group 12, sent by rollout, 4.9 s old"};
    const auto effects = barrier.tick(5000 * ms, {&lease, 1});
    CHECK(text(effects) == "abort>rollout 1 abort>trainer 1 abort>sampler 1 refused:7");
    CHECK(refusal(effects) ==
          error{errc::timed_out,
                "epoch 4.1.1 was aborted: no answer to Quiesce within 5.0 s from rollout (oldest "
                "lease: commit of group 12, sent by rollout, 4.9 s old)"});
    CHECK(barrier.now_in() == stage::idle);
    // What comes now is late; the next epoch is another one.
    CHECK(barrier.quiesced(5001 * ms, "rollout", epoch(1)).empty());
    CHECK(text(barrier.request(5001 * ms, {8})) == "quiesce>rollout 2 quiesce>trainer 2");
  }

  TEST_CASE("every stage times out") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    std::ignore = barrier.quiesced(0, "rollout", epoch(1));
    std::ignore = barrier.quiesced(1000 * ms, "trainer", epoch(1));
    CHECK(barrier.deadline() == 6000 * ms);
    SUBCASE("capturing") {
      const auto effects = barrier.tick(6000 * ms, {});
      CHECK(refusal(effects).text == "epoch 4.1.1 was aborted: no answer to Cut within 5.0 s from "
                                     "sampler (no lease known), trainer (no lease known)");
    }
    SUBCASE("resuming: it may be an open gate, or one that never closed again: no bundle") {
      std::ignore = barrier.captured(2000 * ms, "sampler", epoch(1), sampler_report());
      std::ignore = barrier.captured(2000 * ms, "trainer", epoch(1), trainer_report());
      std::ignore = barrier.resumed(2000 * ms, "rollout", epoch(1), true);
      CHECK(barrier.deadline() == 7000 * ms);
      const auto effects = barrier.tick(7000 * ms, {});
      CHECK(text(effects) == "abort>rollout 1 abort>trainer 1 abort>sampler 1 refused:7");
      CHECK(refusal(effects).text == "epoch 4.1.1 was aborted: no answer to Resume within 5.0 s "
                                     "from trainer (no lease known)");
    }
  }

  TEST_CASE("an answer that failed aborts at once, but only where it is waited for") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    const error dead{errc::unavailable, "it is dead"};
    CHECK(barrier.failed(0, "sampler", epoch(1), dead).empty()); // not asked yet
    CHECK(barrier.failed(0, "rollout", epoch(9), dead).empty());
    std::ignore = barrier.quiesced(0, "rollout", epoch(1));
    CHECK(barrier.failed(0, "rollout", epoch(1), dead).empty()); // has answered
    const auto effects = barrier.failed(0, "trainer", epoch(1), dead);
    CHECK(text(effects) == "abort>rollout 1 abort>trainer 1 abort>sampler 1 refused:7");
    CHECK(refusal(effects) ==
          error{errc::unavailable, "epoch 4.1.1 was aborted: trainer failed: it is dead"});
  }

  TEST_CASE("a gate that did not hold, or a tainted owner, is no cut") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    SUBCASE("gate") {
      const auto effects = through(barrier, 0, sampler_report(), trainer_report(), false);
      CHECK(text(effects) == "abort>rollout 1 abort>trainer 1 abort>sampler 1 refused:7");
      CHECK(
          refusal(effects) ==
          error{errc::conflict, "epoch 4.1.1 is no consistent cut: gate of trainer did not hold"});
    }
    SUBCASE("taint") {
      captured_report tainted = sampler_report();
      tainted.tainted = true;
      const auto effects = through(barrier, 0, tainted, trainer_report(), false);
      CHECK(refusal(effects).text ==
            "epoch 4.1.1 is no consistent cut: gate of trainer did not hold; sampler is tainted");
    }
  }

  TEST_CASE("a cut that does not balance is retried once, then the run ends with the numbers") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    const captured_report lost = report(group_state::consumed, 0, 8);
    CHECK(text(through(barrier, 0, sampler_report(), lost)) ==
          "abort>rollout 1 abort>trainer 1 abort>sampler 1 quiesce>rollout 2 quiesce>trainer 2");
    SUBCASE("and balances: published") {
      CHECK(text(through(barrier, 0, sampler_report(), trainer_report())) == "publish> 2");
      CHECK(text(barrier.published(0, epoch(2))) ==
            "release>sampler 2 release>trainer 2 published:7");
    }
    SUBCASE("and does not") {
      CHECK(barrier.request(0, {8}).empty());
      const auto effects = through(barrier, 0, sampler_report(), lost);
      CHECK(text(effects) == "abort>rollout 2 abort>trainer 2 abort>sampler 2 refused:7,8 end");
      const error why = std::get<end_run>(effects.back()).why;
      CHECK(why.code == errc::conflict);
      CHECK(why.text.find("handed out 10 groups") != std::string::npos);
      CHECK(why.text.find("accounted for 9 groups") != std::string::npos);
      CHECK(why.text.find("consumed 8 groups") != std::string::npos);
      CHECK(barrier.now_in() == stage::ended);
      CHECK(text(barrier.request(0, {9})) == "refused:9");
    }
  }

  TEST_CASE("one lost and one doubled group do not balance each other") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    captured_report wrong = report(group_state::consumed, 0, 8);
    wrong.tallies.of(group_state::consumed).add(group_id(7));
    CHECK(text(through(barrier, 0, sampler_report(), wrong)).starts_with("abort>"));
  }

  TEST_CASE("nothing is written when nothing mutated since the newest bundle") {
    captured_report sampler = sampler_report();
    captured_report trainer = trainer_report();
    sampler.mutations = trainer.mutations = 0;
    SUBCASE("which this incarnation restored") {
      barrier_state barrier = two_by_two(true);
      std::ignore = barrier.request(0, {7});
      CHECK(text(through(barrier, 0, sampler, trainer)) ==
            "abort>sampler 1 abort>trainer 1 unchanged:7");
      CHECK(barrier.now_in() == stage::idle);
    }
    SUBCASE("but the first bundle of a run always is") {
      barrier_state barrier = two_by_two();
      std::ignore = barrier.request(0, {7});
      CHECK(text(through(barrier, 0, sampler, trainer)) == "publish> 1");
    }
  }

  TEST_CASE("a bundle that could not be published drops the captures and serves the next request") {
    barrier_state barrier = two_by_two();
    std::ignore = barrier.request(0, {7});
    std::ignore = through(barrier, 0, sampler_report(), trainer_report());
    std::ignore = barrier.request(0, {8});
    const auto effects = barrier.publish_failed(0, epoch(1), {errc::no_space, "step_12: no space"});
    CHECK(text(effects) ==
          "abort>sampler 1 abort>trainer 1 refused:7 quiesce>rollout 2 quiesce>trainer 2");
    CHECK(refusal(effects).code == errc::no_space);
    CHECK(barrier.published(0, epoch(1)).empty());
  }

  TEST_CASE("without origins a cut needs no gate") {
    barrier_state barrier(unannounced, incarnation(4), 1, {}, {"sampler"}, false);
    CHECK(text(barrier.request(0, {7})) == "cut>sampler 1");
    captured_report sampler = sampler_report();
    sampler.tallies.of(group_state::consumed) = tally_of_range(group_id(0), 9);
    CHECK(text(barrier.captured(0, "sampler", epoch(1), sampler)) == "publish> 1");
  }

  TEST_CASE("a later life or incarnation has later epochs") {
    barrier_state first(unannounced, incarnation(4), 1, {"rollout"}, {"sampler"}, false);
    barrier_state second(unannounced, incarnation(4), 2, {"rollout"}, {"sampler"}, false);
    barrier_state third(unannounced, incarnation(5), 1, {"rollout"}, {"sampler"}, false);
    for (int request = 0; request < 3; ++request) {
      std::ignore = first.request(0, {1});
      std::ignore = first.tick(5000 * ms, {});
    }
    std::ignore = second.request(0, {1});
    std::ignore = third.request(0, {1});
    CHECK(first.epoch() < second.epoch());
    CHECK(second.epoch() < third.epoch());
  }

  TEST_CASE("a tally of an unknown state is refused") {
    cut_tallies sums;
    CHECK(add_tally(sums, "ready", tally_of(group_id(1))).has_value());
    CHECK(add_tally(sums, "ready", tally_of(group_id(2))).has_value());
    CHECK(sums.of(group_state::ready).count == 2);
    CHECK_FALSE(add_tally(sums, "none", {}).has_value());
    CHECK(add_tally(sums, "lost", {}).error().code == errc::invalid_argument);
    CHECK_FALSE(check_balance(sums).has_value());
    CHECK(add_tally(sums, "handed_out", tally_of_range(group_id(1), 2)).has_value());
    CHECK(check_balance(sums).has_value());
  }
}

} // namespace weir
