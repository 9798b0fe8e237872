#include "tests/simulation/scripted_generator.hpp"

#include "messages/rule.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::sim {

scripted_generator::scripted_generator(context ctx, scripted_generator_options options,
                                       std::shared_ptr<run_counters> counters)
    : actor(std::move(ctx)), options_(options), counters_(std::move(counters)),
      random_(env().random(name() + " of life " + std::to_string(life().value) + ", begun " +
                           std::to_string(++(*options_.begun)[name()]))) {
  serve(&scripted_generator::on_generate);
  serve(&scripted_generator::on_update);
  serve(&scripted_generator::on_await_loss);
  serve(&scripted_generator::on_probe);
  serve(&scripted_generator::on_abort);
}

task<result<message<GenerationAccepted>>>
scripted_generator::on_generate(message<GenerateGroup> request) {
  co_await hear();
  ++accepted_;
  script what;
  std::shared_ptr<GenerateGroupT> wanted(request->UnPack());
  if (wanted->sample == nullptr || wanted->stream == nullptr || wanted->siblings == 0)
    co_return failure(errc::invalid_argument, "sample, stream and siblings are needed");
  GenerationAcceptedT accepted;
  accepted.group = wanted->group;
  what.tokens = std::make_shared<sink<TokenBatch>>(connect<TokenBatch>(*this, *wanted->stream));
  if (draw_one_in(options_.failures_one_in)) what.fails_at = random_.below(longest(*wanted));
  what.dies = draw_one_in(options_.deaths_one_in);
  if (what.dies && !what.fails_at) what.fails_at = random_.below(longest(*wanted));
  const bool silent = draw_one_in(options_.silences_one_in);
  what.wanted = std::move(wanted);
  if (silent)
    co_await clock().after(std::chrono::hours(1)); // The asker gives up before, and this ends.
  groups_.spawn(&scripted_generator::play, this, std::move(what));
  co_return pack(accepted);
}

/// One token of every sibling that still has one, then the next ones, until all are finished.
task<void> scripted_generator::play(script what) {
  while (!live_version_ || lags_behind(what.wanted->minimum_version))
    co_await weights_moved_.raised();
  const std::uint64_t length = longest(*what.wanted);
  for (std::uint64_t index = 0; index < length; ++index) {
    const auto lag = draw(options_.token_lag);
    if (lag.count() > 0) co_await clock().after(lag);
    if (weights_for(*what.wanted) == nullptr) {
      what.tokens->fail(error{errc::not_found, "the pinned version is gone"});
      co_return;
    }
    if (what.fails_at == index) {
      if (what.dies) fail(error{errc::internal, "the scripted generator died"});
      what.tokens->fail(error{errc::unavailable, "the scripted generator broke off"});
      co_return;
    }
    auto batch = pack(batch_at(*what.wanted, index));
    counters_->tokens_generated += what.wanted->siblings;
    auto pushed = co_await what.tokens->push(batch);
    if (!pushed) co_return; // Nobody waits for this group any more.
  }
  what.tokens->finish();
}

/// The one rule of a generator: a group starts on weights of at least its admission version.
bool scripted_generator::lags_behind(std::uint64_t minimum_version) const {
  return *live_version_ < minimum_version && enforced(rule::version_live_on_every_generator);
}

const tiny_policy* scripted_generator::weights_for(const GenerateGroupT& wanted) const {
  const auto place = weights_.find(wanted.pinned ? wanted.minimum_version : *live_version_);
  return place != weights_.end() ? &place->second : nullptr;
}

TokenBatchT scripted_generator::batch_at(const GenerateGroupT& wanted, std::uint64_t index) const {
  TokenBatchT batch;
  const tiny_policy& weights = *weights_for(wanted);
  const std::uint64_t stamp = enforced(rule::stamp_follows_weights) ? weights.step : *newest_sent_;
  for (std::uint32_t sibling = 0; sibling < wanted.siblings; ++sibling) {
    token_key key = key_of(wanted, sibling);
    const std::uint64_t length = length_of(key);
    if (index >= length) continue;
    key.index = index;
    auto tokens = std::make_unique<SiblingTokensT>();
    tokens->sibling = sibling;
    tokens->tokens.push_back(scripted_token(key, weights.bits));
    tokens->logprobs.push_back(-1.0F);
    tokens->versions.push_back(stamp);
    if (index + 1 == length) tokens->finish = FinishReason::stop_token;
    batch.siblings.push_back(std::move(tokens));
  }
  return batch;
}

