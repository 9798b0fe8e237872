/// The generator actor with a small decoder, in simulation: versions, pins, updates.
#include "actors/generator/generator.hpp"
#include "actors/runtime/simulation.hpp"
#include "messages/rule.hpp"
#include "tests/simulation/pool_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

const kernels::model_config small{.vocabulary = 32,
                                  .hidden = 16,
                                  .layers = 1,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .head_size = 8,
                                  .ffn = 16,
                                  .context = 48};

message<UpdateWeights> update_of(std::uint64_t version) {
  const auto weights =
      std::make_shared<kernels::float_buffer>(kernels::initial_weights(small, 40 + version));
  for (float& value : weights->values())
    value *= 4.0F;
  UpdateWeightsT update;
  update.version = version;
  return pack(update, {attachment{weights, std::as_bytes(weights->values())}});
}

/// The tokens of one group of one sibling, as they came.
struct collected {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::uint64_t> versions;
};

/// What a test wants of a generator, in this order.
struct wish {
  std::vector<std::uint64_t> versions; ///< Published first, each once the one before is live.
  bool generate = true;
  std::uint64_t group = 1;
  std::uint64_t version = 0;
  bool pinned = false;
  /// Published once the first token of the group came, or so long after it was asked for.
  std::optional<std::uint64_t> meanwhile = std::nullopt;
  std::optional<std::chrono::nanoseconds> meanwhile_after = std::nullopt;
};

class wishing final : public actor {
public:
  using protocol = weir::protocol<>;
  wishing(context ctx, handle<generator_protocol> generator, wish wanted, collected* all)
      : actor(std::move(ctx)), generator_(std::move(generator)), wanted_(std::move(wanted)),
        all_(all) {}

private:
  task<void> run() override {
    auto done = co_await perform();
    if (done)
      finish_run();
    else
      fail(std::move(done.error()));
  }
  task<result<void>> perform() {
    for (const std::uint64_t version : wanted_.versions) {
      auto live = co_await publish(version);
      if (!live) co_return failure(std::move(live.error()));
    }
    if (!wanted_.generate) co_return result<void>();
    if (wanted_.meanwhile_after) children().spawn(&wishing::publish_later, this);
    auto stream = open_stream<TokenBatch>(*this, 4);
    auto request = pack(request_for(stream.id()));
    auto accepted = co_await generator_.ask(request, within(5s));
    if (!accepted) co_return failure(std::move(accepted.error()));
    while (true) {
      auto item = co_await stream.next(within(5s));
      if (!item) co_return failure(std::move(item.error()));
      if (!*item) co_return result<void>();
      for (const auto* part : *(**item)->siblings())
        keep(*part);
      if (wanted_.meanwhile && !wanted_.meanwhile_after) {
        wanted_.meanwhile_after = 0ns;
        children().spawn(&wishing::publish_later, this);
      }
    }
  }
  GenerateGroupT request_for(const StreamRefT& stream) const {
    GenerateGroupT request;
    request.group = wanted_.group;
    request.sample = std::make_unique<SampleId>(0, 1);
    request.siblings = 1;
    request.prompt = {1, 2, 3};
    request.max_new_tokens = 24;
    request.minimum_version = wanted_.version;
    request.pinned = wanted_.pinned;
    request.stream = std::make_unique<StreamRefT>(stream);
    return request;
  }
  void keep(const SiblingTokens& part) {
    all_->tokens.insert(all_->tokens.end(), part.tokens()->begin(), part.tokens()->end());
    all_->logprobs.insert(all_->logprobs.end(), part.logprobs()->begin(), part.logprobs()->end());
    all_->versions.insert(all_->versions.end(), part.versions()->begin(), part.versions()->end());
  }
  task<result<void>> publish(std::uint64_t version) {
    auto update = update_of(version);
    auto live = co_await generator_.ask(update, within(5s));
    if (!live) co_return failure(std::move(live.error()));
    CHECK((*live)->version() == version);
    co_return result<void>();
  }
  task<void> publish_later() {
    co_await clock().after(*wanted_.meanwhile_after);
    std::ignore = co_await publish(*wanted_.meanwhile);
  }

  const handle<generator_protocol> generator_;
  wish wanted_;
  collected* const all_; ///< The test looks at it after the run.
};

