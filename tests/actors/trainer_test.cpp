/// The trainer actor between scripted peers: steps in chunks, targets that shrink meanwhile, and
/// what comes before the first step.
#include "actors/runtime/simulation.hpp"
#include "actors/trainer/trainer.hpp"
#include "tests/actors/cores.hpp"
#include "tests/simulation/pool_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace weir::testing {
namespace {

/// What happens to the trainer, and what it did: one line each, in order.
struct trainer_script {
  std::vector<std::uint64_t> ready = {}; ///< Groups that are there at each look of the trainer.
  std::vector<std::uint64_t> targets = {4};
  std::vector<std::string> did = {};
  std::size_t looks = 0;
  std::size_t reads = 0;
};
using script_ptr = std::shared_ptr<trainer_script>;

std::uint64_t nth(const std::vector<std::uint64_t>& values, std::size_t index) {
  return values[std::min(index, values.size() - 1)];
}

/// Its policy is how many groups it was trained on.
class counting_learner final : public learner {
public:
  explicit counting_learner(script_ptr script) : script_(std::move(script)) {}
  result<void> begin_step(const policy_ptr& before) override {
    groups_ = *static_cast<const std::uint64_t*>(before.get());
    return {};
  }
  result<void> add_groups(const std::vector<ClaimedGroupT>& groups) override {
    groups_ += groups.size();
    script_->did.push_back("train " + std::to_string(groups.size()));
    return {};
  }
  result<learned> finish_step() override {
    return learned{std::make_shared<const std::uint64_t>(groups_), {}};
  }
  result<learned> warm_up(const policy_ptr& before, std::uint64_t) override {
    return learned{before, {}};
  }
  result<std::vector<warmup_sample>> sample(const policy_ptr&) override {
    return std::vector<warmup_sample>();
  }
  policy_ptr start_of_job(const policy_ptr& warmed_up) override { return warmed_up; }
  [[nodiscard]] attachment publish(const policy_ptr& policy) const override {
    return {policy, std::as_bytes(std::span(static_cast<const std::uint64_t*>(policy.get()), 1))};
  }
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write(const policy_ptr&, const section_target&) const override {
    return std::vector<dataplane::finished_section>();
  }
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write_version(const policy_ptr&, weight_version, const section_target&) const override {
    return std::vector<dataplane::finished_section>();
  }

private:
  const script_ptr script_;
  std::uint64_t groups_ = 0;
};

/// Everybody whom the trainer asks, in one actor.
using peer_protocol = joined<sampler_protocol, replay_protocol, generator_protocol>;

class peers final : public actor {
public:
  using protocol = peer_protocol;
  static constexpr bool is_owner = true;
  peers(context ctx, script_ptr script) : actor(std::move(ctx)), script_(std::move(script)) {
    serve(&peers::on_target);
    serve(&peers::on_await);
    serve(&peers::on_claim);
    serve(&peers::on_consume);
    serve(&peers::on_settle);
    serve(&peers::on_update);
    serve(&peers::on_await_loss);
    serve(&peers::on_live);
    serve(&peers::on_moved);
  }

private:
  task<result<message<TargetRead>>> on_target(message<ReadTarget>) {
    TargetReadT answer;
    answer.groups = nth(script_->targets, script_->reads++);
    co_return pack(answer);
  }
  task<result<message<BatchReady>>> on_await(message<AwaitBatch> request) {
    script_->did.push_back("await " + std::to_string(request->groups_min()) + " to " +
                           std::to_string(request->groups()));
    ready_ = nth(script_->ready, script_->looks++);
    BatchReadyT answer;
    answer.available = ready_;
    co_return pack(answer);
  }
  task<result<message<BatchClaimed>>> on_claim(lease_ref, message<ClaimBatch> request) {
    BatchClaimedT answer;
    for (std::uint64_t i = 0; i < std::min(ready_, request->groups()); ++i) {
      auto group = std::make_unique<ClaimedGroupT>();
      group->start_version = request->version();
      answer.groups.push_back(std::move(group));
    }
    co_return pack(answer);
  }
  task<result<message<BatchConsumed>>> on_consume(lease_ref, message<ConsumeBatch>) {
    script_->did.emplace_back("consume");
    co_return pack(BatchConsumedT());
  }
  task<result<message<StepSettled>>> on_settle(lease_ref, message<SettleStep>) {
    co_return pack(StepSettledT());
  }
  task<result<message<WeightsLive>>> on_update(message<UpdateWeights> request) {
    script_->did.push_back("version " + std::to_string(request->version()));
    WeightsLiveT live;
    live.version = request->version();
    co_return pack(live);
  }
  task<result<message<WeightsLost>>> on_await_loss(message<AwaitWeightsLost>) {
    while (true)
      co_await never_.raised();
  }
  task<void> on_live(message<VersionLive>) { co_return; }
  task<void> on_moved(message<VersionMoved>) { co_return; }

