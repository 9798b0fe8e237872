// Two dispatchers before one admission gate, as in a graph with two rollout actors: both may wait
// for the same opening. The main job has one dispatcher, and a gate never closes before the only
// one who can close it, so that weir-sim cannot see whether the gate is looked at again.
#include "actors/audit/event_log.hpp"
#include "actors/runtime/simulation.hpp"
#include "actors/sampler/sampler.hpp"
#include "messages/rule.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace weir;

namespace {

constexpr std::uint64_t window = 1;
constexpr std::uint64_t batches = 8;

/// What both dispatchers and the trainer's stand-in know.
struct admissions {
  std::uint64_t count = 0;
  /// Of an admission beyond the window.
  std::string violation;
};

/// Admits every second batch.
class dispatcher final : public actor {
public:
  using protocol = weir::protocol<>;
  static constexpr bool is_origin = true;
  dispatcher(context ctx, handle<sampler_protocol> sampler, std::uint64_t first, admissions& seen)
      : actor(std::move(ctx)), sampler_(std::move(sampler)), first_(first), seen_(seen) {}

private:
  task<void> run() override {
    for (std::uint64_t admission = first_; admission < batches;) {
      AwaitAdmissionT wait;
      wait.admission = admission;
      auto wait_request = pack(wait);
      auto opened = co_await sampler_.ask(wait_request, within(std::chrono::seconds(60)));
      if (!opened) co_return fail(opened.error());
      auto admitted = co_await admit(admission);
      if (!admitted) co_return fail(admitted.error());
      if (*admitted) admission += 2;
    }
  }

  task<result<bool>> admit(std::uint64_t admission) {
    auto lease = co_await mutations().enter();
    AdmitBatchT want;
    want.admission = admission;
    auto request = pack(want);
    auto answer = co_await sampler_.ask(lease, request, within(std::chrono::seconds(60)));
    if (!answer) co_return failure(answer.error());
    const BatchAdmitted& outcome = **answer;
    if (!outcome.admitted()) co_return false;
    ++seen_.count;
    const std::uint64_t newest = outcome.admission_version() + window;
    if (outcome.dispatch_index() > static_cast<std::int64_t>(newest))
      seen_.violation = "batch " + std::to_string(outcome.dispatch_index()) +
                        " was admitted at version " + std::to_string(outcome.admission_version());
    co_return true;
  }

  const handle<sampler_protocol> sampler_;
  const std::uint64_t first_;
  admissions& seen_;
};

/// A version a millisecond, as long as there is a batch to train for it.
class publisher final : public actor {
public:
  using protocol = weir::protocol<>;
  publisher(context ctx, handle<sampler_protocol> sampler, const admissions& seen)
      : actor(std::move(ctx)), sampler_(std::move(sampler)), seen_(seen) {}

private:
  task<void> run() override {
    VersionLiveT live;
    while (seen_.count < batches) {
      co_await clock().after(std::chrono::milliseconds(1));
      if (seen_.count <= live.version) continue;
      ++live.version;
      sampler_.tell(pack(live));
    }
    finish_run();
  }

  const handle<sampler_protocol> sampler_;
  const admissions& seen_;
};

/// The first seed of which an admission is beyond the window, and how; nothing if there is none.
std::string violation_within(std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    admissions seen;
    event_log log{incarnation(1)};
    const auto ended = simulate(seed, [&](graph& system) {
      sampler_state state(testing::policy_of("in_order", window), 1, {});
      testing::event_log unheard;
      for (std::uint64_t batch = 0; batch < batches; ++batch)
        REQUIRE(state.reserve(batch, testing::reservations(batch, 1), unheard.stream, 1));
      const auto gate =
          system.add<sampler>("sampler", std::move(state), log, std::vector<group_event>());
      for (std::uint64_t first = 0; first < 2; ++first)
        system.add<dispatcher>("dispatcher-" + std::to_string(first), gate, first, seen);
      system.add<publisher>("publisher", gate, seen);
    });
    INFO((ended.outcome ? std::string() : to_string(ended.outcome.error())));
    REQUIRE(ended.outcome.has_value());
    if (!seen.violation.empty()) return seen.violation;
  }
  return {};
}

} // namespace

TEST_SUITE_BEGIN("simulation");

TEST_CASE("gate_rechecked_under_lease: two who waited for one opening do not both pass") {
  CHECK(violation_within(200) == "");
  const rule_suspension off(rule::gate_rechecked_under_lease);
  CHECK(violation_within(200) != "");
}

TEST_SUITE_END();
