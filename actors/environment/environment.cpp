#include "actors/environment/environment.hpp"

#include "actors/runtime/offload.hpp"

#include <tuple>
#include <utility>

namespace weir {

environment::environment(context ctx, scorer how) : actor(std::move(ctx)), scorer_(std::move(how)) {
  ensure(scorer_.score != nullptr, "an environment has a way to score");
  serve(&environment::on_score);
  serve(&environment::on_probe);
}

task<result<message<CompletionScored>>> environment::on_score(message<ScoreCompletion> request) {
  const scoring_request wanted{request->group(), request->sibling(), text_of(request->prompt()),
                               text_of(request->answer()), text_of(request->completion())};
  result<scoring_reply> scored;
  if (scorer_.blocks) {
    const auto score = scorer_.score;
    auto work = [score, wanted] { return score(wanted); };
    scored = co_await offload(std::move(work));
  } else {
    scored = scorer_.score(wanted);
  }
  if (!scored) co_return failure(std::move(scored.error()));
  CompletionScoredT answer;
  answer.reward = scored->reward;
  answer.done = scored->done;
  answer.observation = scored->observation;
  co_return pack(answer);
}

task<result<message<ProbeAnswered>>> environment::on_probe(message<Probe> request) {
  std::ignore = request; // A probe asks nothing but to be answered.
  ProbeAnsweredT answer;
  answer.actor = name();
  co_return pack(answer);
}

} // namespace weir
