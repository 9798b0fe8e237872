/// What a regression hears of a job in the simulated world, and does to it: who trained on what,
/// what generators are asked for, and bundles that say something else than the owners did.
#pragma once

#include "actors/fault/fault_plan.hpp"
#include "actors/main_job.hpp"
#include "tests/simulation/history.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

/// A group as a step trained on it.
struct trained_group {
  group_id group = {};
  std::uint64_t start_version = 0;
  /// Completion tokens of each sibling.
  std::vector<std::uint64_t> lengths = {};
  /// Of each of those tokens.
  std::vector<std::vector<std::uint64_t>> versions = {};
  std::uint64_t prompt_tokens = 0;
};

/// The steps of the history that survived: a step that is trained again replaces what it was.
struct training_record {
  std::map<std::uint64_t, std::vector<trained_group>> steps;

  [[nodiscard]] std::vector<group_id> groups() const; ///< Sorted; a multiset.
  [[nodiscard]] std::vector<std::uint64_t> lengths() const;
};

/// From now on the job's learner tells `record` of every step.
void record_training(main_job& job, std::shared_ptr<training_record> record);

/// Everything that is said to a generator passes a fault actor, with a plan for each of them.
void put_before_generators(main_job& job, std::function<fault_plan()> make_plan);

/// Tells `listen` of each group that a generator is asked for, and calls `begin` when one is made:
/// in each life.
void hear_generations(main_job& job, std::function<void()> begin,
                      std::function<void(const GenerateGroup&)> listen);

/// What the owners said in a bundle.
struct bundle_parts {
  dataloader_cursor cursor;
  sampler_image ledger;
  replay_image index;
  dataplane::snapshot rows;
};

/// Replaces the newest bundle by one whose owners said something else: the mutant of a system that
/// saves less than it should. Nothing happens while there is no bundle.
void plant(dataplane::disk& storage, const restore_request& request,
           const std::function<void(bundle_parts&)>& edit);

/// The newest bundle, loaded; nothing if there is none.
[[nodiscard]] std::optional<restored_states> load_newest(dataplane::disk& storage,
                                                         const restore_request& request);

/// A run of the simulated world whose training is recorded.
class small_run {
public:
  explicit small_run(sim::run_plan plan);
  small_run(const small_run&) = delete;
  small_run& operator=(const small_run&) = delete;

  /// Set these before `run`; each may stay empty.
  std::function<void(main_job&)> adjust;
  std::function<void(crash_disk&)> after_crash;
  /// The process dies as soon as this bundle is published, if the schedule has a crash left that
  /// strikes by itself.
  std::string dies_after;

  /// As history::run.
  [[nodiscard]] result<void> run(const std::vector<sim::crash_point>& crashes);
  /// The same; the test fails if something does not hold.
  void run_clean(const std::vector<sim::crash_point>& crashes);

  [[nodiscard]] crash_disk& disk() { return lives_.disk(); }
  [[nodiscard]] const training_record& trained() const { return *trained_; }
  [[nodiscard]] const audit_report& audit() const { return lives_.ended().audit; }
  [[nodiscard]] sim::run_length length() const { return lives_.length(); }
  [[nodiscard]] sim::run_report report() const;
  /// As the lives have it; for `load_newest`, `plant` and scripted lives.
  [[nodiscard]] main_job job();
  [[nodiscard]] restore_request request();

private:
  void change(main_job& job);

  const sim::run_plan plan_;
  std::shared_ptr<training_record> trained_ = std::make_shared<training_record>();
  world unused_;
  sim::history lives_;
};

/// Crashes that strike when the test says so.
[[nodiscard]] inline std::vector<sim::crash_point> crashes_at_will(std::size_t count) {
  return std::vector<sim::crash_point>(count);
}

/// Whether it is an error whose text has this part.
[[nodiscard]] bool mentions(const result<void>& outcome, std::string_view part);

/// The groups 0 ... count - 1, `epochs` passes being one long count.
[[nodiscard]] std::vector<group_id> all_groups(std::uint64_t count);

} // namespace weir::test
