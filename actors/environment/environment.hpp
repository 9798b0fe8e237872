/// The environment actor: scores completions. Single turn, no durable state, part of no cut.
///
/// The scoring itself is a plain function that the driver chooses (`exact_answer`, a subprocess of
/// the user's). One that blocks is called on the blocking pool and keeps no message waiting.
#pragma once

#include "actors/protocols.hpp"
#include "actors/runtime/actor.hpp"

#include <functional>
#include <memory>
#include <string>

namespace weir {

/// What is scored.
struct scoring_request {
  std::uint64_t group = 0;
  std::uint32_t sibling = 0;
  std::string prompt;
  std::string answer;
  std::string completion;
};

/// What it is worth.
struct scoring_reply {
  float reward = 0.0F;
  bool done = true;
  std::string observation = {};
};

/// A way to score. `score` is called from one thread at a time unless `blocks`: then from pool
/// threads, several at once.
struct scorer {
  std::function<result<scoring_reply>(const scoring_request&)> score;
  bool blocks = false;
};

class environment : public actor {
public:
  using protocol = environment_protocol;

  environment(context ctx, scorer how);

private:
  task<result<message<CompletionScored>>> on_score(message<ScoreCompletion> request);
  task<result<message<ProbeAnswered>>> on_probe(message<Probe> request);

  const scorer scorer_;
};

} // namespace weir
