#include "actors/generator/generator.hpp"

#include "actors/runtime/failpoint.hpp"
#include "actors/waiting_time.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

/// Longer than `attendance` of the weight publisher.
constexpr std::chrono::seconds loss_wait(60);

FinishReason reason_of(kernels::finish_reason finished) {
  switch (finished) {
  case kernels::finish_reason::none:
    return FinishReason::unfinished;
  case kernels::finish_reason::stop:
    return FinishReason::stop_token;
  case kernels::finish_reason::length:
    return FinishReason::length;
  }
  return FinishReason::aborted;
}

/// The weights of an UpdateWeights message, shared with the message: no copy.
result<kernels::published_weights> weights_of(const message<UpdateWeights>& update) {
  if (update.attachments().size() != 1)
    return failure(errc::invalid_argument,
                   "weights of version " + std::to_string(update->version()) + ": " +
                       std::to_string(update.attachments().size()) + " attachments instead of 1");
  const attachment& bytes = update.attachments().front();
  if (bytes.bytes.size() % sizeof(float) != 0)
    return failure(errc::invalid_argument,
                   "weights of version " + std::to_string(update->version()) + ": " +
                       std::to_string(bytes.bytes.size()) + " bytes are no whole floats");
  kernels::published_weights weights;
  weights.values =
      std::shared_ptr<const float>(bytes.owner, reinterpret_cast<const float*>(bytes.bytes.data()));
  weights.count = bytes.bytes.size() / sizeof(float);
  weights.version = update->version();
  return weights;
}

} // namespace

generator::generator(context ctx, generator_options options, generator_engine engine)
    : actor(std::move(ctx)), options_(std::move(options)), engine_(std::move(engine)) {
  serve(&generator::on_generate);
  serve(&generator::on_update);
  serve(&generator::on_await_loss);
  serve(&generator::on_probe);
  serve(&generator::on_abort);
}

task<void> generator::run() {
  auto made = engine_.make_decoder();
  if (!made) {
    fail(std::move(made.error()));
    co_return;
  }
  decoder_ = std::move(*made);
  while (true) {
    std::optional<waiting_time> idle(std::in_place, clock(), engine_.counters->generators_idle_ns);
    while (!has_work())
      co_await work_came_.raised();
    idle.reset();
    auto work = next_turn();
    auto done = make_completion<turn_ptr>();
    auto setter = done.setter();
    const auto decoder = decoder_;
    const auto options = options_;
    auto submitted =
        engine_.device->submit([work, decoder, options] { compute(*work, options, *decoder); },
                               [work, setter] { setter.set(work); });
    if (!submitted) {
      fail(std::move(submitted.error()));
      co_return;
    }
    auto finished = co_await done.wait();
    if (!finished) {
      fail(std::move(finished.error()));
      co_return;
    }
    auto decoded = co_await failpoint("generator.decoded");
    if (!decoded) {
      fail(std::move(decoded.error()));
      co_return;
    }
    settle(**finished);
    deliver();
    if (work->failed) {
      fail(*work->failed);
      co_return;
    }
  }
}

bool generator::has_work() const {
  const bool can_start = live_version_ && queue_.next_startable(*live_version_).has_value();
  return !next_weights_.empty() || !aborts_.empty() || can_start || live_sequences_ > 0;
}

/// Takes from the mailbox's effects what the next turn of the device shall do.
generator::turn_ptr generator::next_turn() {
  auto work = std::make_shared<turn>();
  work->weights = std::exchange(next_weights_, {});
  work->aborts = std::exchange(aborts_, {});
  if (work->weights.empty() && !live_version_) return work;
  const std::uint64_t version =
      work->weights.empty() ? *live_version_ : work->weights.back().version;
  while (const auto tag = queue_.next_startable(version)) {
    work->admissions.emplace_back(*tag, *queue_.request(*tag));
    queue_.started(*tag);
  }
  return work;
}

/// Runs on the device's stream, alone with the decoder.
void generator::compute(turn& work, const generator_options& options, kernels::decoder& decoder) {
  for (const std::uint64_t tag : work.aborts)
    decoder.abort(tag);
  install(work, decoder);
  admit(work, options, decoder);
  if (decoder.live_sequences() == 0) return;
  const auto tokens = decoder.step();
  if (!tokens) {
    work.failed = tokens.error();
    return;
  }
  for (const kernels::emitted_token& token : *tokens)
    work.tokens.push_back({token.tag, token.sibling, static_cast<std::int32_t>(token.token),
                           token.logprob, token.weight_version, reason_of(token.finished)});
  work.live_sequences = decoder.live_sequences();
}

void generator::install(turn& work, kernels::decoder& decoder) {
  for (const kernels::published_weights& weights : work.weights) {
    if (auto taken = decoder.set_weights(weights); taken)
      work.installed = weights.version;
    else
      work.weights_refused = std::make_pair(weights.version, std::move(taken.error()));
  }
}

void generator::admit(turn& work, const generator_options& options, kernels::decoder& decoder) {
  bool full = false;
  for (const auto& [tag, request] : work.admissions) {
    if (full) {
      work.refused.emplace_back(tag, error{errc::exhausted, "no place yet"});
      continue;
    }
    const std::vector<std::uint32_t> prompt(request.prompt.begin(), request.prompt.end());
    kernels::decode_request wanted;
    wanted.tag = tag;
    wanted.prompt = prompt;
    wanted.sampling = options.sampling;
    wanted.key = kernels::sampling_key{options.run_seed, request.sample->epoch(),
                                       request.sample->position(), request.content_attempt};
    wanted.siblings = request.siblings;
    wanted.max_new_tokens = request.max_new_tokens;
    wanted.stop_tokens = options.stop_tokens;
    if (request.pinned) wanted.pinned_version = request.minimum_version;
    auto admitted = decoder.admit(wanted);
    if (admitted) continue;
    full = admitted.error().code == errc::exhausted && decoder.live_sequences() > 0;
    work.refused.emplace_back(tag, std::move(admitted.error()));
    if (work.refused.back().second.code == errc::exhausted && !full)
      work.refused.back().second.code = errc::invalid_argument; // An empty decoder has no more.
  }
}