/// Grants a wish by a generator that keeps `earlier` versions.
result<collected> granted(wish wanted, std::uint32_t earlier = 0, std::uint64_t seed = 1) {
  simulation_options quiet;
  quiet.seed = seed;
  quiet.log = [](log_level, std::string_view, std::string_view) {};
  simulation around(quiet);
  generator_options options;
  options.flush_tokens = 1;
  kernels::decoder_options decoding;
  decoding.max_sequences = 4;
  decoding.earlier_versions = earlier;
  collected all;
  result<void> ended;
  {
    graph system(around.env());
    generator_engine engine;
    engine.make_decoder = [decoding]() -> result<std::shared_ptr<kernels::decoder>> {
      auto made = kernels::decoder::create(small, decoding);
      if (!made) return failure(std::move(made.error()));
      return std::shared_ptr<kernels::decoder>(std::move(*made));
    };
    engine.device = std::make_shared<sim::pool_stream>(around.env().pool());
    engine.counters = std::make_shared<run_counters>();
    const auto made = system.add<generator>("generator-0", options, engine);
    system.add<wishing>("wishing", made, std::move(wanted), &all);
    ended = system.start();
    if (ended) ended = system.wait_blocking();
    std::ignore = system.stop();
  }
  if (!ended) return failure(std::move(ended.error()));
  return all;
}

/// The tokens of the group, made by one version from the first to the last.
collected alone(std::uint64_t version) {
  auto all = granted({.versions = {version}, .version = version});
  REQUIRE(all.has_value());
  REQUIRE(all->tokens.size() == 24);
  return *all;
}

} // namespace

TEST_SUITE("actors/generator") {
  TEST_CASE("in flight, each token bears the version that made it, and an update ends nothing") {
    const collected before = alone(3);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const auto all = granted({.versions = {3}, .version = 3, .meanwhile = 4}, 0, seed);
      REQUIRE(all.has_value());
      REQUIRE(all->versions.size() == 24);
      CHECK(std::ranges::is_sorted(all->versions));
      CHECK(all->versions.front() == 3);
      CHECK(all->versions.back() == 4);
      // A stamp never precedes the weights: what bears version 3 was made by it, and the first
      // token that bears version 4 was not.
      std::size_t i = 0;
      for (; all->versions[i] == 3; ++i)
        CHECK(all->logprobs[i] == before.logprobs[i]);
      CHECK(all->logprobs[i] != before.logprobs[i]);
    }
  }

  TEST_CASE("stamp_follows_weights: off, tokens of the old weights bear the new version") {
    const collected before = alone(3);
    const rule_suspension off(rule::stamp_follows_weights);
    const auto all = granted({.versions = {3}, .version = 3, .meanwhile = 4});
    REQUIRE(all.has_value());
    const auto first = std::ranges::find(all->versions, 4U) - all->versions.begin();
    REQUIRE(first < 24);
    const auto at = static_cast<std::size_t>(first);
    CHECK(all->logprobs[at] == before.logprobs[at]);
  }

  TEST_CASE("a pinned group keeps its version through updates, bit for bit") {
    const collected expected = alone(3);
    const auto all =
        granted({.versions = {2, 3, 4}, .version = 3, .pinned = true, .meanwhile = 5}, 2);
    REQUIRE(all.has_value());
    CHECK(all->tokens == expected.tokens);
    CHECK(all->logprobs == expected.logprobs);
    CHECK(all->versions == std::vector<std::uint64_t>(24, 3));
  }

  TEST_CASE("a group that is pinned to what is not here yet waits for it") {
    const auto all = granted(
        {.versions = {1}, .version = 2, .pinned = true, .meanwhile = 2, .meanwhile_after = 2s}, 1);
    REQUIRE(all.has_value());
    CHECK(all->tokens == alone(2).tokens);
    CHECK(all->versions == std::vector<std::uint64_t>(24, 2));
  }

  TEST_CASE("a pin to a version that is gone fails the attempt, and names what there is") {
    const auto all = granted({.versions = {1, 2, 3}, .version = 1, .pinned = true}, 1);
    REQUIRE_FALSE(all.has_value());
    CHECK(all.error().text.find("pinned to weight version 1, and the decoder holds 2, 3") !=
          std::string::npos);
  }

  TEST_CASE("weights of an older version than the newest are refused") {
    const auto stale = granted({.versions = {5, 4}, .generate = false});
    REQUIRE_FALSE(stale.has_value());
    CHECK(stale.error().code == errc::conflict);
    CHECK(stale.error().text.find("weights of version 4 come after those of version 5") !=
          std::string::npos);
  }
}

} // namespace weir::test