  const script_ptr script_;
  std::uint64_t ready_ = 0;
  signal never_;
};

class no_checkpoints final : public actor {
public:
  using protocol = checkpoint_protocol;
  explicit no_checkpoints(context ctx) : actor(std::move(ctx)) {}
};

/// Runs the trainer to its last step, from where `from` says.
std::vector<std::string> train(trainer_script what, trainer_options options,
                               const trainer_image& from, std::uint64_t earlier = 0) {
  const auto script = std::make_shared<trainer_script>(std::move(what));
  remembered_events events;
  simulation around({.seed = 1});
  {
    graph system(around.env());
    const auto all = system.add<peers>("peers", script);
    options.save = false;
    trainer_peers asked;
    asked.sampler = handle<sampler_protocol>::narrowed(all);
    asked.replay = handle<replay_protocol>::narrowed(all);
    asked.generators.push_back(handle<generator_protocol>::narrowed(all));
    asked.checkpoint = system.add<no_checkpoints>("checkpoint");
    system.add<trainer>("trainer", options, asked,
                        trainer_engine{std::make_shared<counting_learner>(script),
                                       std::make_shared<sim::pool_stream>(around.env().pool())},
                        trainer_state(from, earlier), from.step > 0, events);
    REQUIRE(system.start().has_value());
    const auto ended = system.wait_blocking();
    INFO((ended ? std::string() : to_string(ended.error())));
    CHECK(ended.has_value());
    CHECK(system.stop().has_value());
  }
  return script->did;
}

trainer_options until(std::uint64_t step, std::uint64_t groups_per_chunk_min = whole_step,
                      std::uint64_t earlier = 0) {
  trainer_options options;
  options.max_num_steps = step;
  options.groups_per_chunk_min = groups_per_chunk_min;
  options.earlier_versions = earlier;
  return options;
}

std::shared_ptr<const void> policy(std::uint64_t groups) {
  return std::make_shared<const std::uint64_t>(groups);
}

trainer_image fresh() {
  return {0, weight_version(0), policy(0), {}};
}

using lines = std::vector<std::string>;

} // namespace

TEST_SUITE("actors/trainer") {
  TEST_CASE(
      "a step is trained as its groups come, in chunks of at least so many, and consumed whole") {
    CHECK(train({.ready = {2, 3}}, until(1, 2), fresh()) ==
          lines{"version 0", "await 2 to 4", "train 2", "await 2 to 2", "train 2", "consume",
                "version 1"});
    CHECK(train({.ready = {3, 1}}, until(1, 3), fresh()) ==
          lines{"version 0", "await 3 to 4", "train 3", "await 1 to 1", "train 1", "consume",
                "version 1"});
  }

  TEST_CASE("the target is read after every wait: a step that shrinks meanwhile ends with less") {
    // A group is given up while the trainer waits: it is woken, and finds the step complete.
    CHECK(train({.ready = {3, 0}, .targets = {4, 4, 3}}, until(1, 2), fresh()) ==
          lines{"version 0", "await 2 to 4", "train 3", "await 1 to 1", "consume", "version 1"});
    // Before its first chunk: the chunk is smaller.
    CHECK(train({.ready = {1, 2}, .targets = {4, 2}}, until(1, 4), fresh()) ==
          lines{"version 0", "await 4 to 4", "await 2 to 2", "train 2", "consume", "version 1"});
  }

  TEST_CASE("a restored trainer gives its version to the generators before anything else") {
    CHECK(train({.ready = {4}}, until(13), {12, weight_version(12), policy(7), {}}) ==
          lines{"version 12", "await 4 to 4", "train 4", "consume", "version 13"});
  }

  TEST_CASE("with pinned weights the earlier versions come first, and are not sent again") {
    const trainer_image restored{
        5,
        weight_version(5),
        policy(20),
        {{weight_version(3), policy(12)}, {weight_version(4), policy(16)}}};
    CHECK(train({.ready = {4}}, until(6, 1, 2), restored, 2) ==
          lines{"version 3", "version 4", "version 5", "await 1 to 4", "train 4", "consume",
                "version 6"});
  }
}

} // namespace weir::testing
