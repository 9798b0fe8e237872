/// The generator: decodes groups in a continuous batch on its device and streams their tokens.
///
/// No part of any cut: a barrier asks it nothing, and it goes on emitting while one is held. All
/// work on the decoder happens in turns on the device's stream; between two turns the actor takes
/// new weights, new groups and aborts from its mailbox, and hands out tokens against the credit of
/// their consumers. A group whose consumer has no credit loses nothing: its tokens wait here, at
/// most `max_new_tokens` a sibling.
///
/// The version that it answers with, and that decides which groups may start, moves once the
/// weights are installed. A pinned group is made by the version that it names, in the same batch as
/// groups of other versions; the decoder keeps as many as its options say.
///
/// Restarted in place, it begins with nothing: with a new decoder, and weights that come again from
/// the trainer, whose `AwaitWeightsLost` ended with the life before.
///
/// Waits on: the device (a completion), the credit of a stream, its own mailbox.
#pragma once

#include "actors/generator/generation_queue.hpp"
#include "actors/protocols.hpp"
#include "actors/run_counters.hpp"
#include "actors/runtime/actor.hpp"
#include "actors/runtime/completion.hpp"
#include "actors/runtime/stream.hpp"
#include "kernels/decoder.hpp"
#include "kernels/device_stream.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace weir {

struct generator_options {
  std::uint64_t run_seed = 42;
  kernels::sampling_options sampling;
  std::vector<std::uint32_t> stop_tokens;
  /// Most groups that wait or are generated at once.
  std::size_t groups_max = 4096;
  /// Tokens of a group that are worth a message before one of its siblings finishes.
  std::size_t flush_tokens = 64;
};

/// What a generator computes with. `device` runs one piece of work after the other. Each life of
/// the actor makes a decoder of its own: what the last one had in its batch is lost with it.
struct generator_engine {
  std::function<result<std::shared_ptr<kernels::decoder>>()> make_decoder;
  std::shared_ptr<kernels::device_stream> device;
  std::shared_ptr<run_counters> counters;
};

class generator : public actor {
public:
  using protocol = generator_protocol;

  generator(context ctx, generator_options options, generator_engine engine);

private:
  /// One turn of the device: what it is given and what comes back. Owned by the work in flight.
  struct turn {
    std::vector<kernels::published_weights> weights; ///< Oldest first.
    std::vector<std::uint64_t> aborts;
    std::vector<std::pair<std::uint64_t, GenerateGroupT>> admissions;
    std::vector<generated_token> tokens;
    std::vector<std::pair<std::uint64_t, error>> refused;
    std::uint32_t live_sequences = 0;       ///< After the turn.
    std::optional<std::uint64_t> installed; ///< Newest version that it brought into the decoder.
    std::optional<std::pair<std::uint64_t, error>> weights_refused;
    std::optional<error> failed;
  };
  using turn_ptr = std::shared_ptr<turn>;

  task<void> run() override;
  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request);
  task<result<message<WeightsLive>>> on_update(message<UpdateWeights> request);
  task<result<message<WeightsLost>>> on_await_loss(message<AwaitWeightsLost> request);
  task<result<message<ProbeAnswered>>> on_probe(message<Probe> request);
  task<void> on_abort(message<AbortGroup> request);

  [[nodiscard]] bool has_work() const;
  [[nodiscard]] turn_ptr next_turn();
  static void compute(turn& work, const generator_options& options, kernels::decoder& decoder);
  static void install(turn& work, kernels::decoder& decoder);
  static void admit(turn& work, const generator_options& options, kernels::decoder& decoder);
  void settle(const turn& work);
  void deliver();
  task<void> finish_stream(std::uint64_t tag);
  void abandon(std::uint64_t tag);

  const generator_options options_;
  const generator_engine engine_;
  std::shared_ptr<kernels::decoder> decoder_; ///< From `run` on.
  generation_queue queue_;
  std::map<std::uint64_t, sink<TokenBatch>> sinks_;
  std::vector<std::uint64_t> aborts_;
  std::vector<kernels::published_weights> next_weights_; ///< Oldest first.
  std::optional<std::uint64_t> newest_sent_;             ///< Installed or not.
  std::optional<std::uint64_t> live_version_;
  std::optional<std::pair<std::uint64_t, error>> refused_weights_;
  std::uint32_t live_sequences_ = 0; ///< Of the decoder, after its last turn.
  signal work_came_;
  signal weights_went_live_;
  scope deliveries_;
};

} // namespace weir
