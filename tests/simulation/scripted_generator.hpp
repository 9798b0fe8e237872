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
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace weir::sim {

struct scripted_generator_options {
  std::uint64_t run_seed = 0;
  std::uint64_t tokens_max = 3;
  std::uint64_t versions_kept = 1;
  bool log_normal_lengths = false;
  /// Longest pause before a batch of tokens, and before weights are live; 0: none.
  std::chrono::nanoseconds token_lag{0};
  std::chrono::nanoseconds weights_lag{0};
  /// One in so many groups breaks off; 0: none.
  std::uint64_t failures_one_in = 0;
  /// One in so many groups is never heard of again, until its asker gives up; 0: none.
  std::uint64_t silences_one_in = 0;
  /// One in so many groups is the end of the generator, which is restarted in place; 0: none.
  std::uint64_t deaths_one_in = 0;
  /// After so many groups it answers nobody any more, probes included.
  std::optional<std::uint64_t> deaf_after = {};
  /// Of each generator, counted over its restarts: another one draws other numbers.
  std::shared_ptr<std::map<std::string, std::uint64_t>> begun =
      std::make_shared<std::map<std::string, std::uint64_t>>();
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
    bool dies = false;                     ///< Where it would fail.
  };

  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request);
  task<result<message<WeightsLive>>> on_update(message<UpdateWeights> request);
  task<result<message<WeightsLost>>> on_await_loss(message<AwaitWeightsLost> request);
  task<result<message<ProbeAnswered>>> on_probe(message<Probe> request);
  task<void> on_abort(message<AbortGroup> request);

  task<void> play(script what);
  [[nodiscard]] bool lags_behind(std::uint64_t minimum_version) const;
  [[nodiscard]] const tiny_policy* weights_for(const GenerateGroupT& wanted) const;
  [[nodiscard]] TokenBatchT batch_at(const GenerateGroupT& wanted, std::uint64_t index) const;
  [[nodiscard]] std::uint64_t length_of(const token_key& key) const;
  [[nodiscard]] std::uint64_t longest(const GenerateGroupT& wanted) const;
  [[nodiscard]] token_key key_of(const GenerateGroupT& wanted, std::uint32_t sibling) const;
  [[nodiscard]] std::chrono::nanoseconds draw(std::chrono::nanoseconds lag_max);
  [[nodiscard]] bool draw_one_in(std::uint64_t count);
  task<void> hear();

  const scripted_generator_options options_;
  const std::shared_ptr<run_counters> counters_;
  random_source random_;
  std::optional<std::uint64_t> newest_sent_; ///< Live or not.
  std::optional<std::uint64_t> live_version_;
  std::uint64_t accepted_ = 0;
  std::map<std::uint64_t, tiny_policy> weights_; ///< The newest `versions_kept`, by version.
  signal weights_moved_;
  scope groups_;
};

} // namespace weir::sim
