/// Remote handles: two graphs of one process over 127.0.0.1, on ports that the system chose.
#include "actors/fault/fault.hpp"
#include "actors/runtime/simulation.hpp"
#include "tests/runtime/actors_under_test.hpp"
#include "tests/runtime/two_graphs.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using client_protocol = protocol<call<RequestCheckpoint, CheckpointPublished>>;

/// Sends as many leased requests as it is asked for, each in a transaction of its own.
class client : public actor {
public:
  using protocol = client_protocol;
  static constexpr bool is_origin = true;

  client(context ctx, handle<keeper_protocol> keeper) : actor(std::move(ctx)), keeper_(keeper) {
    serve(&client::on_request);
  }

private:
  task<result<message<CheckpointPublished>>> on_request(message<RequestCheckpoint> request) {
    for (std::int64_t i = 0; i < request->step(); ++i) {
      auto lease = co_await mutations().enter();
      auto reserved = co_await keeper_.ask(lease, pack(ReserveBatchT()), within(5s));
      if (!reserved) co_return failure(std::move(reserved.error()));
    }
    co_return pack(CheckpointPublishedT());
  }

  handle<keeper_protocol> keeper_;
};

using teller_protocol = protocol<call<Probe, ProbeAnswered>>;

task<result<std::string>> tell_then_probe(handle<keeper_protocol> asked) {
  for (int i = 0; i < 100; ++i)
    asked.tell(pack(StopGroupT()));
  auto answer = co_await asked.ask(probe(), within(5s));
  if (!answer) co_return failure(std::move(answer.error()));
  co_return (*answer)->busy_with()->str();
}

/// A protocol that the keeper has not: the reply is another one.
using other_protocol = protocol<call<Probe, BatchReserved>>;
using streaming_protocol = protocol<call<GenerateGroup, GenerationAccepted>>;

} // namespace

