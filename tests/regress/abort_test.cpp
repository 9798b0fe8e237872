// Reported faults of groups that are given up while they are in flight.
#include "tests/regress/observed_job.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/support/ungated_policy.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace weir;
using namespace weir::test;

namespace {

using flag = std::shared_ptr<std::atomic<bool>>;

/// Trains on what is ready. Once it is told to, gives up the oldest group in flight.
class giving_up final : public ungated_policy {
public:
  explicit giving_up(flag told) : told_(std::move(told)) {}
  [[nodiscard]] std::string_view name() const override { return "giving_up"; }
  [[nodiscard]] std::uint64_t window() const override { return 0; }
  [[nodiscard]] result<std::vector<group_id>> abort_in_flight(const slot_view& slots,
                                                              weight_version) const override {
    for (const policy_slot& slot : slots)
      if (!slot.ready && told_->exchange(false)) return std::vector<group_id>{slot.group};
    return std::vector<group_id>();
  }

private:
  const flag told_;
};

/// At one instant tells the policy, and replay to ask it.
class instant final : public actor {
public:
  using protocol = weir::protocol<>;
  instant(context ctx, std::chrono::nanoseconds when, flag told)
      : actor(ctx), self_(std::move(ctx)), when_(when), told_(std::move(told)) {}

private:
  task<void> run() override {
    const auto buffer = self_.find<replay_protocol>("replay");
    co_await clock().after(when_);
    *told_ = true;
    buffer.tell(pack(VersionMovedT()));
  }

  const context self_;
  const std::chrono::nanoseconds when_;
  const flag told_;
};

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/NeMo-RL_3923: a group is given up at each instant of a run, under barriers") {
  constexpr std::uint64_t prompts = 8;
  sim::run_plan plan;
  plan.dataset = prompts;
  plan.failures_one_in = 3; // So that its handler changes the ledger's record, too.
  plan.save_pause = std::chrono::microseconds(10);
  small_run undisturbed(plan);
  undisturbed.run_clean({});
  std::uint64_t given_up = 0;
  std::uint64_t cuts = 0;
  // A step of the schedule takes a microsecond. Every eleventh meets each place of a group's life.
  constexpr std::uint64_t stride = 11;
  for (std::uint64_t step = 1; step <= undisturbed.length().steps; step += stride) {
    CAPTURE(step);
    small_run run(plan);
    run.adjust = [&](main_job& job) {
      const auto told = std::make_shared<std::atomic<bool>>(false);
      job.policy = std::make_shared<const giving_up>(told);
      job.rollout.limits.stamps = false;
      job.record_checkpoint = [&cuts](const checkpoint_record&) { ++cuts; };
      job.parts.observer = [inner = job.parts.observer, told,
                            step](graph& actors, std::shared_ptr<run_counters> counters) {
        actors.add<instant>("instant", std::chrono::microseconds(step), told);
        return inner(actors, std::move(counters));
      };
    };
    run.run_clean({}); // Whole cuts, a clean audit, no slot, row, lease or stream left over.
    const auto& audit = run.audit();
    const auto stale = audit.dropped[static_cast<std::size_t>(event_reason::stale)];
    const auto rest = audit.dropped[static_cast<std::size_t>(event_reason::end_of_data)];
    REQUIRE(stale <= 1);
    REQUIRE(audit.consumed.size() + stale + rest == prompts);
    given_up += stale;
  }
  CHECK(given_up >= 50);
  CHECK(cuts >= 1000);
}

TEST_SUITE_END();