std::uint64_t scripted_generator::length_of(const token_key& key) const {
  return scripted_length(key, options_.tokens_max, options_.log_normal_lengths);
}

std::uint64_t scripted_generator::longest(const GenerateGroupT& wanted) const {
  std::uint64_t length = 0;
  for (std::uint32_t sibling = 0; sibling < wanted.siblings; ++sibling)
    length = std::max(length, length_of(key_of(wanted, sibling)));
  return length;
}

token_key scripted_generator::key_of(const GenerateGroupT& wanted, std::uint32_t sibling) const {
  return {.run_seed = options_.run_seed,
          .sample = {wanted.sample->epoch(), wanted.sample->position()},
          .content_attempt = wanted.content_attempt,
          .sibling = sibling,
          .index = 0};
}

/// Half of the times nothing, so that messages race; else up to the longest.
std::chrono::nanoseconds scripted_generator::draw(std::chrono::nanoseconds lag_max) {
  if (lag_max.count() == 0) return lag_max;
  const std::uint64_t lag = random_.below(static_cast<std::uint64_t>(lag_max.count()) * 2);
  const auto above = static_cast<std::int64_t>(lag) - lag_max.count();
  return std::chrono::nanoseconds(std::max<std::int64_t>(above, 0));
}

/// Whoever is deaf comes back to nobody.
task<void> scripted_generator::hear() {
  while (options_.deaf_after && accepted_ >= *options_.deaf_after)
    co_await clock().after(std::chrono::hours(1));
}

bool scripted_generator::draw_one_in(std::uint64_t count) {
  return count > 0 && random_.below(count) == 0;
}

task<result<message<WeightsLive>>> scripted_generator::on_update(message<UpdateWeights> request) {
  co_await hear();
  if (request.attachments().size() != 1)
    co_return failure(errc::invalid_argument, "weights are one attachment");
  const auto weights = decode_policy(request.attachments().front().bytes);
  if (!weights) co_return failure(weights.error());
  if (weights->step != request->version())
    co_return failure(errc::internal, "version " + std::to_string(request->version()) +
                                          " came with the weights of step " +
                                          std::to_string(weights->step));
  if (newest_sent_ && *newest_sent_ > weights->step)
    co_return failure(errc::conflict, "weights came after those of a later version");
  newest_sent_ = weights->step;
  const auto lag = draw(options_.weights_lag);
  if (lag.count() > 0) co_await clock().after(lag);
  live_version_ = std::max(live_version_.value_or(0), weights->step);
  weights_[weights->step] = *weights;
  while (weights_.size() > options_.versions_kept)
    weights_.erase(weights_.begin());
  weights_moved_.raise();
  WeightsLiveT live;
  live.version = weights->step;
  co_return pack(live);
}

/// As a production generator: a life keeps them, and one without any is another life.
task<result<message<WeightsLost>>> scripted_generator::on_await_loss(message<AwaitWeightsLost>) {
  if (!live_version_) co_return pack(WeightsLostT());
  co_await clock().after(std::chrono::seconds(60));
  co_return failure(errc::timed_out, "the weights are still there");
}

task<result<message<ProbeAnswered>>> scripted_generator::on_probe(message<Probe>) {
  co_await hear();
  ProbeAnsweredT answer;
  answer.actor = name();
  if (live_version_) answer.live_version = static_cast<std::int64_t>(*live_version_);
  co_return pack(answer);
}

/// Its next push finds the consumer gone, and ends the group.
task<void> scripted_generator::on_abort(message<AbortGroup>) {
  co_return;
}

} // namespace weir::sim
