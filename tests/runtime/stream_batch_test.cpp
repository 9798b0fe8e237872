/// How items travel: what one turn pushes in one message, in order with everything else, no byte of
/// it copied. In simulations, where messages can be counted and time stands still.
#include "actors/runtime/simulation.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using writer_protocol = protocol<call<GenerateGroup, GenerationAccepted>>;
using reader_protocol = protocol<note<StopGroup>>;

enum class habit {
  burst,       ///< All items at once, then a note to the reader.
  pause,       ///< One item, then an hour of something else.
  try_to_push, ///< As many as there is credit for, then the end.
};

struct seen {
  std::vector<std::string> order;
  std::vector<std::chrono::nanoseconds> times;
  std::vector<const payload*> pushed;
  std::vector<const payload*> read;
};

class writer : public actor {
public:
  using protocol = writer_protocol;
  writer(context ctx, habit how, seen* log) : actor(ctx), ctx_(ctx), how_(how), log_(log) {
    serve(&writer::on_generate);
  }

private:
  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request) {
    children().spawn(&writer::emit, this, request);
    co_return pack(GenerationAcceptedT());
  }
  task<void> emit(message<GenerateGroup> request) {
    auto items = connect<TokenBatch>(*this, request->stream());
    for (std::uint32_t i = 0; i < request->siblings(); ++i) {
      const auto item = pack(TokenBatchT());
      log_->pushed.push_back(item.content().get());
      auto pushed = co_await items.push(item);
      CHECK(pushed.has_value());
      if (how_ == habit::pause) co_await clock().after(1h);
    }
    if (how_ == habit::burst) ctx_.find<reader_protocol>("reader").tell(pack(StopGroupT()));
    while (how_ == habit::try_to_push && items.try_push(pack(TokenBatchT())))
      log_->order.emplace_back("pushed");
    items.finish();
  }

  context ctx_;
  habit how_;
  seen* log_;
};

class reader : public actor {
public:
  using protocol = reader_protocol;
  reader(context ctx, handle<writer_protocol> writer, std::uint32_t items, seen* log)
      : actor(std::move(ctx)), writer_(std::move(writer)), items_(items), log_(log) {
    serve(&reader::on_note);
  }

private:
  task<void> run() override {
    auto items = open_stream<TokenBatch>(*this, 256);
    GenerateGroupT want;
    want.siblings = items_;
    want.stream = std::make_unique<StreamRefT>(items.id());
    auto accepted = co_await writer_.ask(pack(want), within(5s));
    CHECK(accepted.has_value());
    for (;;) {
      auto item = co_await items.next(within(2h));
      REQUIRE(item.has_value());
      if (!*item) break;
      log_->order.emplace_back("item");
      log_->times.emplace_back(clock().now());
      log_->read.push_back((*item)->content().get());
    }
    finish_run();
  }
  task<void> on_note(message<StopGroup>) {
    log_->order.emplace_back("note");
    co_return;
  }

  handle<writer_protocol> writer_;
  std::uint32_t items_;
  seen* log_;
};

simulated_run stream_of(std::uint32_t items, habit how, seen* log, std::uint64_t seed = 1) {
  return simulate(seed, [=](graph& system) {
    const auto from = system.add<writer>("writer", how, log);
    system.add<reader>("reader", from, items, log);
  });
}

} // namespace

TEST_SUITE("runtime/stream batches") {
  TEST_CASE("what one turn pushes is one message, up to 64 items") {
    seen log;
    const auto ended = stream_of(200, habit::burst, &log);
    CHECK(ended.outcome.has_value());
    CHECK(log.read.size() == 200);
    // 4 batches; beside them the request, its answer, the open and end of the stream, credit, the
    // note, and a few that start and stop the graph.
    CHECK(ended.messages < 20);
  }

  TEST_CASE("a note that is told after items arrives after them") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      seen log;
      CHECK(stream_of(3, habit::burst, &log, seed).outcome.has_value());
      CHECK(log.order == std::vector<std::string>{"item", "item", "item", "note"});
    }
  }

  TEST_CASE("an item departs before its producer waits for something else") {
    seen log;
    CHECK(stream_of(2, habit::pause, &log).outcome.has_value());
    REQUIRE(log.times.size() == 2);
    const auto apart = log.times[1] - log.times[0];
    CHECK(apart >= 1h);
    CHECK(apart < 1h + 1s);
    CHECK(log.times[0] < 1s + std::chrono::nanoseconds(0));
  }

  TEST_CASE("items in a batch count against the credit") {
    seen log;
    CHECK(stream_of(1, habit::try_to_push, &log).outcome.has_value());
    const auto pushed = std::count(log.order.begin(), log.order.end(), "pushed");
    CHECK(pushed == 255);
    CHECK(log.read.size() == 256);
  }

  TEST_CASE("an item is read where it was built: no byte of a payload is copied") {
    seen log;
    const std::uint64_t before = payload_bytes_copied();
    CHECK(stream_of(100, habit::burst, &log).outcome.has_value());
    CHECK(payload_bytes_copied() == before);
    CHECK(log.read == log.pushed);
    // The counter counts: what leaves the process is copied.
    const auto item = pack(TokenBatchT());
    frame leaving;
    leaving.content = item.content();
    std::ignore = encode(leaving);
    CHECK(payload_bytes_copied() == before + item.content()->bytes().size());
  }
}

} // namespace weir::test
