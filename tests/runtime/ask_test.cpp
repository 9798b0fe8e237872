#include "actors/runtime/simulation.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using client_protocol = protocol<call<RequestCheckpoint, CheckpointPublished>>;

/// Sends `count` leased requests in one transaction for each request that it gets.
class client : public actor {
public:
  using protocol = client_protocol;
  static constexpr bool is_origin = true;

  client(context ctx, handle<keeper_protocol> keeper) : actor(std::move(ctx)), keeper_(keeper) {
    serve(&client::on_request);
  }

private:
  task<result<message<CheckpointPublished>>> on_request(message<RequestCheckpoint> request) {
    auto lease = co_await mutations().enter();
    for (std::int64_t i = 0; i < request->step(); ++i) {
      auto reserved = co_await keeper_.ask(lease, pack(ReserveBatchT()), within(5s));
      if (!reserved) co_return failure(std::move(reserved.error()));
    }
    lease.release();
    auto probed = co_await keeper_.ask(probe(), within(5s));
    if (!probed) co_return failure(std::move(probed.error()));
    CheckpointPublishedT reply;
    reply.bundle = (*probed)->busy_with()->str();
    co_return pack(reply);
  }

  handle<keeper_protocol> keeper_;
};

/// Asks for what is never answered.
class waiter : public actor {
public:
  using protocol = weir::protocol<note<StopGroup>>;
  waiter(context ctx, handle<keeper_protocol> keeper) : actor(std::move(ctx)), keeper_(keeper) {
    serve(&waiter::on_stop);
  }

private:
  task<void> on_stop(message<StopGroup>) {
    auto never = co_await keeper_.ask(pack(StartGroupT()), within(60s));
    ensure(!never, "an ask that nobody answers fails");
  }
  handle<keeper_protocol> keeper_;
};

/// Fails when it is told to stop.
class weak : public actor {
public:
  using protocol = weir::protocol<call<Probe, ProbeAnswered>, note<StopGroup>>;
  explicit weak(context ctx) : actor(std::move(ctx)) {
    serve(&weak::on_probe);
    serve(&weak::on_stop);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    co_return pack(ProbeAnsweredT());
  }
  task<void> on_stop(message<StopGroup>) {
    fail(error{errc::corrupt, "index broken"});
    co_return;
  }
};

std::string dump_with(graph& system, const std::string& wanted) {
  std::string dump;
  for (int tries = 0; tries < 10'000 && dump.find(wanted) == std::string::npos; ++tries)
    dump = system.dump_tasks("waiter");
  return dump;
}

task<result<message<ProbeAnswered>>> tell_then_ask(handle<keeper_protocol> asked) {
  for (int i = 0; i < 100; ++i)
    asked.tell(pack(StopGroupT()));
  auto answer = co_await asked.ask(probe(), within(5s));
  co_return answer;
}

} // namespace

