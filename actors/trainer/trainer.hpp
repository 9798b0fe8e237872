/// The trainer actor: one optimizer step per step of the run, and the weights for the generators.
///
///     warm up (once) -> publish -> { { await -> claim -> learn } -> consume -> publish }
///
/// A step is trained in chunks of at least `groups_per_chunk_min` groups, as they become ready.
///
/// An origin (claim, consume) and an owner (weights, optimizer, step). The state after a step is
/// set aside first; the consume lease makes it the captured one, together with the groups of the
/// step in replay and its shortfall in the sampler; only then is the version published. A periodic
/// save is asked for inside that lease, and no later step is consumed before it was cut:
/// `save_period` 10 gives exactly `step_10`.
///
/// Waits on: replay (a batch), the device (a step), generators (weights live), the checkpoint actor
/// (the cut of a periodic save; at most `save_timeout`).
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
#include "actors/trainer/learner.hpp"
#include "actors/trainer/step_facts.hpp"
#include "actors/trainer/supply_watch.hpp"
#include "actors/trainer/trainer_state.hpp"
#include "actors/trainer/weight_publisher.hpp"
#include "kernels/device_stream.hpp"

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct warmup_options {
  std::uint64_t max_steps = 0; ///< 0: no warm-up.
  std::optional<double> stop_at_reward;
  std::uint64_t check_every = 5;
};

/// What bundles are kept by.
enum class kept_by : std::uint8_t { train_reward, val_reward, val_accuracy };

/// When held-out prompts are scored.
struct validation_schedule {
  std::uint64_t period = 0; ///< Steps between two runs; 0: none.
  bool at_start = false;    ///< Before the first step of a new run.
  bool at_end = false;      ///< After the last step.
  kept_by metric = kept_by::train_reward;
};

/// As `groups_per_chunk_min`: a step is trained at once.
inline constexpr std::uint64_t whole_step = std::numeric_limits<std::uint64_t>::max();

struct trainer_options {
  std::uint64_t max_num_steps = 1'000'000;
  /// Steps between two periodic saves; 0: none.
  std::uint64_t save_period = 10;
  /// Publish `step_0` after a warm-up, and a bundle at the end.
  bool save = true;
  /// `min_groups_for_streaming_train`: fewer are trained at once only to fill the step up.
  std::uint64_t groups_per_chunk_min = whole_step;
  /// W with pinned weights: versions before the newest that generators and bundles keep. Else 0.
  std::uint64_t earlier_versions = 0;
  warmup_options warmup;
  validation_schedule validation;
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(30);
  /// How long one wait for a batch lasts before it is asked again.
  std::chrono::nanoseconds batch_timeout = std::chrono::seconds(60);
  /// For a step that nothing can fill; a wait for a batch is no longer than its interval, either.
  watchdog_options watchdog;
  /// Until new weights are live on every generator.
  std::chrono::nanoseconds weights_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds env_timeout = std::chrono::seconds(60);
  /// As in weight_publisher_options.
  std::chrono::nanoseconds attendance = std::chrono::seconds(20);
  /// Until a bundle that the trainer waits for is published, or its cut was made.
  std::chrono::nanoseconds save_timeout = std::chrono::seconds(60);
  /// A save that is not cut for so long is asked for again: its request may have died with the
  /// checkpoint actor. Longer than a barrier may take.
  std::chrono::nanoseconds save_again = std::chrono::seconds(20);
};

/// Everybody the trainer asks.
struct trainer_peers {
  handle<sampler_protocol> sampler;
  handle<replay_protocol> replay;
  handle<checkpoint_protocol> checkpoint;
  std::vector<handle<generator_protocol>> generators;
  std::vector<handle<environment_protocol>> environments;
  handle<observer_protocol> observer;     ///< May be empty.
  handle<validation_protocol> validation; ///< May be empty: nothing is validated.

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.needs(sampler);
    wiring.needs(replay);
    wiring.needs(checkpoint);
    wiring.needs_each(generators);
    wiring.needs_each(environments);
    wiring.may_use(observer);
    wiring.may_use(validation);
  }
};

/// What it computes with.
struct trainer_engine {
  std::shared_ptr<learner> policy;
  std::shared_ptr<kernels::device_stream> device;
};

class trainer : public participant {
public:
  using protocol = trainer_protocol;
  static constexpr bool is_owner = true;
  static constexpr bool is_origin = true;

  /// `state` is fresh (`restored` false: a warm-up comes first, if there is one), or loaded.
  trainer(context ctx, trainer_options options, trainer_peers peers, trainer_engine engine,
          trainer_state state, bool restored, event_sink& events);

private:
  using batch = std::vector<ClaimedGroupT>;

  task<void> run() override;
  task<result<void>> train();
  task<result<void>> warm_up();
  task<result<double>> measure(policy_ptr policy);
  task<result<double>> judge(warmup_sample sample, std::size_t place);
  task<result<bool>> train_step();
  task<result<bool>> train_chunks();
  task<result<std::optional<batch>>> next_chunk();
  [[nodiscard]] result<void> watch_supply(const std::string& shut_gate, std::uint64_t lacking);
  [[nodiscard]] std::chrono::nanoseconds batch_patience() const;
  task<result<batch>> claim(std::uint64_t groups_min, std::uint64_t groups);
  task<result<void>> consume(std::uint64_t step, bool save);
  [[nodiscard]] result<void> switch_captured(std::uint64_t step);
  task<result<void>> publish();
  [[nodiscard]] std::vector<published_version> published_versions() const;
  void announce(weight_version version);
  task<result<void>> save(std::string reason);
  task<result<void>> await_cut();
  void request_save(std::uint64_t step);
  task<void> cut_reached(std::int64_t step);
  template <class Work>
  task<std::invoke_result_t<Work>> on_device(Work work);

  // Validation runs: trainer_validation.cpp.
  [[nodiscard]] bool validation_due(std::uint64_t step) const;
  [[nodiscard]] bool kept_by_validation() const;
  [[nodiscard]] std::optional<double> metric_of(std::uint64_t step) const;
  task<void> validate_if_due();
  task<void> validate();

  result<void> capturable() const override;
  captured_section capture() override;
  void check_invariants() const override { state_.check_invariants(); }
  void tell_step(const learning_report& report);

  const trainer_options options_;
  const trainer_peers peers_;
  const trainer_engine engine_;
  trainer_state state_;
  const bool restored_; ///< From a bundle.
  bool warmed_up_;
  std::optional<double> step_reward_;   ///< Of the newest step that this life trained.
  std::optional<ValidatedT> validated_; ///< The newest validation run.
  /// Step whose periodic save was asked for and is not cut yet.
  std::optional<std::uint64_t> uncut_save_;
  step_facts facts_; ///< Of the step at hand.
  supply_watch supply_;
  weight_publisher publisher_;
};

} // namespace weir