/// Takes over what a turn did. Groups that found no place wait again, in their order.
void generator::settle(const turn& work) {
  if (work.installed) live_version_ = work.installed;
  if (work.weights_refused) refused_weights_ = work.weights_refused;
  if (!work.weights.empty()) weights_went_live_.raise();
  live_sequences_ = work.live_sequences;
  for (auto refused = work.refused.rbegin(); refused != work.refused.rend(); ++refused) {
    const auto& [tag, reason] = *refused;
    if (reason.code == errc::exhausted) {
      queue_.postpone(tag);
      continue;
    }
    if (const auto stream = sinks_.find(tag); stream != sinks_.end()) stream->second.fail(reason);
    sinks_.erase(tag);
    queue_.remove(tag);
  }
  for (generated_token token : work.tokens) {
    if (!enforced(rule::stamp_follows_weights)) token.version = *newest_sent_;
    queue_.append(token);
  }
  engine_.counters->tokens_generated += work.tokens.size();
}

/// Sends what is worth a message, as far as credit goes. A finished group gets a coroutine that
/// waits for the credit of its last batch.
void generator::deliver() {
  for (const std::uint64_t tag : queue_.deliverable(options_.flush_tokens)) {
    const auto stream = sinks_.find(tag);
    ensure(stream != sinks_.end(), "a group that is generated has a stream");
    if (queue_.complete(tag)) {
      deliveries_.spawn(&generator::finish_stream, this, tag);
      continue;
    }
    const TokenBatchT batch = queue_.take(tag);
    const auto pushed = stream->second.try_push(pack(batch));
    if (pushed) continue;
    queue_.put_back(tag, batch);
    if (pushed.error().code != errc::exhausted) abandon(tag);
  }
}

task<void> generator::finish_stream(std::uint64_t tag) {
  auto stream = std::move(sinks_.at(tag));
  sinks_.erase(tag);
  auto last = pack(queue_.take(tag));
  queue_.remove(tag);
  auto pushed = co_await stream.push(last);
  if (pushed) stream.finish();
}

/// Nobody waits for this group any more: its blocks are free at the next turn.
void generator::abandon(std::uint64_t tag) {
  const bool decoding = queue_.was_started(tag);
  sinks_.erase(tag);
  queue_.remove(tag);
  if (!decoding) return;
  aborts_.push_back(tag);
  work_came_.raise();
}

task<result<message<GenerationAccepted>>> generator::on_generate(message<GenerateGroup> request) {
  std::unique_ptr<GenerateGroupT> wanted(request->UnPack());
  if (wanted->sample == nullptr || wanted->stream == nullptr || wanted->siblings == 0)
    co_return failure(errc::invalid_argument, "group " + std::to_string(wanted->group) +
                                                  ": sample, stream and siblings are needed");
  GenerationAcceptedT accepted;
  accepted.group = wanted->group;
  const StreamRefT target = *wanted->stream;
  auto tag = queue_.enqueue(std::move(*wanted), options_.groups_max);
  if (!tag) co_return failure(std::move(tag.error()));
  sinks_.emplace(*tag, connect<TokenBatch>(*this, target));
  work_came_.raise();
  co_return pack(accepted);
}

task<result<message<WeightsLive>>> generator::on_update(message<UpdateWeights> request) {
  auto weights = weights_of(request);
  if (!weights) co_return failure(std::move(weights.error()));
  const std::uint64_t version = weights->version;
  if (newest_sent_ && version < *newest_sent_)
    co_return failure(errc::conflict, "weights of version " + std::to_string(version) +
                                          " come after those of version " +
                                          std::to_string(*newest_sent_));
  newest_sent_ = version;
  next_weights_.push_back(std::move(*weights));
  work_came_.raise();
  while (!live_version_ || *live_version_ < version) {
    if (refused_weights_ && refused_weights_->first == version)
      co_return failure(refused_weights_->second);
    co_await weights_went_live_.raised();
  }
  WeightsLiveT live;
  live.version = version;
  co_return pack(live);
}

/// A life keeps what it was given, and its asker learns of its end: there is nothing to say for as
/// long as anybody waits. One without weights is another life than the one that is asked.
task<result<message<WeightsLost>>> generator::on_await_loss(message<AwaitWeightsLost> request) {
  std::ignore = request; // It has no fields.
  if (!live_version_) co_return pack(WeightsLostT());
  co_await clock().after(loss_wait);
  co_return failure(errc::timed_out, "the weights are still there");
}

task<result<message<ProbeAnswered>>> generator::on_probe(message<Probe> request) {
  std::ignore = request; // A probe asks nothing but to be answered.
  ProbeAnsweredT answer;
  answer.actor = name();
  answer.busy_with = std::to_string(queue_.size()) + " groups";
  if (live_version_) answer.live_version = static_cast<std::int64_t>(*live_version_);
  co_return pack(answer);
}

task<void> generator::on_abort(message<AbortGroup> request) {
  const auto tag = queue_.find(request->group(), request->content_attempt());
  if (tag) abandon(*tag);
  co_return;
}

} // namespace weir
