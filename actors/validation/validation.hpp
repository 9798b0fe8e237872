/// The validation actor: completes and scores held-out prompts with the weights of one version.
///
/// The trainer asks between two steps and publishes nothing until it has the answer, so that every
/// token is made by the very version that is asked for; a token of another one fails its sample.
/// Rollouts go on meanwhile, in the same batches of the same generators: what a sequence becomes
/// does not depend on its neighbours, and so no bit of a reproducible run changes.
///
/// Nothing here is a mutation: no dispatch slot, no ledger entry, no row, no term of the
/// conservation law; a cut never waits for it. One completion a prompt, with the sampling settings of
/// the run; random numbers are keyed by (run seed, `validation_epoch`, place in the file), the same
/// for each version and after each restart. A sample that fails is tried again on another
/// generator, `attempts_max` times in all, then counted as failed; a run never ends for it.
///
/// Waits on: a generator's token stream, environments.
#pragma once

#include "actors/dataloader/dataset.hpp"
#include "actors/protocols.hpp"
#include "actors/rollout/rollout.hpp"
#include "actors/runtime/actor.hpp"
#include "actors/validation/validation_state.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weir {

/// The epoch of the sample ids of held-out prompts: no epoch of training is ever so late.
inline constexpr std::uint64_t validation_epoch = ~std::uint64_t{0};

struct validation_options {
  std::uint32_t max_new_tokens = 16;
  /// Prompts at work at the same time.
  std::uint64_t inflight_max = 32;
  std::uint32_t attempts_max = 3;
  /// What a right answer earns; nothing where that is not known, and no accuracy is told.
  std::optional<float> full_reward = {};
  std::chrono::nanoseconds generation_timeout = std::chrono::seconds(300);
  std::chrono::nanoseconds env_timeout = std::chrono::seconds(60);
};

struct validation_peers {
  std::vector<handle<generator_protocol>> generators;
  std::vector<handle<environment_protocol>> environments;
  handle<observer_protocol> observer; ///< May be empty.

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.needs_each(generators);
    wiring.needs_each(environments);
    wiring.may_use(observer);
  }
};

class validation : public actor {
public:
  using protocol = validation_protocol;

  validation(context ctx, validation_options options, validation_peers peers,
             std::shared_ptr<const dataset> records, text_codec codec);

private:
  using round_ptr = std::shared_ptr<validation_round>;

  task<result<message<Validated>>> on_validate(message<Validate> request);
  task<void> work(round_ptr round);
  task<result<validated_sample>> sample(round_ptr round, std::uint64_t index);
  task<result<validated_sample>> attempt(round_ptr round, std::uint64_t index,
                                         std::uint64_t number);
  task<result<void>> generate(group_ptr group, handle<generator_protocol> generator);
  task<result<float>> score(group_ptr group, handle<environment_protocol> environment);
  [[nodiscard]] group_ptr make_group(const validation_round& round, std::uint64_t index);

  const validation_options options_;
  const validation_peers peers_;
  const std::shared_ptr<const dataset> records_;
  const text_codec codec_;
  round_ptr round_; ///< The newest.
  std::int64_t began_ns_ = 0;
  std::uint64_t requests_ = 0; ///< To generators, in this life.
  signal sample_ended_;
  scope workers_;
};

} // namespace weir
