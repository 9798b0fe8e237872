// A sampler of a user's own, wrong in one way at a time. Each case states the whole error.
#include "actors/sampler/checked_policy.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

using namespace weir;
using namespace weir::testing;

namespace {

/// Says and decides what the case wants; takes everything that is ready if it wants nothing.
struct script {
  std::string name = "mine";
  std::uint64_t window = 1;
  std::optional<std::uint64_t> buffer_groups = {};
  bool gated = true;
  bool stamps = false;
  bool bounds_staleness = true;
  bool evicts_by_weight = false;
  bool supports_buffer_checkpoint = true;
  std::function<bool()> admits = [] { return true; };
  std::function<std::int64_t(std::int64_t)> stamp = [](std::int64_t) { return -1; };
  std::function<std::vector<group_id>()> chooses = [] { return std::vector<group_id>(); };
  std::function<std::vector<group_id>()> evicts = [] { return std::vector<group_id>(); };
  std::function<std::vector<group_id>()> aborts = [] { return std::vector<group_id>(); };
};

class scripted_policy final : public sampler_policy {
public:
  explicit scripted_policy(script plays) : script_(std::move(plays)) {}
  [[nodiscard]] std::string_view name() const override { return script_.name; }
  [[nodiscard]] std::uint64_t window() const override { return script_.window; }
  [[nodiscard]] bool gated() const override { return script_.gated; }
  [[nodiscard]] bool stamps() const override { return script_.stamps; }
  [[nodiscard]] bool bounds_staleness() const override { return script_.bounds_staleness; }
  [[nodiscard]] bool evicts_by_weight() const override { return script_.evicts_by_weight; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override {
    return script_.supports_buffer_checkpoint;
  }
  [[nodiscard]] std::uint64_t buffer_groups(std::uint64_t groups_per_step) const override {
    return script_.buffer_groups.value_or(sampler_policy::buffer_groups(groups_per_step));
  }
  [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override {
    return script_.admits();
  }
  [[nodiscard]] result<std::int64_t> stamp(std::int64_t index) const override {
    return script_.stamp(index);
  }
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view&,
                                                     const selection&) const override {
    return script_.chooses();
  }
  [[nodiscard]] result<std::vector<group_id>> evict(const slot_view&,
                                                    weight_version) const override {
    return script_.evicts();
  }
  [[nodiscard]] result<std::vector<group_id>> abort_in_flight(const slot_view&,
                                                              weight_version) const override {
    return script_.aborts();
  }

private:
  script script_;
};

constexpr std::uint64_t step_groups = 2;

result<std::shared_ptr<const sampler_policy>> wrapped(script plays) {
  return checked(std::make_shared<const scripted_policy>(std::move(plays)), "libmine.so:mine",
                 step_groups);
}

/// Groups 4 and 5 are ready, 6 is in flight; made by version 3.
slot_table some_slots() {
  std::vector<policy_slot> slots;
  for (const std::uint64_t group : {4U, 5U, 6U})
    slots.push_back({.group = group_id(group),
                     .dispatch_index = 2,
                     .target_step = 3,
                     .admission_version = weight_version(3),
                     .window = 1,
                     .start_version = weight_version(3),
                     .ready = group != 6});
  return slot_table(slots);
}

template <class T>
std::string text_of(const result<T>& answer) {
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == errc::invalid_argument);
  return answer.error().text;
}

/// What the wrapped sampler's selection of one or two groups for `step` comes to.
result<std::vector<group_id>> selected(script plays, std::uint64_t step = 3) {
  const auto policy = wrapped(std::move(plays));
  REQUIRE(policy.has_value());
  const slot_table slots = some_slots();
  return (*policy)->select(slots.view(),
                           {.version = weight_version(step), .groups_min = 1, .groups_max = 2});
}

script choosing(std::vector<group_id> groups) {
  script plays;
  plays.chooses = [groups] { return groups; };
  return plays;
}

template <class T>
std::function<T()> throwing() {
  return []() -> T {
    const std::vector<T> nothing;
    return nothing.at(7);
  };
}

} // namespace

