/// The lives of one run on one disk, from the first to the one that is done: each ends in a crash,
/// until the crashes are spent.
#pragma once

#include "actors/runtime/simulation.hpp"
#include "tests/simulation/crashing_run.hpp"
#include "tests/simulation/final_checks.hpp"
#include "tests/simulation/watcher.hpp"
#include "tests/support/crash_disk.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::sim {

enum class life_end : std::uint8_t { done, crashed };

/// What a test brings of its own; each may be empty.
struct history_hooks {
  /// Gets the job of each life before it begins, to make another one of it than the plan's.
  std::function<void(main_job&)> adjust = {};
  /// Gets the disk as the next life finds it.
  std::function<void(test::crash_disk&)> after_crash = {};
};

class history {
public:
  /// `plan` outlives the history.
  explicit history(const run_plan& plan, history_hooks hooks = {})
      : plan_(plan), hooks_(std::move(hooks)) {}

  /// Lives until the job is done; the crashes strike one after the other, each another life. One
  /// without a step and a call strikes when somebody lets the disk die. An error is what does not
  /// hold, with the life in which it was found.
  result<void> run(const std::vector<crash_point>& crashes);

  /// The disk of all lives. An earlier run may have left something there.
  [[nodiscard]] test::crash_disk& disk() { return disk_; }
  [[nodiscard]] const final_state& ended() const { return final_; }
  [[nodiscard]] run_length length() const { return {newest_steps_, newest_disk_calls_}; }
  void report_to(run_report& report) const;

private:
  result<life_end> live(const std::optional<crash_point>& crash);
  result<life_end> live_in(simulation& around, const std::optional<crash_point>& crash);
  result<void> begin(simulation& around, const main_job& job);
  result<void> check_restored(const begun_life& begun);
  result<life_end> drive(simulation& around, const std::optional<crash_point>& crash);
  result<void> finish(simulation& around);
  void crash(const crash_point& how);
  [[nodiscard]] const sampler_choice& sampler_now() const;
  [[nodiscard]] main_job job_in(const run_plan& plan, world& env) const;
  void settle(simulation& around) const;

  const run_plan& plan_;
  history_hooks hooks_;
  test::crash_disk disk_;
  std::shared_ptr<observed> seen_ = std::make_shared<observed>();
  std::shared_ptr<dataplane::run_directory> directory_;
  std::optional<composed_life> life_;

  incarnation newest_life_;
  /// The newest bundle whose publish returned.
  std::optional<dataplane::bundle_name> confirmed_;
  final_state final_;
  std::uint64_t crashes_ = 0;
  std::uint64_t lives_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t newest_steps_ = 0; ///< Until the job was done.
  std::uint64_t newest_disk_calls_ = 0;
  std::string trace_;
  std::string log_;
};

} // namespace weir::sim
