#include "actors/validation/validation.hpp"

#include "actors/rollout/abort_unless_finished.hpp"
#include "actors/runtime/failpoint.hpp"
#include "actors/runtime/stream.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

/// Ids of requests to generators: above those of all groups that are ever handed out.
constexpr std::uint64_t first_request = std::uint64_t{1} << 63U;
/// Token batches that may be under way before the generator has to wait.
constexpr std::uint64_t stream_credit = 4;

result<void> made_by(const rollout_group& group, std::uint64_t version) {
  for (const std::uint64_t made : group.rollouts.front().versions)
    if (made != version)
      return failure(errc::conflict, "a token of version " + std::to_string(made) +
                                         " in a validation run of version " +
                                         std::to_string(version));
  return {};
}

ValidatedT answer_of(const validation_round& round, const validation_summary& sums) {
  ValidatedT answer;
  answer.step = round.step();
  answer.version = round.version();
  answer.samples = sums.samples;
  answer.failed = sums.failed;
  answer.reward = sums.reward;
  answer.accuracy = sums.accuracy.value_or(-1.0);
  answer.tokens = sums.tokens;
  return answer;
}

} // namespace

validation::validation(context ctx, validation_options options, validation_peers peers,
                       std::shared_ptr<const dataset> records, text_codec codec)
    : actor(std::move(ctx)), options_(options), peers_(std::move(peers)),
      records_(std::move(records)), codec_(std::move(codec)) {
  ensure(!peers_.generators.empty(), "a validation actor has a generator");
  ensure(!peers_.environments.empty(), "a validation actor has an environment");
  serve(&validation::on_validate);
}

task<result<message<Validated>>> validation::on_validate(message<Validate> request) {
  if (!round_ || round_->step() != request->step() || round_->version() != request->version()) {
    workers_.cancel(); // Nobody waits for an older one.
    began_ns_ = clock().now();
    round_ = std::make_shared<validation_round>(request->step(), request->version(),
                                                records_->size(), options_.full_reward);
    const std::uint64_t workers = std::min(options_.inflight_max, records_->size());
    for (std::uint64_t i = 0; i < workers; ++i)
      workers_.spawn(&validation::work, this, round_);
  }
  const round_ptr mine = round_;
  while (!mine->done())
    co_await sample_ended_.raised();
  auto sums = mine->summary();
  if (!sums) co_return failure(std::move(sums.error()));
  ValidatedT answer = answer_of(*mine, *sums);
  answer.took_ns = static_cast<std::uint64_t>(clock().now() - began_ns_);
  auto told = pack(answer);
  peers_.observer.tell(told);
  co_return told;
}

/// One sample after the other, as long as there are any.
task<void> validation::work(round_ptr round) {
  while (const auto index = round->take()) {
    auto outcome = co_await sample(round, *index);
    auto scored = co_await failpoint("validation.scored");
    if (!scored) outcome = failure(std::move(scored.error()));
    if (!outcome)
      log(log_level::warning,
          records_->place_of(*index) + " was not scored: " + to_string(outcome.error()));
    round->end(*index, std::move(outcome));
    sample_ended_.raise();
  }
}

task<result<validated_sample>> validation::sample(round_ptr round, std::uint64_t index) {
  for (std::uint64_t number = 0;; ++number) {
    auto scored = co_await attempt(round, index, number);
    if (scored || number + 1 >= options_.attempts_max) co_return std::move(scored);
  }
}

task<result<validated_sample>> validation::attempt(round_ptr round, std::uint64_t index,
                                                   std::uint64_t number) {
  const group_ptr group = make_group(*round, index);
  const auto& generator = peers_.generators[(index + number) % peers_.generators.size()];
  auto generated = co_await generate(group, generator);
  if (!generated) co_return failure(std::move(generated.error()));
  if (auto fine = made_by(*group, round->version()); !fine)
    co_return failure(std::move(fine.error()));
  const auto& environment = peers_.environments[index % peers_.environments.size()];
  auto reward = co_await score(group, environment);
  if (!reward) co_return failure(std::move(reward.error()));
  validated_sample done;
  done.reward = *reward;
  done.tokens = group->rollouts.front().tokens.size();
  co_return done;
}

group_ptr validation::make_group(const validation_round& round, std::uint64_t index) {
  const dataset_record record = records_->at(index);
  auto group = std::make_shared<rollout_group>();
  group->prompt.group = first_request + requests_++;
  group->prompt.sample = std::make_unique<SampleId>(validation_epoch, index);
  group->prompt.text = record.prompt;
  group->prompt.answer = record.answer;
  group->prompt_tokens = codec_.encode(record.prompt);
  group->stamp.admission_version = round.version();
  group->siblings = 1;
  group->rollouts.assign(1, sibling_rollout());
  return group;
}

task<result<void>> validation::generate(group_ptr group, handle<generator_protocol> generator) {
  abort_unless_finished guard(generator, abort_of(*group));
  auto tokens = open_stream<TokenBatch>(*this, stream_credit);
  auto request = pack(generation_of(*group, options_.max_new_tokens, tokens.id()));
  auto accepted = co_await generator.ask(request, within(options_.generation_timeout));
  if (!accepted) co_return failure(std::move(accepted.error()));
  while (!all_finished(*group)) {
    auto item = co_await tokens.next(within(options_.generation_timeout));
    if (!item) co_return failure(std::move(item.error()));
    if (!*item) co_return failure(errc::unavailable, "the token stream ended early");
    auto appended = append_tokens(*group, *(**item).operator->());
    if (!appended) co_return failure(std::move(appended.error()));
  }
  guard.finished();
  co_return result<void>();
}

task<result<float>> validation::score(group_ptr group, handle<environment_protocol> environment) {
  ScoreCompletionT want;
  want.group = group->prompt.group;
  want.prompt = group->prompt.text;
  want.answer = group->prompt.answer;
  want.completion = codec_.decode(group->rollouts.front().tokens);
  auto request = pack(want);
  auto scored = co_await environment.ask(request, within(options_.env_timeout));
  if (!scored) co_return failure(std::move(scored.error()));
  co_return (*scored)->reward();
}

} // namespace weir