TEST_SUITE("runtime/ask") {
  TEST_CASE("two actors: leased requests are applied once each, in order, and the lease settles") {
    world env;
    graph system(env);
    const auto keeper_handle = system.add<keeper>("keeper");
    const auto client_handle = system.add<client>("client", keeper_handle);
    REQUIRE(system.start());
    RequestCheckpointT ask;
    ask.step = 3;
    const auto published = system.ask_blocking(client_handle, pack(ask), within(5s));
    REQUIRE(published);
    CHECK((*published)->bundle()->str() == "3 applied, 0 notes");
    const auto counters = system.counters();
    CHECK(counters.pending_asks == 0);
    CHECK(counters.unsettled_leases == 0);
    CHECK(counters.live_coroutines == 0);
    CHECK(system.stop());
  }

  TEST_CASE("between local actors no byte of a payload is copied") {
    world env;
    graph system(env);
    const auto asked = system.add<keeper>("keeper");
    REQUIRE(system.start());
    const std::uint64_t before = payload_bytes_copied();
    asked.tell(pack(StopGroupT()));
    CHECK(system.ask_blocking(asked, probe(), within(5s)).has_value());
    CHECK(payload_bytes_copied() == before);
  }

  TEST_CASE("a deadline that passes names who did not answer what, and forgets the request") {
    world env;
    graph system(env);
    const auto asked = system.add<keeper>("keeper");
    REQUIRE(system.start());
    const auto answer = system.ask_blocking(asked, pack(StartGroupT()), within(20ms));
    REQUIRE(!answer);
    CHECK(answer.error().code == errc::timed_out);
    CHECK(answer.error().text == "keeper did not answer StartGroup within 20 ms");
    CHECK(answer.error().origin == "keeper");
    CHECK(answer.error().subject == "StartGroup");
    CHECK(system.counters().pending_asks == 0);
    // The handler still waits; it is cancelled with its actor.
    CHECK(system.counters().live_coroutines == 2);
    CHECK(system.dump_tasks("keeper").find("on_start") != std::string::npos);
  }

  TEST_CASE("a deadline in the past asks nobody") {
    world env;
    graph system(env);
    const auto asked = system.add<keeper>("keeper");
    REQUIRE(system.start());
    for (const auto passed : {0ns, -1ns}) {
      const auto answer = system.ask_blocking(asked, probe(), within(passed));
      REQUIRE(!answer);
      CHECK(to_string(answer.error()) ==
            "timed out: the deadline of the request has passed already "
            "(asked of keeper: Probe)");
    }
    CHECK(system.counters().pending_asks == 0);
  }

  TEST_CASE("an actor that has ended refuses at once what is asked of it") {
    simulation around({.log = [](log_level, std::string_view, std::string_view) {}});
    graph system(around.env());
    const auto asked = system.add<weak>("weak");
    REQUIRE(system.start());
    asked.tell(pack(StopGroupT()));
    const auto ended = system.wait_blocking(1s);
    REQUIRE(!ended);
    CHECK(ended.error().text == "index broken");
    const auto answer = system.ask_blocking(asked, probe(), within(1h));
    REQUIRE(!answer);
    CHECK(to_string(answer.error()) == "unavailable: the actor has ended (asked of weak: Probe)");
    CHECK(around.elapsed() < 1s);
    CHECK(system.stop());
    const auto later = system.ask_blocking(asked, probe(), within(1h));
    REQUIRE(!later);
    CHECK(to_string(later.error()) == "cancelled: the graph was stopped");
  }

  TEST_CASE("a handle of nobody is answered with unavailable") {
    world env;
    graph system(env);
    REQUIRE(system.start());
    const auto answer = system.ask_blocking(handle<keeper_protocol>(), probe(), within(1s));
    REQUIRE(!answer);
    CHECK(to_string(answer.error()) ==
          "unavailable: the handle is not wired: nobody to ask (asked of nobody: Probe)");
  }

  TEST_CASE("an actor that does not serve a request of its protocol says so") {
    using wrong = protocol<call<PeekBatch, BatchPeeked>>;
    world env;
    graph system(env);
    std::ignore = system.add<keeper>("keeper");
    REQUIRE(system.start());
    const auto answer =
        system.ask_blocking(system.find<wrong>("keeper"), pack(PeekBatchT()), within(1s));
    REQUIRE(!answer);
    CHECK(to_string(answer.error()) ==
          "unsupported: keeper does not answer this (asked of keeper: PeekBatch)");
  }

  TEST_CASE("whoever waits for an actor that is stopped is told") {
    world env;
    graph system(env);
    const auto keeper_handle = system.add<keeper>("keeper");
    const auto client_handle = system.add<waiter>("waiter", keeper_handle);
    REQUIRE(system.start());
    client_handle.tell(pack(StopGroupT()));
    const std::string asks = "waits for keeper to answer StartGroup, ";
    const std::string dump = dump_with(system, asks);
    CHECK(dump.find("waiter::on_stop (ask_test.cpp:") < dump.find(asks));
    CHECK(dump.find(asks) != std::string::npos);
    CHECK(system.stop());
  }

  TEST_CASE("notes arrive in order before a later request of the same sender") {
    world env;
    graph system(env);
    const auto asked = system.add<keeper>("keeper");
    REQUIRE(system.start());
    const auto answer = system.run_blocking(&tell_then_ask, asked);
    REQUIRE(answer);
    CHECK((*answer)->busy_with()->str() == "0 applied, 100 notes");
  }
}

} // namespace weir::test
