#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

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
}

} // namespace weir::test
