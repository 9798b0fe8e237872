/// Items from one actor to another, under credit, counted where they are read.
///
/// Bound: 5 M items a second leave 200 ns an item. Building a FlatBuffer in a block of its own
/// takes some 40 ns, pushing and reading it as much together, adding its bytes up 20; a message of
/// CAF takes 250 ns and a wake-up microseconds, so both must be shared by many items. Producer and
/// consumer overlap where there are two cores.
#include "actors/graph.hpp"
#include "actors/runtime/stream.hpp"
#include "benchmarks/runtime_bench.hpp"

#include <algorithm>
#include <numeric>

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t item_bytes = 64;
constexpr std::uint64_t credit = 1024;

using producer_protocol = protocol<call<GenerateGroup, GenerationAccepted>>;
using consumer_protocol = protocol<call<RequestCheckpoint, CheckpointPublished>>;

enum class source {
  built,  ///< Each item is a FlatBuffer of its own.
  shared, ///< The same one over and over: the cost of the stream alone.
};

message<Continuation> item(std::uint8_t mark) {
  return build<Continuation>(128, [mark](flatbuffers::FlatBufferBuilder& builder) {
    std::uint8_t* bytes = nullptr;
    const auto field = builder.CreateUninitializedVector(item_bytes, &bytes);
    std::fill_n(bytes, item_bytes, mark);
    return CreateContinuation(builder, 0, field);
  });
}

/// Pushes as many items as a request says, as fast as there is credit.
class producer : public actor {
public:
  using protocol = producer_protocol;
  producer(context ctx, source from) : actor(std::move(ctx)), from_(from) {
    serve(&producer::on_generate);
  }

private:
  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request) {
    children().spawn(&producer::emit, this, request);
    co_return pack(GenerationAcceptedT());
  }
  task<void> emit(message<GenerateGroup> request) {
    auto items = connect<Continuation>(*this, request->stream());
    const auto shared = item(1);
    for (std::uint32_t i = 0; i < request->siblings(); ++i) {
      auto next = from_ == source::built ? item(1) : shared;
      auto pushed = co_await items.push(std::move(next));
      if (!pushed) co_return;
    }
    items.finish();
  }
  source from_;
};

/// Reads a stream of `step` items to its end and answers how many bytes it has read.
class consumer : public actor {
public:
  using protocol = consumer_protocol;
  consumer(context ctx, handle<producer_protocol> producer)
      : actor(std::move(ctx)), producer_(std::move(producer)) {
    serve(&consumer::on_request);
  }

private:
  task<result<message<CheckpointPublished>>> on_request(message<RequestCheckpoint> request) {
    auto items = open_stream<Continuation>(*this, credit);
    GenerateGroupT want;
    want.siblings = static_cast<std::uint32_t>(request->step());
    want.stream = std::make_unique<StreamRefT>(items.id());
    auto accepted = co_await producer_.ask(pack(want), within(30s));
    if (!accepted) co_return failure(std::move(accepted.error()));
    CheckpointPublishedT seen;
    for (;;) {
      auto next = co_await items.next(within(30s));
      if (!next) co_return failure(std::move(next.error()));
      if (!*next) break;
      const auto& bytes = *(**next)->bytes();
      seen.bytes = std::accumulate(bytes.begin(), bytes.end(), seen.bytes);
    }
    co_return pack(seen);
  }
  handle<producer_protocol> producer_;
};

class stream_bench {
public:
  stream_bench(std::size_t workers, source from, std::size_t items)
      : items_(items), system_(env_, {.workers = workers}),
        reader_(system_.add<consumer>("consumer", system_.add<producer>("producer", from))) {
    ensure(system_.start().has_value(), "the graph starts");
  }
  double items_per_second() {
    RequestCheckpointT request;
    request.step = static_cast<std::int64_t>(items_);
    const auto begin = steady::now();
    const auto seen = system_.ask_blocking(reader_, pack(request), within(60s));
    const double nanoseconds = nanoseconds_since(begin);
    ensure(seen.has_value(), "the stream ends");
    ensure((*seen)->bytes() == items_ * item_bytes, "every byte of every item was read once");
    return static_cast<double>(items_) * 1e9 / nanoseconds;
  }
  double bytes_copied() {
    const std::uint64_t before = payload_bytes_copied();
    std::ignore = items_per_second();
    return static_cast<double>(payload_bytes_copied() - before);
  }
  double allocations_per_item() {
    const std::uint64_t before = heap_allocations();
    std::ignore = items_per_second();
    return static_cast<double>(heap_allocations() - before) / static_cast<double>(items_);
  }

private:
  std::size_t items_;
  world env_{world_options{}};
  graph system_;
  handle<consumer_protocol> reader_;
};

} // namespace

std::vector<row> stream_rows(effort much) {
  const std::size_t items = much.rounds(1'000'000);
  std::vector<row> rows;
  const auto rate = [&](std::string text, std::size_t workers, source from) {
    stream_bench bench(workers, from, items);
    rows.push_back(against_target(
        "stream of 64-byte items" + std::move(text), "items/s", 5e6,
        [&] { return bench.items_per_second(); }, better::higher));
  };
  rate(", 2 workers", 2, source::built);
  rate(", 1 worker", 1, source::built);
  rate(" built before, 2 workers", 2, source::shared);
  stream_bench bench(2, source::shared, items);
  rows.push_back(against_target("heap allocations per item of a stream", "allocations", 0.1,
                                [&] { return bench.allocations_per_item(); }));
  rows.push_back(against_target("payload bytes copied by a stream", "bytes", 0,
                                [&] { return bench.bytes_copied(); }));
  return rows;
}

} // namespace weir::benchmarks