TEST_SUITE("runtime/remote") {
  TEST_CASE("a remote handle has the type and the answers of a local one") {
    two_graphs test;
    const handle<keeper_protocol> remote = test.connect();
    CHECK(remote.name() == "keeper@127.0.0.1:" + std::to_string(test.port));
    const auto answer = test.near.ask_blocking(remote, probe(), within(5s));
    REQUIRE(answer);
    CHECK((*answer)->actor()->str() == "keeper");
    CHECK(test.near.border().connections == 1);
    CHECK(test.far.border().connections == 1);
    CHECK(test.near.counters().pending_asks == 0);
    CHECK(test.far.counters().pending_asks == 0);
  }

  TEST_CASE("a narrower protocol is agreed to, another one is refused with its conversation") {
    two_graphs test;
    CHECK(test.near.connect<teller_protocol>("127.0.0.1", test.port, "keeper", within(5s)));
    const auto other =
        test.near.connect<other_protocol>("127.0.0.1", test.port, "keeper", within(5s));
    REQUIRE(!other);
    CHECK(other.error().code == errc::unsupported);
    CHECK(other.error().text == "keeper has no conversation of Probe and BatchReserved");
  }

  TEST_CASE("notes arrive in order before a later request") {
    two_graphs test;
    const auto remote = test.connect();
    CHECK(test.near.run_blocking(&tell_then_probe, remote).value() == "0 applied, 100 notes");
  }

  TEST_CASE("leased requests travel with their stamp, and settle") {
    two_graphs test;
    const auto remote = test.connect();
    const auto asking = test.near.add<client>("client", remote);
    REQUIRE(test.near.start());
    RequestCheckpointT ask;
    ask.step = 20;
    CHECK(test.near.ask_blocking(asking, pack(ask), within(10s)));
    CHECK(test.seen() == "20 applied, 0 notes");
    CHECK(test.near.counters().unsettled_leases == 0);
  }

  TEST_CASE("a fault actor stands in front of a remote handle, and duplicates are applied once") {
    two_graphs test;
    const fault_plan plan{on<ReserveBatch>().duplicate(2)};
    const auto flaky = test.near.add<fault<keeper_protocol>>("flaky", test.connect(), plan);
    const auto asking = test.near.add<client>("client", flaky);
    REQUIRE(test.near.start());
    RequestCheckpointT ask;
    ask.step = 10;
    CHECK(test.near.ask_blocking(asking, pack(ask), within(10s)));
    CHECK(test.seen() == "10 applied, 0 notes");
  }

  TEST_CASE("a simulated graph has no network") {
    simulation around(simulation_options{});
    graph system(around.env());
    const auto direct = system.add<keeper>("keeper");
    const auto published = system.publish(direct, "keeper");
    REQUIRE(!published);
    CHECK(published.error().code == errc::unsupported);
    CHECK(!system.connect<keeper_protocol>("127.0.0.1", 1, "keeper", within(1s)));
  }

  TEST_CASE("an error of the handler crosses with code, text, origin and subject") {
    two_graphs test;
    const auto published = test.far.publish(test.far.find<streaming_protocol>("keeper"), "wrong");
    REQUIRE(published);
    using narrow = protocol<call<AwaitBatch, BatchReady>>;
    const auto served = test.far.publish(test.far.find<narrow>("keeper"), "narrow", *published);
    CHECK(served.value() == *published);
    const auto remote = test.near.connect<narrow>("127.0.0.1", *published, "narrow", within(5s));
    REQUIRE(remote);
    const auto refused = test.near.ask_blocking(*remote, pack(AwaitBatchT()), within(5s));
    REQUIRE(!refused);
    CHECK(to_string(refused.error()) ==
          "unsupported: keeper does not answer this (asked of keeper: AwaitBatch)");
  }

  TEST_CASE("a deadline names the remote actor, and ends the wait on both sides") {
    two_graphs test;
    const auto remote = test.connect();
    const auto late = test.near.ask_blocking(remote, pack(StartGroupT()), within(20ms));
    REQUIRE(!late);
    CHECK(late.error().code == errc::timed_out);
    CHECK(late.error().text == remote.name() + " did not answer StartGroup within 20 ms");
    // The far side gives up by the time that was left when the request was sent, and so does the
    // actor that stands for it here: neither is the one that asked.
    CHECK(eventually(test.env, [&] { return test.far.counters().pending_asks == 0; }));
    CHECK(eventually(test.env, [&] { return test.near.counters().pending_asks == 0; }));
  }

  TEST_CASE("a request that names a stream does not leave its graph") {
    two_graphs test;
    const auto at = test.far.publish(test.far.find<streaming_protocol>("keeper"), "streams");
    REQUIRE(at);
    const auto remote =
        test.near.connect<streaming_protocol>("127.0.0.1", *at, "streams", within(5s));
    REQUIRE(remote);
    const auto refused = test.near.ask_blocking(*remote, pack(GenerateGroupT()), within(5s));
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::unsupported);
    CHECK(refused.error().text.starts_with("GenerateGroup names a stream"));
  }

  TEST_CASE("nobody at the port, nobody of the name, a name that is taken") {
    two_graphs test;
    const auto unknown =
        test.near.connect<keeper_protocol>("127.0.0.1", test.port, "nobody", within(5s));
    REQUIRE(!unknown);
    CHECK(unknown.error().code == errc::not_found);
    CHECK(unknown.error().text == "no actor is published as \"nobody\" at this port");
    const auto again = test.far.publish(test.keeper_handle, "keeper", test.port);
    REQUIRE(!again);
    CHECK(again.error().code == errc::already_exists);
    const auto taken = test.near.publish(handle<keeper_protocol>(test.connect()), "x", test.port);
    REQUIRE(!taken);
    CHECK(taken.error().code == errc::unavailable);
    CHECK(!test.near.publish(handle<keeper_protocol>(), "x"));
  }

  TEST_CASE("a graph that stops ends what is asked of it, and refuses what comes") {
    two_graphs test;
    const auto remote = test.connect();
    auto waiting = test.ask_later(remote);
    REQUIRE(eventually(test.env, [&] { return test.far.counters().pending_asks > 0; }));
    CHECK(test.far.stop());
    const auto lost = waiting.get();
    REQUIRE(!lost);
    CHECK(lost.error().code == errc::unavailable);
    CHECK(lost.error().text == remote.name() +
                                   " is lost: the peer closed the connection: the graph of the "
                                   "actor was stopped; connect again");
    CHECK(lost.error().subject == "StartGroup");
    const auto later = test.near.ask_blocking(remote, probe(), within(60s));
    REQUIRE(!later);
    CHECK(later.error().code == errc::unavailable);
    CHECK(later.error().subject == "Probe");
    CHECK(test.near.border().connections == 0);
    CHECK(test.near.border().lost_peers == 1);
  }

  TEST_CASE("a graph that stops closes its remote handles, and the other side notices") {
    two_graphs test;
    std::ignore = test.connect();
    CHECK(test.near.stop());
    CHECK(eventually(test.env, [&] { return test.far.border().connections == 0; }));
    CHECK(test.far.border().lost_peers == 0);
  }

  TEST_CASE("a frame of another life is refused by the actor that it reaches") {
    two_graphs test(incarnation(2));
    const auto remote = test.connect();
    const auto refused = test.near.ask_blocking(remote, probe(), within(5s));
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::conflict);
    CHECK(refused.error().text == "sent in incarnation 1, this is 2");
  }
}

} // namespace weir::test
