// The recovery matrix: seven states of a run, with four built-in samplers and one of a user, each
// cut, killed, and restored from its bundle. A case is named "recovery/STATE<SAMPLER>".
//
// Each state is looked at twice. The cores are loaded from the bundle and compared with those that
// were cut, group by group; and the whole graph resumes from the same bundle, is killed twice more,
// and runs to the end of the data, with the audit over all of its lives.
#include "actors/rollout/rollout_state.hpp"
#include "tests/actors/cores.hpp"
#include "tests/recovery/warm_run.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/tiny_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace weir;
using namespace weir::test;

namespace {

/// A user's own: gated as the built-in ones are, the newest dispatch batch first, nothing too old.
class newest_first_policy final : public sampler_policy {
public:
  explicit newest_first_policy(std::uint64_t window) : window_(window) {}
  [[nodiscard]] std::string_view name() const override { return "newest_first"; }
  [[nodiscard]] std::uint64_t window() const override { return window_; }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool bounds_staleness() const override { return false; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const override {
    return dispatched < static_cast<std::int64_t>(live.value + window_);
  }
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    std::vector<group_id> chosen;
    for (std::size_t at = slots.size; at > 0 && chosen.size() < wanted.groups_max; --at)
      if (slots[at - 1].ready) chosen.push_back(slots[at - 1].group);
    if (chosen.size() < wanted.groups_min) chosen.clear();
    return chosen;
  }

private:
  std::uint64_t window_;
};

// The columns of the matrix.
struct in_order {};
struct weight_fifo {};
struct ready_first {};
struct windowed {};
struct custom {};

template <class Sampler>
constexpr const char* name_of = "newest_first";
template <>
constexpr const char* name_of<in_order> = "in_order";
template <>
constexpr const char* name_of<weight_fifo> = "weight_fifo";
template <>
constexpr const char* name_of<ready_first> = "ready_first";
template <>
constexpr const char* name_of<windowed> = "windowed";

/// A row of the matrix.
struct scenario {
  std::uint64_t lag = 1;
  std::function<void(warm_run&)> happens;
  /// What the audit must say of in_order at the end; empty: nothing.
  std::string in_order_problem = {};
};

/// What the owners are after a restore: loaded from what the bundle holds.
struct recovered {
  recovered(restored_states loaded, const main_job& job)
      : states(std::move(loaded)), ledger(job.policy, matrix_groups_per_step, job.rollout.failures),
        buffer(job.policy, job.replay), rows(job.rows) {
    REQUIRE(ledger.load(states.sampler).has_value());
    REQUIRE(buffer.load(states.replay).has_value());
    rows.restore(states.rows);
    plan = plan_recovery(ledger.unfinished(), ledger.next_admission(), job.rollout.failures);
  }
  restored_states states;
  sampler_state ledger;
  replay_state buffer;
  dataplane::store rows;
  recovery_plan plan;
};

restored_states load_newest(dataplane::disk& storage, const restore_request& request) {
  const auto survey = dataplane::survey_bundles(storage, request.checkpoint_directory);
  REQUIRE(survey.has_value());
  const auto newest =
      dataplane::newest_valid_bundle(storage, request.checkpoint_directory, *survey);
  REQUIRE(newest.has_value());
  REQUIRE(newest->has_value());
  auto states = load_bundle(storage, request, (*newest)->chosen);
  REQUIRE(states.has_value());
  return std::move(*states);
}

/// What a step at `version` can train on, and what it would evict; nothing changes.
struct choices {
  std::vector<group_id> trained, evicted;
  friend bool operator==(const choices&, const choices&) = default;
};

choices choices_at(const replay_state& buffer, std::uint64_t version) {
  replay_state copy = buffer;
  const weight_version at(version);
  testing::remembered_events sink;
  event_stream unheard(sink, "replay");
  const auto outlook = copy.outlook(version, at, 64);
  REQUIRE(outlook.has_value());
  choices made;
  const auto claimed = copy.claim(version, at, outlook->available, unheard, 1);
  REQUIRE(claimed.has_value());
  for (const replay_record& record : *claimed)
    made.trained.push_back(record.group);
  copy = buffer;
  made.evicted = copy.evict(at, unheard, 1)->groups;
  return made;
}

/// Committed groups are back, each as it was, in the same rows; nothing was put again.
void check_committed(const warm_run& before, const recovered& after) {
  const auto cut = in_dispatch_order(before.buffer().capture().index);
  CHECK(in_dispatch_order(after.buffer.capture().index) == cut);
  const auto kept = before.rows_at_cut().committed();
  CHECK(after.states.rows.inventory() == kept.inventory());
  CHECK(after.states.rows.live_bytes() == kept.live_bytes());
  CHECK(after.rows.stat().committed_rows == cut.size() * matrix_siblings);
  CHECK(after.rows.stat().staged_rows == 0);
}

/// Unfinished groups are back: with their stamps, to be dispatched or to be admitted.
void check_unfinished(const warm_run& before, const recovered& after) {
  std::vector<ledger_record> expected = before.ledger().unfinished();
  for (ledger_record& record : expected)
    if (record.phase == group_phase::admitted) ++record.dispatches;
  CHECK(after.ledger.unfinished() == expected);
  CHECK(after.ledger.capture().dispatch_index == before.ledger().capture().dispatch_index);
  CHECK(after.ledger.capture().live_version == before.ledger().capture().live_version);
  std::size_t waiting = 0;
  for (const reserved_batch& batch : after.plan.readmit)
    waiting += batch.groups.size();
  CHECK(after.plan.dispatch.size() + waiting == expected.size());
  CHECK(after.plan.spent.empty());
}

/// Every required group once, in one place; what was evicted nowhere.
void check_owners(const warm_run& before, const recovered& after) {
  std::set<group_id> found;
  for (const replay_record& record : in_dispatch_order(after.buffer.capture().index))
    CHECK(found.insert(record.group).second);
  for (const ledger_record& record : after.ledger.unfinished())
    CHECK(found.insert(record.group).second);
  CHECK(found == before.required());
}

/// Selection and eviction at lag 0, 1 and 2, with everything generated that was handed out, too.
void check_selection(const warm_run& before, recovered& after) {
  for (const ledger_record& record : after.plan.dispatch) {
    const start_request start{.group = record.group,
                              .dispatch_index = record.dispatch_index,
                              .target_step = record.target_step,
                              .admission_version = record.admission_version,
                              .window = record.window};
    REQUIRE(after.buffer.request_start(start).has_value());
  }
  CHECK(after.buffer.grant_permits().size() == after.plan.dispatch.size());
  for (std::uint64_t lag = 0; lag <= 2; ++lag)
    CHECK(choices_at(after.buffer, before.version() + lag) ==
          choices_at(before.buffer(), before.version() + lag));
}

/// One cell of the matrix.
void recover(const scenario& row, const std::string& sampler) {
  const bool is_own = sampler == name_of<custom>;
  const sim::run_plan plan = matrix_plan(is_own ? name_of<ready_first> : sampler, row.lag);
  const auto own = std::make_shared<const newest_first_policy>(row.lag);
  const auto adjust = [&](main_job& job) {
    job.rollout.failures.min_step_batch_fraction = 0;
    if (is_own) job.policy = own;
  };
  sim::history lives(plan, {.adjust = adjust});
  world unused;
  main_job job = sim::tiny_job(plan, plan.sampler, unused, nullptr);
  adjust(job);
  std::set<group_id> evicted;
  {
    warm_run first(lives.disk(), job);
    row.happens(first);
    first.publish();
    recovered after(load_newest(lives.disk(), sim::request_of(plan, job)), job);
    check_committed(first, after);
    check_unfinished(first, after);
    check_owners(first, after);
    check_selection(first, after);
    evicted = first.evicted();
  }
  lives.disk().lose_process();
  const auto ended = lives.run({{sim::crash_kind::process, 150, std::nullopt, 0},
                                {sim::crash_kind::power, std::nullopt, 120, 7}});
  if (sampler == name_of<in_order> && !row.in_order_problem.empty()) {
    REQUIRE_FALSE(ended.has_value());
    CHECK(ended.error().text.find(row.in_order_problem) != std::string::npos);
    return;
  }
  INFO((ended ? std::string() : to_string(ended.error())));
  REQUIRE(ended.has_value());
  sim::run_report report;
  lives.report_to(report);
  CHECK(report.crashes == 2); // Both struck before the job was done.
  const audit_report& audit = lives.ended().audit;
  const std::set<group_id> consumed(audit.consumed.begin(), audit.consumed.end());
  CHECK(audit.handed_out == matrix_dataset);
  for (const group_id group : evicted)
    CHECK_FALSE(consumed.contains(group));
  if (sampler == name_of<in_order>) CHECK(consumed.size() == matrix_dataset - evicted.size());
  if (sampler == name_of<ready_first> || is_own)
    CHECK(consumed.size() ==
          (matrix_dataset - evicted.size()) / matrix_groups_per_step * matrix_groups_per_step);
}

} // namespace

