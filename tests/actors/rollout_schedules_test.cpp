// Random schedules over the cores of dataloader, sampler, rollout, replay and trainer, with cuts
// and crashes at any point between transitions. The oracle is a plain map of groups that is saved
// and restored with each cut; the code under test goes through its sections as a bundle would.
//
// Checked at every cut: the conservation law, in count and sum, and the invariants of every core.
// Checked at the end: each group that was handed out is exactly one of consumed and dropped.
#include "actors/rollout/reconcile.hpp"
#include "actors/rollout/rollout_state.hpp"
#include "actors/sampler/replacement_reserve.hpp"
#include "actors/trainer/trainer_state.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

using namespace weir;
using namespace weir::testing;

namespace {

constexpr std::uint64_t step_groups = 3;
constexpr std::uint64_t window_max = 2;
constexpr std::uint64_t capacity = step_groups * (window_max + 1);

struct sampler_choice {
  std::string name;
  std::int64_t window = 1;
};

/// What the schedule may do.
struct weather {
  bool failures = false;
  bool change_sampler = false;
  bool replace = false;
  std::uint64_t groups = 40;
};

failure_limits tolerant() {
  failure_limits limits;
  limits.max_skipped_prompts = 1000;
  limits.max_consecutive_dropped_prompts = 1000;
  limits.min_step_batch_fraction = 0;
  limits.max_dispatches_per_attempt = 0;
  return limits;
}

failure_limits limits_of(const weather& conditions) {
  failure_limits limits = tolerant();
  limits.replace_dropped_prompts = conditions.replace;
  limits.max_replacement_attempts = 2;
  if (conditions.replace) limits.max_infra_attempts_per_prompt = 2;
  if (conditions.replace) limits.max_data_attempts_per_prompt = 1;
  return limits;
}

rollout_limits rollout_limits_of(const sampler_choice& chosen, const weather& conditions) {
  rollout_limits limits{.groups_per_step = step_groups, .inflight_max = 4};
  limits.stamps = policy_of(chosen.name, chosen.window)->stamps();
  if (conditions.replace && limits.stamps) limits.reserve_low = 2;
  return limits;
}

enum class fate : std::uint8_t { owned, consumed, dropped };

struct bundle {
  std::vector<std::byte> ledger;
  std::vector<std::byte> reserve;
  std::vector<std::byte> index;
  trainer_image trainer;
  std::uint64_t handed_out = 0;
  std::map<group_id, fate> fates;
};

/// One incarnation's actors.
struct actors {
  actors(const sampler_choice& chosen, const weather& conditions, const trainer_image& from)
      : sampler(policy_of(chosen.name, chosen.window), step_groups, limits_of(conditions)),
        replay(policy_of(chosen.name, chosen.window), {.groups_buffered_max = capacity}),
        rollout(rollout_limits_of(chosen, conditions)), trainer(from) {}
  sampler_state sampler;
  replay_state replay;
  rollout_state rollout;
  trainer_state trainer;
  bool trained = false;
  bool finished = false;
};

class simulated_run {
public:
  simulated_run(sampler_choice chosen, weather conditions, std::uint64_t seed)
      : chosen_(std::move(chosen)), weather_(conditions), random_(seed) {
    live_.emplace(chosen_, weather_, trainer_image{.step = 0, .version = {}, .policy = policy_});
    publish();
    cut();
  }

  /// Random transitions, with cuts and crashes among them.
  void storm(int transitions) {
    for (int index = 0; index < transitions && !live_->finished; ++index) {
      act();
      if (chance(12)) cut();
      if (chance(40)) crash();
    }
  }

  /// No more crashes: the run must come to its end.
  void calm() {
    for (int index = 0; index < 20000 && !live_->finished; ++index)
      act();
    REQUIRE(live_->finished);
    cut();
    for (const auto& [group, where] : fates_) {
      CAPTURE(group.value);
      CHECK(where != fate::owned);
    }
    CHECK(fates_.size() == weather_.groups);
    CHECK(live_->sampler.unfinished_groups() == 0);
    CHECK(live_->sampler.spares() == 0);
    CHECK(live_->replay.permits().taken() == 0);
    CHECK(live_->replay.staged() == 0);
    CHECK(live_->rollout.in_flight() == 0);
  }

