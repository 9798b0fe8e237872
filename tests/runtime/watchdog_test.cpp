/// A hang is attributed: in virtual time for actors that wait, on threads for one that holds its
/// thread.
#include "actors/runtime/simulation.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <future>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// Begins to wait for an answer that never comes, a minute after its start.
class patient : public actor {
public:
  using protocol = weir::protocol<>;
  patient(context ctx, handle<keeper_protocol> asked) : actor(std::move(ctx)), asked_(asked) {}

private:
  task<void> run() override {
    co_await clock().after(1min);
    auto never = co_await asked_.ask(pack(StartGroupT()), within(24h));
    ensure(!never, "an ask that nobody answers fails");
  }
  handle<keeper_protocol> asked_;
};

/// Takes a lease and forgets it.
class hoarder : public actor {
public:
  using protocol = weir::protocol<>;
  static constexpr bool is_origin = true;
  explicit hoarder(context ctx) : actor(std::move(ctx)) {}

private:
  task<void> run() override {
    const auto lease = co_await mutations().enter();
    co_await never_.raised();
  }
  signal never_;
};

/// Holds its scheduler thread until a foreign thread lets it go.
class blocker : public actor {
public:
  using protocol = weir::protocol<note<StopGroup>>;
  blocker(context ctx, std::shared_future<void> let_go)
      : actor(std::move(ctx)), let_go_(std::move(let_go)) {
    serve(&blocker::on_stop);
  }

private:
  task<void> on_stop(message<StopGroup>) {
    let_go_.wait();
    co_return;
  }
  std::shared_future<void> let_go_;
};

watchdog_options every_second(stall_action action) {
  return {.interval = 1s, .stall_timeout = 10s, .action = action};
}

/// A stalled run of `blocker` on so many threads, and what `wait_blocking` says of it.
error blocked_run(std::size_t workers) {
  std::promise<void> let_go;
  world env({.log = [](log_level, std::string_view, std::string_view) {}});
  graph system(env, {.workers = workers});
  const auto held = system.add<blocker>("held", let_go.get_future().share());
  system.watch({.interval = 20ms, .stall_timeout = 100ms});
  REQUIRE(system.start());
  held.tell(pack(StopGroupT()));
  const auto ended = system.wait_blocking(30s);
  let_go.set_value();
  REQUIRE(!ended);
  CHECK(system.stop());
  return ended.error();
}

} // namespace

TEST_SUITE("runtime/watchdog") {
  TEST_CASE("a handler that never answers is attributed within two intervals") {
    simulation around({.log = [](log_level, std::string_view, std::string_view) {}});
    graph system(around.env());
    const auto asked = system.add<keeper>("keeper");
    system.add<patient>("patient", asked);
    system.watch(every_second(stall_action::abort));
    REQUIRE(system.start());
    const auto ended = system.wait_blocking();
    REQUIRE(!ended);
    CHECK(around.elapsed() >= 1min + 10s);
    CHECK(around.elapsed() <= 1min + 10s + 2 * 1s);
    CHECK(ended.error().code == errc::timed_out);
    CHECK(ended.error().origin == "keeper");
    const std::string& text = ended.error().text;
    CHECK(text.find("stalled\n  patient waits for keeper to answer StartGroup, 10") == 0);
    CHECK(text.find("\nkeeper\n  keeper::on_start (actors_under_test.hpp:") != std::string::npos);
    CHECK(text.find(") waits for a signal\n") != std::string::npos);
    CHECK(system.stop());
  }

  TEST_CASE("a run without a stall is left alone") {
    simulation around({});
    graph system(around.env());
    const auto asked = system.add<keeper>("keeper");
    system.watch(every_second(stall_action::abort));
    REQUIRE(system.start());
    const auto ended = system.wait_blocking(1h);
    REQUIRE(!ended);
    CHECK(ended.error().text == "the run did not end within 3600 s");
    CHECK(system.ask_blocking(asked, probe(), within(1s)));
    CHECK(system.stop());
  }

  TEST_CASE("warn: the attribution is logged each round, and the run goes on") {
    std::vector<std::string> logged;
    const auto keep = [&logged](log_level, std::string_view actor, std::string_view text) {
      if (actor == "watchdog") logged.emplace_back(text);
    };
    simulation around({.log = keep});
    graph system(around.env());
    const auto asked = system.add<keeper>("keeper");
    system.add<patient>("patient", asked);
    system.watch(every_second(stall_action::warn));
    REQUIRE(system.start());
    CHECK(!system.wait_blocking(1min + 20s));
    CHECK(logged.size() >= 8);
    CHECK(logged.size() <= 11);
    CHECK(logged.at(0).find("patient waits for keeper") != std::string::npos);
    CHECK(system.stop());
  }

  TEST_CASE("a lease that is held for nothing is attributed to its holder") {
    simulation around({.log = [](log_level, std::string_view, std::string_view) {}});
    graph system(around.env());
    system.add<hoarder>("hoarder");
    system.watch(every_second(stall_action::abort));
    REQUIRE(system.start());
    const auto ended = system.wait_blocking();
    REQUIRE(!ended);
    CHECK(ended.error().origin == "hoarder");
    CHECK(ended.error().text.find("hoarder holds the lease of transaction 1 and has no request "
                                  "under way, 10") != std::string::npos);
    CHECK(ended.error().text.find("hoarder::run (watchdog_test.cpp:") != std::string::npos);
    CHECK(system.stop());
  }

  TEST_CASE("an actor that holds its thread is named with the coroutine that it is in") {
    const error stall = blocked_run(2);
    CHECK(stall.origin == "held");
    CHECK(stall.text.find("held has taken no message for ") != std::string::npos);
    CHECK(stall.text.find("held is in blocker::on_stop (watchdog_test.cpp:") != std::string::npos);
  }

  TEST_CASE("where every thread is held, whoever waits for the run says so") {
    const error stall = blocked_run(1);
    CHECK(stall.text.find("every thread of the scheduler is held") != std::string::npos);
    CHECK(stall.text.find("held is in blocker::on_stop (watchdog_test.cpp:") != std::string::npos);
  }
}

} // namespace weir::test