TEST_SUITE("actors/checked_policy") {
  TEST_CASE("what a sampler declares is known before a run is built") {
    script plays;
    plays.supports_buffer_checkpoint = false;
    plays.buffer_groups = 7;
    plays.evicts_by_weight = true;
    const auto policy = wrapped(plays);
    REQUIRE(policy.has_value());
    CHECK((*policy)->name() == "mine");
    CHECK_FALSE((*policy)->supports_buffer_checkpoint());
    CHECK((*policy)->window() == 1);
    CHECK((*policy)->gated());
    CHECK_FALSE((*policy)->stamps());
    CHECK((*policy)->evicts_by_weight());
    CHECK(buffer_groups_required(**policy, step_groups, 1) == 7);
  }

  TEST_CASE("a sampler that answers as it declared is not disturbed") {
    const auto chosen = selected(choosing(ids({5, 4})));
    REQUIRE(chosen.has_value());
    CHECK(*chosen == ids({5, 4}));
    CHECK(selected(choosing({}))->empty());
  }

  TEST_CASE("declarations that cannot be are refused with what was said") {
    script plays;
    plays.name = "in_order";
    CHECK(text_of(wrapped(plays)) == "sampler (libmine.so:mine): name(): in_order is a built-in "
                                     "sampler; choose another name");
    plays.name = "my sampler";
    CHECK(text_of(wrapped(plays)) == "sampler (libmine.so:mine): name(): 'my sampler' is no name: "
                                     "letters, digits, '_', '-', '.', at most 64");
    plays.name = "mine";
    plays.buffer_groups = 1;
    CHECK(text_of(wrapped(plays)) == "sampler (libmine.so:mine): buffer_groups(2): 1 is less than "
                                     "one step of 2 groups");
    plays.buffer_groups.reset();
    plays.window = 1U << 30U;
    CHECK(text_of(wrapped(plays)) ==
          "sampler (libmine.so:mine): window(): 1073741824 is above 1000000");
  }

  TEST_CASE("an exception is an error that names the sampler and the question") {
    script plays;
    plays.chooses = throwing<std::vector<group_id>>();
    const std::string thrown = text_of(selected(plays));
    CHECK(
        thrown.starts_with("sampler mine (libmine.so:mine): select threw: vector::_M_range_check"));
    plays.admits = [] { return std::vector<char>().at(0) != 0; };
    plays.evicts = throwing<std::vector<group_id>>();
    plays.aborts = throwing<std::vector<group_id>>();
    const auto policy = *wrapped(plays);
    const slot_table slots = some_slots();
    CHECK(text_of(policy->admits(0, weight_version(0)))
              .starts_with("sampler mine (libmine.so:mine): admits threw: "));
    CHECK(text_of(policy->evict(slots.view(), weight_version(3)))
              .starts_with("sampler mine (libmine.so:mine): evict threw: "));
    CHECK(text_of(policy->abort_in_flight(slots.view(), weight_version(3)))
              .starts_with("sampler mine (libmine.so:mine): abort_in_flight threw: "));
  }

  TEST_CASE("a question that a sampler sits on is named") {
    std::optional<std::string> meanwhile;
    const sampler_policy* asked = nullptr;
    script plays;
    plays.chooses = [&] {
      meanwhile = unanswered(*asked);
      return std::vector<group_id>();
    };
    const auto policy = wrapped(plays);
    REQUIRE(policy.has_value());
    asked = policy->get();
    CHECK_FALSE(unanswered(*asked).has_value());
    REQUIRE(asked->select(some_slots().view(), {}).has_value());
    CHECK(meanwhile == "sampler mine (libmine.so:mine) has not answered select");
    CHECK_FALSE(unanswered(*asked).has_value());
    CHECK_FALSE(unanswered(*policy_of("windowed")).has_value());
  }

  TEST_CASE("groups that are unknown, doubled or not ready are not taken") {
    const std::string who = "sampler mine (libmine.so:mine): select: took ";
    CHECK(text_of(selected(choosing(ids({4, 9})))) == who + "group 9, which is not in the buffer");
    CHECK(text_of(selected(choosing(ids({4, 4})))) == who + "group 4 twice");
    CHECK(text_of(selected(choosing(ids({6})))) == who + "group 6, which is not ready");
  }

  TEST_CASE("more groups than were asked for are not taken, nor fewer") {
    CHECK(text_of(selected(choosing(ids({4, 5, 6})))) ==
          "sampler mine (libmine.so:mine): select: took 3 groups for step 3, asked for 1 to 2");
    const slot_table slots = some_slots();
    const auto few = (*wrapped(choosing(ids({4}))))
                         ->select(slots.view(),
                                  {.version = weight_version(3), .groups_min = 2, .groups_max = 2});
    CHECK(text_of(few) ==
          "sampler mine (libmine.so:mine): select: took 1 group for step 3, asked for 2 to 2");
  }

  TEST_CASE("a group of another step, or beyond its window, is not taken") {
    script plays = choosing(ids({4}));
    plays.stamps = true;
    CHECK(text_of(selected(plays, 4)) == "sampler mine (libmine.so:mine): select: took group 4 for "
                                         "step 4, which is stamped for step 3");
    plays.stamps = false;
    plays.evicts_by_weight = true;
    CHECK(selected(plays, 4).has_value());
    CHECK(text_of(selected(plays, 5)) ==
          "sampler mine (libmine.so:mine): select: took group 4 for step 5, which is 2 versions "
          "behind; its window is 1");
    plays.bounds_staleness = false;
    CHECK(selected(plays, 5).has_value());
  }

  TEST_CASE("evictions are of ready groups, aborts of groups in flight") {
    script plays;
    plays.evicts = [] { return ids({6}); };
    plays.aborts = [] { return ids({4}); };
    const auto policy = *wrapped(plays);
    const slot_table slots = some_slots();
    CHECK(text_of(policy->evict(slots.view(), weight_version(3))) ==
          "sampler mine (libmine.so:mine): evict: gave up group 6, which is not ready");
    CHECK(text_of(policy->abort_in_flight(slots.view(), weight_version(3))) ==
          "sampler mine (libmine.so:mine): abort_in_flight: gave up group 4, which is not in "
          "flight");
  }

  TEST_CASE("a gate lets in no more than the buffer that was declared") {
    const auto policy = *wrapped({}); // W = 1, N = 2: four groups.
    CHECK(*policy->admits(-1, weight_version(0)));
    CHECK(*policy->admits(0, weight_version(0)));
    CHECK(*policy->admits(5, weight_version(9)));
    CHECK(text_of(policy->admits(1, weight_version(0))) ==
          "sampler mine (libmine.so:mine): admits: lets batch 2 in at version 0: 6 groups ahead of "
          "training, and declared a buffer of 4");
  }

  TEST_CASE("a sampler without a gate never closes it") {
    script plays;
    plays.gated = false;
    plays.admits = [] { return false; };
    CHECK(text_of((*wrapped(plays))->admits(3, weight_version(0))) ==
          "sampler mine (libmine.so:mine): admits: keeps batch 4 waiting, and declared that it has "
          "no gate");
    plays.admits = [] { return true; };
    CHECK(*(*wrapped(plays))->admits(1000, weight_version(0)));
  }

  TEST_CASE("stamps are as declared, and rise") {
    script plays;
    plays.stamp = [](std::int64_t index) { return 7 - index; };
    const std::string who = "sampler mine (libmine.so:mine): stamp: batch 2 is for step ";
    CHECK(text_of((*wrapped(plays))->stamp(2)) ==
          who + "5, and it declared that it does not stamp");
    plays.stamps = true;
    CHECK(text_of((*wrapped(plays))->stamp(2)) == who + "5, the batch before it is for 6");
    plays.stamp = [](std::int64_t) { return 4; };
    CHECK(text_of((*wrapped(plays))->stamp(2)) == who + "4, the batch before it is for 4");
    plays.stamp = [](std::int64_t index) { return index - 3; };
    CHECK(text_of((*wrapped(plays))->stamp(2)) == who + "-1, which is no step");
    plays.stamp = [](std::int64_t index) { return index + 1; };
    CHECK(*(*wrapped(plays))->stamp(2) == 3);
  }

  TEST_CASE("a sampler that passes over a whole step ends the run once nothing else can come") {
    event_log log;
    script plays;
    plays.gated = false;
    const auto policy = *wrapped(plays);
    sampler_state ledger(policy, step_groups, {});
    replay_state buffer(policy, {.groups_buffered_max = 4});
    for (const std::uint64_t first : {0U, 2U})
      for (const group_id group : admit_batch(ledger, first, 2, log).groups) {
        CHECK(buffer.outlook(0, weight_version(0), 2)->prospect == batch_prospect::wait);
        finish_group(ledger, buffer, group, weight_version(0), log);
      }
    const auto full = buffer.outlook(0, weight_version(0), 2);
    REQUIRE_FALSE(full.has_value());
    CHECK(full.error().text ==
          "sampler mine (libmine.so:mine): selects 0 of the 2 groups that step 0 needs, although "
          "4 are ready and the buffer is full (async_rl.max_buffered_rollouts "
          "4)");
    buffer.end_supply("the dataset is exhausted");
    CHECK(buffer.outlook(0, weight_version(0), 2).error().text ==
          "sampler mine (libmine.so:mine): selects 0 of the 2 groups that step 0 needs, although "
          "4 are ready and no further group will come (the dataset is exhausted)");
    CHECK(buffer.outlook(0, weight_version(0), 5)->prospect == batch_prospect::ended);
  }
}