  [[nodiscard]] std::set<group_id> with(fate where) const {
    std::set<group_id> groups;
    for (const auto& [group, at] : fates_)
      if (at == where) groups.insert(group);
    return groups;
  }
  [[nodiscard]] int crashes() const { return crashes_; }
  [[nodiscard]] int replaced() const { return replaced_; }
  [[nodiscard]] int promoted() const { return promoted_; }
  /// Restores under another sampler with more groups than room, and groups too old for its stamps.
  [[nodiscard]] int overdrawn() const { return overdrawn_; }
  [[nodiscard]] int generated_again() const { return generated_again_; }

private:
  bool chance(unsigned one_in) { return random_() % one_in == 0; }

  void act() {
    switch (random_() % 6) {
    case 0:
      return supply();
    case 1:
      return start();
    case 2:
      return generate();
    case 3:
      return commit();
    case 4:
      return train();
    default:
      return weather_.failures && chance(8) ? fail() : generate();
    }
  }

  void supply() {
    actors& now = *live_;
    const next_supply next = now.rollout.next_move();
    switch (next.move) {
    case supply_move::reserve:
      return reserve(next);
    case supply_move::divert:
      return divert(next);
    case supply_move::drain:
      return drain(next);
    case supply_move::admit: {
      const auto outcome = now.sampler.admit(next.admission, log_.stream, 1);
      REQUIRE(outcome.has_value());
      if (outcome->admitted) now.rollout.admitted(next.admission, *outcome);
      return;
    }
    case supply_move::drop_remainder: {
      const auto groups = now.rollout.reserved_batches().front().groups;
      const auto dropped = now.sampler.drop(groups, drop_reason::end_of_data, log_.stream, 1);
      REQUIRE(dropped.has_value());
      for (const group_id group : *dropped)
        end(group, fate::dropped);
      now.rollout.dropped_reserved(next.admission);
      return;
    }
    case supply_move::finish:
      return now.replay.end_supply("the data is at its end");
    case supply_move::wait:
      return;
    }
  }

  void reserve(const next_supply& next) {
    const std::uint64_t count = std::min(next.groups, weather_.groups - handed_out_);
    if (count == 0) return live_->rollout.end_data();
    const auto batch = reservations(handed_out_, count);
    REQUIRE(live_->sampler.reserve(next.admission, batch, log_.stream, 1).has_value());
    std::vector<group_id> groups;
    for (const group_reservation& one : batch) {
      groups.push_back(one.group);
      CHECK(fates_.emplace(one.group, fate::owned).second);
    }
    live_->rollout.reserved(next.admission, groups);
    handed_out_ += count;
  }

  void divert(const next_supply& next) {
    if (weather_.groups - handed_out_ < next.groups) {
      reserve(next);
      return live_->rollout.end_data();
    }
    const auto batch = reservations(handed_out_, next.groups);
    const auto spares = live_->sampler.divert(batch, log_.stream, 1);
    REQUIRE(spares.has_value());
    live_->rollout.spares_are(*spares);
    for (const group_reservation& one : batch)
      CHECK(fates_.emplace(one.group, fate::owned).second);
    handed_out_ += next.groups;
  }

  void drain(const next_supply& next) {
    const auto drained = live_->sampler.drain(next.admission, next.groups, log_.stream, 1);
    REQUIRE(drained.has_value());
    std::vector<group_id> groups;
    for (const ledger_record& record : *drained)
      groups.push_back(record.group);
    live_->rollout.spares_are(live_->sampler.spares());
    live_->rollout.reserved(next.admission, groups);
  }

