// A group in flight that is given up as stale: at every point of its life at which it may wait,
// and with a barrier held meanwhile. Its ledger entry goes first, then its coroutine; afterwards
// nothing of it is left anywhere, and the run goes on without it.
#include "actors/runtime/failpoint.hpp"
#include "tests/simulation/one_life.hpp"
#include "tests/support/ungated_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace weir;
using namespace weir::sim;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t window = 3;
constexpr std::uint64_t prompts = 24;

/// Gives up whatever is in flight and was admitted two versions ago or earlier, token or not: so
/// every wait of a group can be the one in which it is given up. A gate would stay closed for ever
/// once it has lost a window's worth of groups.
class impatient final : public test::ungated_policy {
public:
  [[nodiscard]] std::string_view name() const override { return "impatient"; }
  [[nodiscard]] std::uint64_t window() const override { return ::window; }
  [[nodiscard]] result<std::vector<group_id>>
  abort_in_flight(const slot_view& slots, weight_version version) const override {
    std::vector<group_id> stale;
    for (const policy_slot& slot : slots)
      if (!slot.ready && slot.admission_version.value + 2 <= version.value)
        stale.push_back(slot.group);
    return stale;
  }
};

struct abort_case {
  std::string where;
  std::string points;
  /// Of a generator that breaks off; 0: it does not.
  std::uint64_t failures_one_in = 0;
  std::int64_t backoff_ns = 1'000'000;
  /// The wait is within a transaction, which is not cut short: it may come first.
  bool may_win = false;
};

const std::vector<abort_case>& abort_cases() {
  static const std::vector<abort_case> cases = {
      {.where = "before it flies", .points = "rollout.started=park@3"},
      {.where = "before its generator is asked", .points = "rollout.asking=park@3"},
      {.where = "between two chunks of tokens", .points = "rollout.generating=park@5"},
      {.where = "in scoring", .points = "rollout.scoring=park@5"},
      {.where = "before its rows are staged", .points = "rollout.staging=park@3"},
      {.where = "before its commit", .points = "rollout.produced=park@3"},
      {.where = "in its commit", .points = "rollout.committing=delay:500ms@3", .may_win = true},
      {.where = "while its failure is recorded",
       .points = "rollout.recording=delay:500ms@2",
       .failures_one_in = 4,
       .may_win = true},
      {.where = "before it backs off",
       .points = "rollout.backing_off=park@2",
       .failures_one_in = 4},
      {.where = "in back-off",
       .points = "rollout.backing_off=delay:1ns",
       .failures_one_in = 8,
       .backoff_ns = 1'000'000'000'000},
  };
  return cases;
}

one_life live(const abort_case& given, std::uint64_t seed, bool barrier_held) {
  run_plan plan;
  plan.seed = seed;
  plan.sampler = {"windowed", window};
  plan.groups_per_step = 2;
  plan.dataset = prompts;
  plan.buffered_max = 2 * (window + 1);
  plan.inflight_max = 6;
  plan.generators = 2;
  plan.token_lag = milliseconds(1);
  plan.failures_one_in = given.failures_one_in;
  if (barrier_held) plan.save_pause = milliseconds(1);
  // Every commit holds its lease for so long that a barrier, which is always asked for, has the
  // gate closed for nearly all of the time.
  const std::string held = barrier_held ? ",rollout.releasing=delay:5ms" : "";
  REQUIRE(arm_failpoints(given.points + held).has_value());
  one_life lived = live_once(plan, [&given](main_job& job) {
    job.policy = std::make_shared<impatient>();
    job.rollout.failures.backoff_base_ns = given.backoff_ns;
    job.rollout.failures.backoff_max_ns = given.backoff_ns;
  });
  disarm_failpoints();
  return lived;
}

void check_nothing_left(const one_life& lived) {
  CHECK(lived.left.unsettled_leases == 0);
  CHECK(lived.left.open_streams == 0);
  CHECK(lived.rows.staged_rows + lived.rows.committed_rows == 0);
  CHECK(lived.counters->groups_in_flight.load() == 0);
  CHECK(lived.counters->groups_buffered.load() == 0);
}

void check_life(const abort_case& given, const one_life& lived) {
  INFO(lived.log);
  REQUIRE_MESSAGE(lived.ended.has_value(), to_string(lived.ended.error()));
  CHECK((lived.audit.clean() ? std::string() : to_string(lived.audit.problems.front())) == "");
  const auto stale = lived.audit.dropped[static_cast<std::size_t>(event_reason::stale)];
  CHECK(stale == lived.counters->groups_aborted.load());
  if (!given.may_win) CHECK(stale > 0);
  std::uint64_t dropped = 0;
  for (const std::uint64_t count : lived.audit.dropped)
    dropped += count;
  CHECK(lived.audit.consumed.size() + dropped == prompts);
  check_nothing_left(lived);
}

} // namespace

TEST_SUITE_BEGIN("simulation/abort");

TEST_CASE("a stale group is given up wherever it waits, and leaves nothing behind") {
  for (const abort_case& given : abort_cases())
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(given.where);
      CAPTURE(seed);
      check_life(given, live(given, seed, false));
    }
}

TEST_CASE("a stale group is given up once the barrier that is held has let its gate open") {
  for (const abort_case& given : abort_cases())
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(given.where);
      CAPTURE(seed);
      check_life(given, live(given, seed, true));
    }
}

TEST_SUITE_END();
