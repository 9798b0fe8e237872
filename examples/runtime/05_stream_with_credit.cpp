/// A producer that never runs further ahead than its consumer has room for.
///
/// Shows: a stream opened by its consumer and named in a request; credit; push, which waits for
/// it; the end of a stream; and what a producer learns when its consumer has gone.
/// Prints: room for 4, sent at once: 4
///         0 + 1 + ... + 99 = 4950
///         the counter was told: unavailable
#include "actors/graph.hpp"
#include "actors/runtime/stream.hpp"
#include "examples/runtime/demo_catalogue.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

weir::message<demo::Number> number(std::uint64_t value) {
  demo::NumberT item;
  item.value = value;
  return weir::pack(item);
}

// [readme:producer]
class counter : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<demo::CountUp, demo::CountingBegun>>;
  explicit counter(weir::context ctx) : actor(std::move(ctx)) { serve(&counter::on_count_up); }

private:
  weir::task<weir::result<weir::message<demo::CountingBegun>>>
  on_count_up(weir::message<demo::CountUp> request) {
    auto numbers = weir::connect<demo::Number>(*this, request->numbers());
    auto first = co_await numbers.push(number(0)); // Waits for the first credit.
    if (!first) co_return weir::failure(first.error());
    demo::CountingBegunT begun;
    begun.sent = 1;
    while (numbers.try_push(number(begun.sent)))
      ++begun.sent;
    children().spawn(&counter::count, this, std::move(numbers), begun.sent, request->count());
    co_return weir::pack(begun);
  }

  weir::task<void> count(weir::sink<demo::Number> numbers, std::uint64_t next, std::uint64_t end) {
    for (; next < end; ++next) {
      auto pushed = co_await numbers.push(number(next)); // Waits until there is room.
      if (!pushed) co_return gone(pushed.error());
    }
    numbers.finish();
  }
  // [end]

  void gone(const weir::error& reason) {
    std::printf("the counter was told: %s\n", weir::to_string(reason.code).data());
    finish_run();
  }
};

class adder : public weir::actor {
public:
  using protocol = weir::protocol<>;
  adder(weir::context ctx, weir::handle<counter::protocol> counter)
      : actor(std::move(ctx)), counter_(std::move(counter)) {}

private:
  weir::task<void> run() override {
    co_await add_up(100);
    auto unread = weir::open_stream<demo::Number>(*this, 4);
    co_await begin(unread.id(), 100);
  } // `unread` ends here: its producer is told with its next push.

  weir::task<std::uint64_t> begin(weir::StreamRefT where, std::uint64_t count) {
    demo::CountUpT request;
    request.count = count;
    request.numbers = std::make_unique<weir::StreamRefT>(std::move(where));
    const auto packed = weir::pack(request);
    auto begun = co_await counter_.ask(packed, weir::within(5s));
    if (!begun) fail(begun.error());
    co_return begun ? (*begun)->sent() : 0;
  }

  // [readme:consumer]
  weir::task<void> add_up(std::uint64_t count) {
    auto numbers = weir::open_stream<demo::Number>(*this, 4); // Room for 4 items.
    const auto sent = co_await begin(numbers.id(), count);
    std::printf("room for 4, sent at once: %llu\n", static_cast<unsigned long long>(sent));
    std::uint64_t sum = 0;
    while (true) {
      auto item = co_await numbers.next(weir::within(5s));
      if (!item) co_return fail(item.error());
      if (!*item) break; // The end of the stream.
      sum += (**item)->value();
    }
    std::printf("0 + 1 + ... + %llu = %llu\n", static_cast<unsigned long long>(count - 1),
                static_cast<unsigned long long>(sum));
  }
  // [end]

  weir::handle<counter::protocol> counter_;
};

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto numbers = system.add<counter>("counter");
  system.add<adder>("adder", numbers);
  if (auto started = system.start(); !started) return 1;
  return system.wait_blocking(10s) ? 0 : 1;
}