  /// A group that failed for good: a spare takes its place, or its step is short.
  void give_up(group_id group, drop_reason reason) {
    actors& now = *live_;
    const auto outcome = now.sampler.replace(group, reason, log_.stream, 1);
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->has_value());
    staged_.erase(group);
    std::ignore = now.replay.stop(group);
    now.rollout.finished(group);
    now.rollout.spares_are(now.sampler.spares());
    end(group, fate::dropped);
    if (!(*outcome)->spare) return;
    ledger_record spare = *(*outcome)->spare;
    const auto lender = now.replay.promote(spare.target_step, spare.dispatch_index, log_.stream, 1);
    now.rollout.took_place(spare.group);
    ++replaced_;
    if (!lender) return;
    ++promoted_;
    const lent_stamp lent{lender->dispatch_index, lender->target_step, lender->admission_version};
    REQUIRE(now.sampler.repay(spare.group, lent, log_.stream, 1).has_value());
  }

  std::optional<group_id> some_running() {
    const auto& running = live_->rollout.running();
    if (running.empty()) return std::nullopt;
    return *std::next(running.begin(), static_cast<std::ptrdiff_t>(random_() % running.size()));
  }

  void start() {
    const auto group = some_running();
    if (!group) return;
    const ledger_record& record = *live_->sampler.capture().find(*group);
    const start_request request{.group = *group,
                                .dispatch_index = record.dispatch_index,
                                .target_step = record.target_step,
                                .admission_version = record.admission_version,
                                .window = record.window};
    REQUIRE(live_->replay.request_start(request).has_value());
    std::ignore = live_->replay.grant_permits();
    std::ignore = live_->replay.grant_due(live_->trainer.version());
    // Nobody flies before there are weights for it.
    for (const group_id running : live_->rollout.running()) {
      const ledger_record& one = *live_->sampler.capture().find(running);
      if (live_->replay.started(running) &&
          one.admission_version <= live_->sampler.capture().live_version)
        live_->rollout.request_flight(running, one.dispatch_index);
    }
    std::ignore = live_->rollout.grant_flights();
  }

  /// Stages rows of a group in flight, made by a live version that is new enough.
  void generate() {
    const auto group = some_running();
    if (!group || !live_->rollout.flying(*group)) return;
    const ledger_record& record = *live_->sampler.capture().find(*group);
    const weight_version live = live_->sampler.capture().live_version;
    if (live < record.admission_version) return;
    const staged_group staged{.group = *group,
                              .content_attempt = record.content_attempt,
                              .start_version = live,
                              .end_version = live,
                              .rows = rows_of(*group)};
    if (!staged_.emplace(*group, record.content_attempt).second) return;
    REQUIRE(live_->replay.stage(staged).has_value());
  }

  void commit() {
    if (staged_.empty()) return;
    const auto [group, attempt] =
        *std::next(staged_.begin(), static_cast<std::ptrdiff_t>(random_() % staged_.size()));
    staged_.erase(group);
    if (commit_group(live_->sampler, live_->replay, group, attempt, log_))
      return live_->rollout.finished(group);
    // Only a group that failed since is not found at this attempt; its rows go.
    CHECK(weather_.failures);
    CHECK(live_->replay.discard(group, attempt) == rows_of(group));
  }

