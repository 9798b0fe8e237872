/// Leased requests behind a fault actor: applied once, and settled at the latest when it ends.
#include "actors/fault/fault.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using writer_protocol = protocol<call<RequestCheckpoint, CheckpointPublished>>;

/// Sends as many leased requests at once as it is asked for, each in a transaction of its own.
class writer : public actor {
public:
  using protocol = writer_protocol;
  static constexpr bool is_origin = true;

  writer(context ctx, handle<keeper_protocol> keeper, std::chrono::nanoseconds limit)
      : actor(std::move(ctx)), keeper_(std::move(keeper)), limit_(limit) {
    serve(&writer::on_request);
  }

private:
  task<result<message<CheckpointPublished>>> on_request(message<RequestCheckpoint> request) {
    failed_ = error();
    scope writing;
    for (std::int64_t i = 0; i < request->step(); ++i)
      writing.spawn(&writer::write, this);
    co_await writing.joined();
    if (!failed_.text.empty()) co_return failure(failed_);
    co_return pack(CheckpointPublishedT());
  }
  task<void> write() {
    auto lease = co_await mutations().enter();
    auto reserved = co_await keeper_.ask(lease, pack(ReserveBatchT()), within(limit_));
    if (!reserved) failed_ = reserved.error();
  }

  handle<keeper_protocol> keeper_;
  std::chrono::nanoseconds limit_;
  error failed_;
};

/// A writer, a fault actor, and a keeper behind it.
struct writing_graph {
  writing_graph(const fault_plan& plan, std::uint64_t seed, std::chrono::nanoseconds limit)
      : env({.seed = seed, .log = quiet}), system(env) {
    direct = system.add<keeper>("keeper");
    flaky = system.add<fault<keeper_protocol>>("flaky", direct, plan);
    writing = system.add<writer>("writer", flaky, limit);
    REQUIRE(system.start());
  }
  static void quiet(log_level, std::string_view, std::string_view) {}

  [[nodiscard]] result<void> write(std::int64_t requests) {
    RequestCheckpointT ask;
    ask.step = requests;
    const auto written = system.ask_blocking(writing, pack(ask), within(10s));
    if (!written) return failure(written.error());
    return {};
  }
  [[nodiscard]] std::string seen() {
    const auto answer = system.ask_blocking(direct, probe(), within(5s));
    REQUIRE(answer);
    return (*answer)->busy_with()->str();
  }
  /// Looks until no lease is unsettled; false when one stays.
  [[nodiscard]] bool settles() {
    for (int tries = 0; tries < 10'000; ++tries)
      if (system.counters().unsettled_leases == 0) return true;
    return false;
  }

  world env;
  graph system;
  handle<keeper_protocol> direct;
  handle<keeper_protocol> flaky;
  handle<writer_protocol> writing;
};

} // namespace

TEST_SUITE("faults/lease") {
  TEST_CASE("leased requests that are duplicated and reordered are applied once each") {
    const fault_plan plan{
        on<ReserveBatch>().duplicate(3).chance(0.4),
        on<ReserveBatch>().reorder(5).chance(0.5),
        on<BatchReserved>().duplicate().chance(0.3),
        on<BatchReserved>().reorder(3).chance(0.3),
    };
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(seed);
      writing_graph test(plan, seed, 5s);
      CHECK(test.write(40));
      CHECK(test.seen() == "40 applied, 0 notes");
      CHECK(test.settles());
      CHECK(test.system.counters().pending_asks == 0);
    }
  }

  TEST_CASE("a leased request whose answer is late is settled by it, after its asker gave up") {
    writing_graph test(fault_plan{on<BatchReserved>().delay(30ms)}, 1, 5ms);
    const auto late = test.write(1);
    REQUIRE(!late);
    CHECK(late.error().text == "flaky did not answer ReserveBatch within 5 ms");
    CHECK(test.seen() == "1 applied, 0 notes");
    CHECK(test.settles());
  }

  TEST_CASE("a leased request that was dropped is settled when the fault actor ends") {
    writing_graph test(fault_plan{on<ReserveBatch>().drop()}, 1, 5ms);
    const auto lost = test.write(2);
    REQUIRE(!lost);
    CHECK(lost.error().code == errc::timed_out);
    CHECK(test.seen() == "0 applied, 0 notes");
    CHECK(test.system.counters().unsettled_leases == 2);
    detail::end_as_failure(test.flaky.where(), error{errc::internal, "enough"});
    CHECK(test.settles());
    CHECK(test.system.counters().pending_asks == 0);
  }

  TEST_CASE("a graph stops while dropped leased requests are open") {
    writing_graph test(fault_plan{on<ReserveBatch>().drop()}, 1, 5ms);
    CHECK(!test.write(3));
    CHECK(test.system.stop());
  }
}

} // namespace weir::test
