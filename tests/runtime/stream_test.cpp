#include "actors/runtime/simulation.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <optional>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using producer_protocol = protocol<call<GenerateGroup, GenerationAccepted>>;
using consumer_protocol = protocol<call<RequestCheckpoint, CheckpointPublished>>;

enum class ending { finish, fail, destroy, endless, die };

message<TokenBatch> batch() {
  return pack(TokenBatchT());
}

/// Pushes `siblings` items into the stream that a request names, then ends it in one of the ways.
class producer : public actor {
public:
  using protocol = producer_protocol;
  producer(context ctx, ending how) : actor(std::move(ctx)), how_(how) {
    serve(&producer::on_generate);
  }

private:
  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request) {
    children().spawn(&producer::emit, this, request);
    co_return pack(GenerationAcceptedT());
  }
  task<void> emit(message<GenerateGroup> request) {
    auto tokens = connect<TokenBatch>(*this, request->stream());
    for (std::uint32_t i = 0; i < request->siblings() || how_ == ending::endless; ++i) {
      auto pushed = co_await tokens.push(batch());
      if (!pushed) {
        log(log_level::debug, to_string(pushed.error()));
        co_return;
      }
    }
    if (how_ == ending::finish)
      tokens.finish();
    else if (how_ == ending::die)
      actor::fail(error{errc::corrupt, "index broken"});
    else if (how_ == ending::fail)
      tokens.fail(error{errc::exhausted, "no blocks left", name()});
  }
  ending how_;
};

/// Reads a stream to its end, or `step` items of it, and reports what it saw.
class consumer : public actor {
public:
  using protocol = consumer_protocol;
  consumer(context ctx, handle<producer_protocol> producer)
      : actor(std::move(ctx)), producer_(producer) {
    serve(&consumer::on_request);
  }

private:
  task<result<message<CheckpointPublished>>> on_request(message<RequestCheckpoint> request) {
    auto tokens = open_stream<TokenBatch>(*this, 4);
    GenerateGroupT want;
    want.siblings = 1000;
    want.stream = std::make_unique<StreamRefT>(tokens.id());
    auto accepted = co_await producer_.ask(pack(want), within(5s));
    if (!accepted) co_return failure(std::move(accepted.error()));
    CheckpointPublishedT seen;
    while (request->step() < 0 || seen.bytes < static_cast<std::uint64_t>(request->step())) {
      auto item = co_await tokens.next(within(5s));
      if (!item) seen.bundle = to_string(item.error());
      if (!item || !*item) break;
      ++seen.bytes;
    }
    co_return pack(seen);
  }
  handle<producer_protocol> producer_;
};

struct seen_items {
  std::uint64_t items;
  std::string ending;
};

seen_items run_stream(ending how, std::int64_t at_most) {
  world env;
  graph system(env);
  const auto from = system.add<producer>("producer", how);
  const auto to = system.add<consumer>("consumer", from);
  REQUIRE(system.start());
  RequestCheckpointT request;
  request.step = at_most;
  const auto seen = system.ask_blocking(to, pack(request), within(5s));
  REQUIRE(seen);
  // The cancel of an abandoned stream is behind nothing else in the producer's mailbox.
  for (int tries = 0; tries < 1000 && system.counters().open_streams > 0; ++tries) {
  }
  CHECK(system.counters().open_streams == 0);
  CHECK(system.counters().live_coroutines == 0);
  CHECK(system.stop());
  return {(*seen)->bytes(), (*seen)->bundle() != nullptr ? (*seen)->bundle()->str() : ""};
}

} // namespace

TEST_SUITE("runtime/stream") {
  TEST_CASE("every item arrives, then the end") {
    const auto seen = run_stream(ending::finish, -1);
    CHECK(seen.items == 1000);
    CHECK(seen.ending.empty());
  }

  TEST_CASE("the producer's error arrives after its items") {
    const auto seen = run_stream(ending::fail, -1);
    CHECK(seen.items == 1000);
    CHECK(seen.ending == "exhausted: no blocks left (asked of producer)");
  }

  TEST_CASE("a producer that goes away without a word is an error") {
    const auto seen = run_stream(ending::destroy, -1);
    CHECK(seen.items == 1000);
    CHECK(seen.ending == "cancelled: the producer was cancelled (asked of producer)");
  }

  TEST_CASE("a producer whose actor fails is an error, too") {
    simulation around({.log = [](log_level, std::string_view, std::string_view) {}});
    graph system(around.env());
    const auto from = system.add<producer>("producer", ending::die);
    const auto to = system.add<consumer>("consumer", from);
    REQUIRE(system.start());
    RequestCheckpointT request;
    request.step = -1;
    const auto seen = system.ask_blocking(to, pack(request), within(5s));
    REQUIRE(seen);
    CHECK((*seen)->bundle()->str() == "cancelled: the producer was cancelled (asked of producer)");
    CHECK(system.counters().open_streams == 0);
    CHECK(system.stop());
  }

  TEST_CASE("a producer is told when its consumer's actor ends") {
    std::vector<std::string> lines;
    simulation around({.log = [&lines](log_level, std::string_view, std::string_view text) {
      lines.emplace_back(text);
    }});
    graph system(around.env());
    const auto from = system.add<producer>("producer", ending::endless);
    const auto to = system.add<consumer>("consumer", from);
    REQUIRE(system.start());
    RequestCheckpointT request;
    request.step = -1;
    const auto endless = system.ask_blocking(to, pack(request), within(1ms));
    CHECK(endless.error().code == errc::timed_out);
    CHECK(system.stop()); // The consumer first: it was added last.
    CHECK(lines ==
          std::vector<std::string>{"unavailable: consumer does not read the stream any more, "
                                   "or never read this one (asked of consumer)"});
  }

  TEST_CASE("a consumer that goes away ends an endless producer") {
    const auto seen = run_stream(ending::endless, 10);
    CHECK(seen.items == 10);
  }
}

} // namespace weir::test
