#include "actors/trainer/trainer_state.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::testing;

namespace {

std::shared_ptr<const void> policy(int number) {
  return std::make_shared<const int>(number);
}

int policy_in(const trainer_image& image) {
  return *static_cast<const int*>(image.policy.get());
}

trainer_state fresh_trainer() {
  return trainer_state({.step = 0, .version = {}, .policy = policy(100)});
}

} // namespace

TEST_SUITE("actors/trainer_state") {
  TEST_CASE("a cut between a finished step and its consume holds the state before the step") {
    event_log log;
    trainer_state trainer = fresh_trainer();
    REQUIRE(trainer.published(weight_version(0)).has_value());
    REQUIRE(trainer.prepare(0, policy(101)).has_value());
    const trainer_image cut = trainer.capture();
    CHECK(cut.step == 0);
    CHECK(policy_in(cut) == 100);
    const auto version = trainer.consume(0, log.stream);
    REQUIRE(version.has_value());
    CHECK(*version == weight_version(1));
    CHECK(trainer.capture().step == 1);
    CHECK(policy_in(trainer.capture()) == 101);
    CHECK(policy_in(cut) == 100);
    CHECK(trainer.publish_due());
    CHECK(log.sink.count == 1);
    trainer.check_invariants();
  }

  TEST_CASE("a version is published after its consume, never before") {
    event_log log;
    trainer_state trainer = fresh_trainer();
    CHECK(trainer.publish_due());
    CHECK(trainer.prepare(0, policy(101)).error().code == errc::conflict);
    REQUIRE(trainer.published(weight_version(0)).has_value());
    REQUIRE(trainer.prepare(0, policy(101)).has_value());
    CHECK(trainer.published(weight_version(1)).error().code == errc::conflict);
    REQUIRE(trainer.consume(0, log.stream).has_value());
    CHECK(trainer.published(weight_version(0)).error().code == errc::conflict);
    REQUIRE(trainer.published(weight_version(1)).has_value());
    CHECK_FALSE(trainer.publish_due());
  }

  TEST_CASE("steps are prepared and consumed in order, each once") {
    event_log log;
    trainer_state trainer = fresh_trainer();
    REQUIRE(trainer.published(weight_version(0)).has_value());
    CHECK(trainer.consume(0, log.stream).error().text ==
          "step 0 cannot be consumed: step 0 is not trained yet");
    CHECK(trainer.prepare(1, policy(1)).error().text == "step 1 was trained, but step 0 is due");
    REQUIRE(trainer.prepare(0, policy(101)).has_value());
    CHECK(trainer.prepare(0, policy(102)).error().code == errc::conflict);
    CHECK(trainer.consume(1, log.stream).error().code == errc::conflict);
    CHECK(trainer.prepared());
    REQUIRE(trainer.consume(0, log.stream).has_value());
    CHECK(trainer.consume(0, log.stream).error().code == errc::conflict);
    CHECK_FALSE(trainer.prepared());
    CHECK(trainer.step() == 1);
    CHECK(log.sink.count == 1);
  }

  TEST_CASE("a restored trainer goes on at its step and owes its version to the generators") {
    event_log log;
    trainer_state trainer({.step = 12, .version = weight_version(12), .policy = policy(7)});
    CHECK(trainer.publish_due());
    REQUIRE(trainer.published(weight_version(12)).has_value());
    REQUIRE(trainer.prepare(12, policy(8)).has_value());
    CHECK(*trainer.consume(12, log.stream) == weight_version(13));
    CHECK(trainer.capture().step == 13);
  }

  std::vector<std::uint64_t> earlier_in(const trainer_state& trainer) {
    std::vector<std::uint64_t> versions;
    for (const earlier_version& one : trainer.capture().earlier) {
      CHECK(*static_cast<const int*>(one.policy.get()) ==
            100 + static_cast<int>(one.version.value));
      versions.push_back(one.version.value);
    }
    return versions;
  }

  TEST_CASE("with pinned weights a cut holds max(0, v-W) to v, each with its own policy") {
    event_log log;
    trainer_state trainer({.step = 0, .version = {}, .policy = policy(100)}, 2);
    const std::vector<std::vector<std::uint64_t>> kept = {{}, {0}, {0, 1}, {1, 2}, {2, 3}};
    for (std::uint64_t step = 0; step < kept.size(); ++step) {
      CHECK(earlier_in(trainer) == kept[step]);
      REQUIRE(trainer.published(weight_version(step)).has_value());
      REQUIRE(trainer.prepare(step, policy(101 + static_cast<int>(step))).has_value());
      CHECK(earlier_in(trainer) == kept[step]); // Not before the consume lease.
      REQUIRE(trainer.consume(step, log.stream).has_value());
      trainer.check_invariants();
    }
  }

  TEST_CASE("without pins nothing earlier is kept, whatever was restored") {
    event_log log;
    trainer_state trainer({.step = 5,
                           .version = weight_version(5),
                           .policy = policy(105),
                           .earlier = {{weight_version(4), policy(104)}}});
    CHECK(trainer.capture().earlier.empty());
    REQUIRE(trainer.published(weight_version(5)).has_value());
    REQUIRE(trainer.prepare(5, policy(106)).has_value());
    REQUIRE(trainer.consume(5, log.stream).has_value());
    CHECK(trainer.capture().earlier.empty());
  }

  TEST_CASE("a warm-up ends in the state that step 0 starts from") {
    trainer_state trainer = fresh_trainer();
    REQUIRE(trainer.adopt(policy(50)).has_value());
    CHECK(policy_in(trainer.capture()) == 50);
    CHECK(trainer.capture().step == 0);
    REQUIRE(trainer.published(weight_version(0)).has_value());
    CHECK(trainer.adopt(policy(51)).error().code == errc::conflict);
    trainer_state later({.step = 3, .version = weight_version(3), .policy = policy(1)});
    CHECK(later.adopt(policy(51)).error().code == errc::conflict);
  }
}
