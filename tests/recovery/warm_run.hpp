/// A run up to the instant of a cut, scripted: the first life of the recovery matrix.
///
/// It is made of the functional cores, the data plane and the audit log, so that a test decides
/// what every group has come to; and it ends in a bundle that the production writers write. N = 3,
/// G = 2, room for 64 groups. The dispatcher is warm: dispatch batches 1 to 4 are the groups 0 to
/// 11, trained in the steps of the same number (step 0 was trained on none), so that the next
/// batch, groups 12 to 14, gets dispatch index 5, and target step 5 where the sampler stamps.
///
/// The lag of a scenario is the sampler's window W: at lag 1 batch 5 is admitted at version 4,
/// while step 4 is trained, and at lag 0 at version 5.
#pragma once

#include "actors/audit/event_log.hpp"
#include "actors/main_job.hpp"
#include "actors/sampler/sampler_state.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weir::test {

inline constexpr std::uint64_t matrix_groups_per_step = 3;
inline constexpr std::uint32_t matrix_siblings = 2;
inline constexpr std::uint64_t matrix_dataset = 30;

/// The plan of every life of the matrix.
[[nodiscard]] sim::run_plan matrix_plan(const std::string& sampler, std::uint64_t window);

class warm_run {
public:
  /// Takes the run directory on `storage` and runs until the trainer is at version 5 - lag, with
  /// batch 4 generated. `storage` and `job` outlive it.
  warm_run(dataplane::disk& storage, const main_job& job);

  // What may happen. Each is a whole transition; a test that asks for one that is impossible fails.

  void hand_out();
  /// Hands the next batch out and admits it.
  void next_batch();
  /// A step; the next version is live then. If the sampler has no whole batch, the step stays open
  /// with what it could claim.
  void train();
  void train_to(std::uint64_t version);
  /// The group has its permit, and no token yet.
  void waiting(std::uint64_t group) { start(group_id(group)); }
  /// The group has its permit, and staged rows that nobody committed.
  void half(std::uint64_t group, std::uint64_t version);
  /// The group is READY, made by that version.
  void done(std::uint64_t group, std::uint64_t version);
  /// The group is given up; in_order trains its step without it.
  void evict_on_purpose(std::uint64_t group);
  /// The cut: a bundle, published as the checkpoint actor does.
  void publish();

  // What it has come to.

  [[nodiscard]] std::uint64_t version() const { return trainer_.version.value; }
  [[nodiscard]] const sampler_state& ledger() const { return ledger_; }
  [[nodiscard]] const dataplane::snapshot& rows_at_cut() const { return *rows_at_cut_; }
  /// Replay as it would be without the open step, whose claims end with this life.
  [[nodiscard]] const replay_state& buffer() const { return unclaimed_ ? *unclaimed_ : buffer_; }
  [[nodiscard]] const std::set<group_id>& evicted() const { return evicted_; }
  /// Handed out, and neither trained nor evicted: what a resumed run must have.
  [[nodiscard]] std::set<group_id> required() const;

private:
  void load_warm_state();
  void start(group_id group);
  void stage(group_id group, std::uint64_t version);
  [[nodiscard]] StageGroupT rollout_of(const ledger_record& record, std::uint64_t version) const;
  void finish_step(std::uint64_t step, const std::vector<replay_record>& batch);
  [[nodiscard]] cut_facts facts() const;
  void write_sections(unfinished_bundle& bundle);

  dataplane::disk& storage_;
  const main_job& job_;
  std::shared_ptr<dataplane::run_directory> directory_;
  incarnation life_;
  std::unique_ptr<event_log> log_;

  dataloader_state loader_;
  sampler_state ledger_;
  replay_state buffer_;
  std::optional<replay_state> unclaimed_;
  dataplane::store rows_;
  std::optional<dataplane::snapshot> rows_at_cut_;
  trainer_image trainer_;
  std::map<std::uint64_t, std::uint64_t> weights_; ///< What stands for those of each version.
  std::unique_ptr<event_stream> program_, loading_, sampling_, buffering_, training_, keeping_;

  std::set<group_id> trained_, evicted_;
};

} // namespace weir::test
