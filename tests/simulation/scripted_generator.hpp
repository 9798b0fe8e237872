/// A generator without a model: streams the scripted tokens of its groups, a few at a time, each
/// labelled with the version that is live then. It takes weights, lags behind, and fails as its
/// options say. Everything random is drawn from the world's seed.
#pragma once

#include "actors/protocols.hpp"
#include "actors/run_counters.hpp"
#include "actors/runtime/actor.hpp"
#include "actors/runtime/channel.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/simulation/scripted_tokens.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace weir::sim {

struct scripted_generator_options {
  std::uint64_t run_seed = 0;
  std::uint64_t tokens_max = 3;
  bool log_normal_lengths = false;
  /// Longest pause before a batch of tokens, and before weights are live; 0: none.
  std::chrono::nanoseconds token_lag{0};
  std::chrono::nanoseconds weights_lag{0};
  /// One in so many groups breaks off; 0: none.
  std::uint64_t failures_one_in = 0;
  /// One in so many groups is never heard of again, until its asker gives up; 0: none.
  std::uint64_t silences_one_in = 0;
};

class scripted_generator final : public actor {
public:
  using protocol = generator_protocol;

  scripted_generator(context ctx, scripted_generator_options options,
                     std::shared_ptr<run_counters> counters);

private:
  /// What becomes of a group that was asked for.
  struct script {
    std::shared_ptr<const GenerateGroupT> wanted;
    std::shared_ptr<sink<TokenBatch>> tokens;
    std::optional<std::uint64_t> fails_at; ///< Token index.
  };

  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request);
  task<result<message<WeightsLive>>> on_update(message<UpdateWeights> request);
  task<result<message<ProbeAnswered>>> on_probe(message<Probe> request);
  task<void> on_abort(message<AbortGroup> request);

  task<void> play(script what);
  [[nodiscard]] bool lags_behind(std::uint64_t minimum_version) const;
  [[nodiscard]] TokenBatchT batch_at(const GenerateGroupT& wanted, std::uint64_t index) const;
  [[nodiscard]] std::uint64_t length_of(const token_key& key) const;
  [[nodiscard]] std::uint64_t longest(const GenerateGroupT& wanted) const;
  [[nodiscard]] token_key key_of(const GenerateGroupT& wanted, std::uint32_t sibling) const;
  [[nodiscard]] std::chrono::nanoseconds draw(std::chrono::nanoseconds lag_max);
  [[nodiscard]] bool draw_one_in(std::uint64_t count);

  const scripted_generator_options options_;
  const std::shared_ptr<run_counters> counters_;
  random_source random_;
  std::optional<std::uint64_t> live_version_;
  tiny_policy weights_;
  signal weights_moved_;
  scope groups_;
};

} // namespace weir::sim