  void fail() {
    const auto group = some_running();
    if (!group || !live_->rollout.flying(*group)) return;
    const auto kind = chance(2) ? failure_kind::data : failure_kind::infra;
    const auto outcome = live_->sampler.record_failure(*group, kind, log_.stream, 1);
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->has_value());
    if ((*outcome)->retry) return;
    give_up(*group,
            kind == failure_kind::data ? drop_reason::data_failure : drop_reason::infra_failure);
  }

  void train() {
    actors& now = *live_;
    const std::uint64_t step = now.trainer.step();
    const weight_version version = now.trainer.version();
    if (now.trainer.publish_due()) return publish();
    if (now.trained) return consume(step);
    const auto stale = now.replay.evict(version, log_.stream, 1);
    REQUIRE(stale.has_value());
    for (const group_id group : stale->groups)
      end(group, fate::dropped);
    const std::uint64_t target = now.sampler.target(step) - now.replay.claimed(step);
    const std::uint64_t chunk = target > 1 && chance(3) ? target - 1 : target;
    const auto outlook = now.replay.outlook(step, version, chunk);
    REQUIRE(outlook.has_value());
    if (outlook->prospect == batch_prospect::ended) return finish();
    if (outlook->prospect == batch_prospect::wait) return;
    const auto batch = now.replay.claim(step, version, chunk, log_.stream, 1);
    REQUIRE(batch.has_value());
    REQUIRE(batch->size() == chunk);
    for (const replay_record& record : *batch)
      if (chosen_.name != "ready_first")
        CHECK(record.start_version.value + record.window >= version.value);
    if (now.replay.claimed(step) < now.sampler.target(step)) return;
    now.trained = true;
    REQUIRE(now.trainer.prepare(step, policy_).has_value());
  }

  /// The consume lease: captured state, groups, shortfall.
  void consume(std::uint64_t step) {
    REQUIRE(live_->trainer.consume(step, log_.stream).has_value());
    for (const group_id group : live_->replay.consume(step, log_.stream, 1).groups)
      end(group, fate::consumed);
    live_->sampler.settle(step);
    live_->trained = false;
  }

  void publish() {
    REQUIRE(live_->trainer.published(live_->trainer.version()).has_value());
    std::ignore = live_->sampler.version_live(live_->trainer.version());
  }

  void finish() {
    for (const group_id group : live_->replay.drop_remainder(log_.stream, 1).groups)
      end(group, fate::dropped);
    live_->finished = true;
  }

  void end(group_id group, fate where) {
    fate& before = fates_.at(group);
    CHECK(before == fate::owned);
    before = where;
  }

  void cut() {
    actors& now = *live_;
    now.sampler.check_invariants();
    now.replay.check_invariants();
    now.rollout.check_invariants();
    now.trainer.check_invariants();
    cut_tallies tallies;
    add_tallies(now.sampler.capture(), tallies);
    add_tallies(now.replay.capture(), tallies);
    group_tally everywhere;
    for (const group_tally& one : tallies.in_state)
      everywhere += one;
    CHECK(everywhere == tally_of_range(group_id(0), handed_out_));
    const epoch_id epoch{.incarnation = 1, .life = 1, .number = ++cuts_};
    saved_ = {.ledger = encode(now.sampler.capture(), epoch),
              .reserve = encode_reserve(now.sampler.capture(), epoch),
              .index = encode(now.replay.capture(), epoch),
              .trainer = now.trainer.capture(),
              .handed_out = handed_out_,
              .fates = fates_};
  }

  void crash() {
    ++crashes_;
    auto ledger = decode_sampler(saved_.ledger);
    auto index = decode_replay(saved_.index);
    REQUIRE(ledger.has_value());
    REQUIRE(index.has_value());
    REQUIRE(decode_reserve(saved_.reserve, *ledger).has_value());
    if (weather_.change_sampler && chance(2)) choose_sampler();
    const bool overdrawn = index->image.index.size() + ledger->image.admitted.count > capacity;
    live_.emplace(chosen_, weather_, saved_.trainer);
    const auto report = reconcile(ledger->image, index->image, live_->sampler.policy(), step_groups,
                                  live_->trainer.version());
    REQUIRE(report.has_value());
    overdrawn_ += overdrawn && report->restamped ? 1 : 0;
    generated_again_ += static_cast<int>(report->rows.size() / 2);
    REQUIRE(live_->sampler.load(ledger->image).has_value());
    REQUIRE(live_->replay.load(index->image).has_value());
    recovery_plan plan = plan_recovery(live_->sampler.unfinished(), live_->sampler.next_admission(),
                                       limits_of(weather_));
    plan.spares = live_->sampler.spares();
    live_->rollout.recover(plan);
    handed_out_ = saved_.handed_out;
    fates_ = saved_.fates;
    staged_.clear();
    // Groups that were given up right at the cut are dropped first of all.
    for (const spent_group& spent : plan.spent)
      give_up(spent.group, spent.reason);
    publish();
    cut();
  }

  void choose_sampler() {
    constexpr std::array names = {"in_order", "weight_fifo", "ready_first", "windowed"};
    chosen_.name = names[random_() % names.size()];
    chosen_.window = static_cast<std::int64_t>(random_() % (window_max + 1));
  }

  sampler_choice chosen_;
  weather weather_;
  std::mt19937_64 random_;
  std::shared_ptr<const void> policy_ = std::make_shared<const int>(0);
  std::optional<actors> live_;
  event_log log_;
  std::uint64_t handed_out_ = 0;
  std::uint64_t cuts_ = 0;
  int crashes_ = 0;
  int replaced_ = 0;
  int promoted_ = 0;
  int overdrawn_ = 0;
  int generated_again_ = 0;
  std::map<group_id, fate> fates_;
  std::map<group_id, std::uint32_t> staged_;
  bundle saved_;
};