TYPE_TO_STRING_AS("in_order", in_order);
TYPE_TO_STRING_AS("weight_fifo", weight_fifo);
TYPE_TO_STRING_AS("ready_first", ready_first);
TYPE_TO_STRING_AS("windowed", windowed);
TYPE_TO_STRING_AS("custom", custom);

TEST_SUITE_BEGIN("recovery");

TEST_CASE_TEMPLATE("recovery/1 next step's batch complete", Sampler, in_order, weight_fifo,
                   ready_first, windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(5);
    for (const std::uint64_t group : {12U, 13U, 14U})
      run.done(group, 4);
  };
  recover({.lag = 1, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/2 current step's batch complete", Sampler, in_order, weight_fifo,
                   ready_first, windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    for (const std::uint64_t group : {14U, 12U, 13U})
      run.done(group, 5);
  };
  recover({.lag = 0, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/3 partly generated", Sampler, in_order, weight_fifo, ready_first,
                   windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(5);
    run.half(12, 4);
    run.done(13, 4);
    run.waiting(14);
  };
  recover({.lag = 1, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/4 two batches in flight", Sampler, in_order, weight_fifo, ready_first,
                   windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(4);
    run.next_batch();
    run.train_to(5);
    run.hand_out();
    run.done(12, 3);
    run.half(13, 5);
    run.done(14, 4);
    run.waiting(15);
    run.done(16, 5);
    run.waiting(17);
  };
  recover({.lag = 2, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/5 one evicted on purpose", Sampler, in_order, weight_fifo, ready_first,
                   windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(5);
    run.done(12, 4);
    run.evict_on_purpose(13);
    run.done(14, 4);
  };
  recover({.lag = 1, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/6 a hole behind what was trained", Sampler, in_order, weight_fifo,
                   ready_first, windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(5);
    run.next_batch();
    run.half(12, 4);
    run.done(13, 4);
    run.waiting(14);
    run.done(15, 5);
    run.done(16, 5);
    run.waiting(17);
    run.train();
  };
  recover({.lag = 1, .happens = happens}, name_of<Sampler>);
}

TEST_CASE_TEMPLATE("recovery/7 one far outside of the window", Sampler, in_order, weight_fifo,
                   ready_first, windowed, custom) {
  const auto happens = [](warm_run& run) {
    run.next_batch();
    run.train_to(5);
    run.done(12, 4);
    run.done(13, 1);
    run.done(14, 4);
  };
  // Its step is what in_order judges a group by. It comes back, and the audit does not forget.
  const std::string problem = "staleness: group 13 is 4 versions stale, its window is 1";
  recover({.lag = 1, .happens = happens, .in_order_problem = problem}, name_of<Sampler>);
}

TEST_SUITE_END();
