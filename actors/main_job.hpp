/// The main job, composed: which actors it has, who is given whose handle, and the states that one
/// life of it starts from.
///
/// Nothing here knows a configuration file, a model or a disk: a driver program fills `main_job`
/// from its configuration, a simulation from a seed, and both run the same graph.
///
///     begin_life (restore.hpp) -> compose_life -> start ... stop -> end_life
#pragma once

#include "actors/audit/event_log.hpp"
#include "actors/checkpoint/checkpoint.hpp"
#include "actors/checkpoint/restore.hpp"
#include "actors/dataloader/dataloader_state.hpp"
#include "actors/environment/command_environment.hpp"
#include "actors/environment/environment.hpp"
#include "actors/graph.hpp"
#include "actors/replay/replay_state.hpp"
#include "actors/rollout/rollout.hpp"
#include "actors/run_counters.hpp"
#include "actors/sampler/sampler_policy.hpp"
#include "actors/trainer/trainer.hpp"
#include "actors/validation/validation.hpp"
#include "dataplane/store.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace weir {

/// How an environment scores: by a function, or by a program of the user's.
using scoring = std::variant<scorer, command_options>;

/// The parts of a life that a program makes itself. Each is called once per actor (`generator`,
/// `environment`) or once (`observer`, `trainer_device`) while the graph is composed.
struct main_job_parts {
  /// Adds an actor of that name to the group, which restarts it in place; `counters` counts its
  /// tokens.
  std::function<result<handle<generator_protocol>>(graph& actors, const supervised_group& group,
                                                   const std::string& name,
                                                   std::shared_ptr<run_counters> counters)>
      generator;
  std::function<result<scoring>()> environment;
  /// May be empty: nobody watches.
  std::function<handle<observer_protocol>(graph& actors, std::shared_ptr<run_counters> counters)>
      observer;
  std::function<result<std::shared_ptr<kernels::device_stream>>()> trainer_device;
};

/// Actors that stand between the roles, for tests: each is given the handle of an actor when the
/// graph is composed, and gives the one that its askers get instead. Empty: they get its own. The
/// barrier's messages go past them.
struct main_job_relays {
  template <class Protocol>
  using relay = std::function<handle<Protocol>(graph& actors, handle<Protocol> behind)>;

  relay<dataloader_protocol> loader = {};
  relay<sampler_protocol> sampler = {};
  relay<replay_protocol> replay = {};
  relay<generator_protocol> generator = {};
  relay<environment_protocol> environment = {};
};

/// What all lives of a run have in common.
struct main_job {
  std::shared_ptr<const dataset> records;
  std::shared_ptr<const sampler_policy> policy;
  std::shared_ptr<learner> learning;
  /// The policy of a new run.
  policy_ptr first_policy;
  /// The policy of a bundle, from the verified files in `restored_states::policy`.
  std::function<result<policy_ptr>(const restored_states& states)> read_policy;
  /// The weights of an earlier version, of `kept_versions`. Only asked with pinned weights.
  std::function<result<policy_ptr>(const restored_states& states, weight_version version)>
      read_version = {};

  dataloader_options loader;
  rollout_options rollout; ///< N and the failure limits are in here.
  text_codec codec;
  replay_options replay;
  dataplane::store_options rows;
  trainer_options trainer;
  checkpoint_options checkpoint; ///< `restored` is set for each life.
  bundle_store_options bundles;  ///< `run_id`, `life` and `terms` are set for each life.
  write_rules writing;           ///< Of rows.
  std::function<void(const checkpoint_record& record)> record_checkpoint = {}; ///< May be empty.
  std::function<void(const error& why)> record_failed_checkpoint = {};         ///< May be empty.

  /// Held-out prompts; null: nothing is validated.
  std::shared_ptr<const dataset> held_out = {};
  validation_options validation;

  std::uint64_t generators = 1;
  std::uint64_t environments = 1;
  supervision_options generator_restarts;  ///< Beyond them, the run ends with their history.
  supervision_options checkpoint_restarts; ///< The same.
  main_job_parts parts;
  main_job_relays relays;
};

/// Restore step 1, as far as only the job knows it: dataset, cursor, prompts and policy of a bundle
/// are those of this job. For `begin_life`.
[[nodiscard]] result<void> check_states(const main_job& job, const restored_states& states);

/// Finds a prompt's record again in the job's dataset, for a restore in shadow mode.
[[nodiscard]] prompt_lookup prompt_lookup_of(const main_job& job);

/// One life: its log, its graph, and what a driver asks or looks at.
struct composed_life {
  std::shared_ptr<event_log> log;
  event_stream program; ///< The program's own events: who began, and how it ended.
  std::shared_ptr<dataplane::store> rows;
  std::unique_ptr<graph> actors; ///< Not started. Destroyed before what its actors write to.
  handle<checkpoint_protocol> checkpoint;
};

/// Opens the life's event log, writes its first lines, and composes the graph from what `begun`
/// restored, or fresh. `env` outlives the life. Errors: of the disk, naming the log; of a part that
/// cannot be made; corrupt or conflict when `begun` does not fit the job.
[[nodiscard]] result<composed_life>
compose_life(const main_job& job, world& env, const begun_life& begun,
             std::shared_ptr<dataplane::run_directory> directory);

/// The graph of a fresh life alone, to be described: nothing is opened, written or started, and
/// nothing may be. Errors: of a part that cannot be made.
[[nodiscard]] result<composed_life> sketch_life(const main_job& job, world& env);

/// The last line of a life whose graph was stopped, durable. Errors: of the disk.
[[nodiscard]] result<void> end_life(composed_life& life, finish_reason reason);

} // namespace weir