constexpr std::uint64_t seeds = 60;

} // namespace

TEST_SUITE("actors/rollout_schedules") {
  TEST_CASE("in_order trains what an uninterrupted run trains, whatever is cut and killed") {
    int crashes = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(seed);
      simulated_run run({"in_order", static_cast<std::int64_t>(seed % 3)}, {}, seed);
      run.storm(1500);
      run.calm();
      crashes += run.crashes();
      // 40 groups are 13 steps of 3; the last prompt is no step.
      CHECK(run.with(fate::consumed).size() == 39);
      CHECK(run.with(fate::dropped) == std::set<group_id>{group_id(39)});
    }
    CHECK(crashes > 500);
  }

  TEST_CASE("weight_fifo and ready_first lose nothing but the remainder, and do not wedge") {
    for (const char* name : {"weight_fifo", "ready_first"})
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        CAPTURE(name);
        CAPTURE(seed);
        simulated_run run({name, static_cast<std::int64_t>(seed % 3)}, {.groups = 42}, seed);
        run.storm(1500);
        run.calm();
        if (std::string(name) == "ready_first") CHECK(run.with(fate::consumed).size() == 42);
      }
  }

  TEST_CASE("windowed runs to the end of data with every group accounted for") {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(seed);
      simulated_run run({"windowed", static_cast<std::int64_t>(seed % 3)}, {}, seed);
      run.storm(1500);
      run.calm();
    }
  }

  TEST_CASE("failures are dropped with their reason, and steps shrink instead of waiting") {
    for (const char* name : {"in_order", "weight_fifo", "ready_first", "windowed"})
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        CAPTURE(name);
        CAPTURE(seed);
        simulated_run run({name, 1}, {.failures = true}, seed);
        run.storm(1500);
        run.calm();
      }
  }

  TEST_CASE("a dropped group is replaced in its step, across cuts and kills") {
    int replaced = 0;
    int promoted = 0;
    for (std::uint64_t seed = 0; seed < 2 * seeds; ++seed) {
      CAPTURE(seed);
      simulated_run run({"in_order", static_cast<std::int64_t>(seed % 3)},
                        {.failures = true, .replace = true}, seed);
      run.storm(1500);
      run.calm();
      replaced += run.replaced();
      promoted += run.promoted();
    }
    CHECK(replaced > 100);
    CHECK(promoted > 20);
  }

  TEST_CASE("spares survive a change of the sampler, and are drained in the end") {
    for (std::uint64_t seed = 0; seed < 2 * seeds; ++seed) {
      CAPTURE(seed);
      simulated_run run({"in_order", 1},
                        {.failures = true, .change_sampler = true, .replace = true}, seed);
      run.storm(1500);
      run.calm();
    }
  }

  TEST_CASE("a sampler or window that changes on resume neither loses a group nor wedges") {
    int overdrawn = 0;
    int generated_again = 0;
    for (const bool failures : {false, true})
      for (std::uint64_t seed = 0; seed < 2 * seeds; ++seed) {
        CAPTURE(failures);
        CAPTURE(seed);
        simulated_run run({"in_order", 1}, {.failures = failures, .change_sampler = true}, seed);
        run.storm(1500);
        run.calm();
        overdrawn += run.overdrawn();
        generated_again += run.generated_again();
      }
    CHECK(overdrawn >= 20);
    CHECK(generated_again >= 20);
  }
}
