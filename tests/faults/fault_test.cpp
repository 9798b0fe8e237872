#include "actors/fault/fault.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// A keeper behind a fault actor.
struct flaky_keeper {
  explicit flaky_keeper(const fault_plan& plan) : env({.log = quiet}), system(env) {
    direct = system.add<keeper>("keeper");
    flaky = system.add<fault<keeper_protocol>>("flaky", direct, plan);
    REQUIRE(system.start());
  }
  static void quiet(log_level, std::string_view, std::string_view) {}

  [[nodiscard]] result<std::string> probe_within(std::chrono::nanoseconds limit) {
    const auto answer = system.ask_blocking(flaky, probe(), within(limit));
    if (!answer) return failure(answer.error());
    return (*answer)->busy_with()->str();
  }
  /// What arrived at the keeper, asked directly.
  [[nodiscard]] std::string seen() {
    const auto answer = system.ask_blocking(direct, probe(), within(5s));
    REQUIRE(answer);
    return (*answer)->busy_with()->str();
  }

  world env;
  graph system;
  handle<keeper_protocol> direct;
  handle<keeper_protocol> flaky;
};

task<result<std::string>> tell_then_probe(handle<keeper_protocol> asked) {
  asked.tell(pack(StopGroupT()));
  auto answer = co_await asked.ask(probe(), within(5s));
  if (!answer) co_return failure(std::move(answer.error()));
  co_return (*answer)->busy_with()->str();
}

} // namespace

TEST_SUITE("faults/actor") {
  TEST_CASE("without a fault nothing changes, and a refusal keeps the name of its actor") {
    flaky_keeper test{fault_plan()};
    CHECK(test.probe_within(5s).value() == "0 applied, 0 notes");
    CHECK(test.system.run_blocking(&tell_then_probe, test.flaky).value() == "0 applied, 1 notes");
    using wrong = protocol<call<PeekBatch, BatchPeeked>>;
    const auto refused =
        test.system.ask_blocking(test.system.find<wrong>("flaky"), pack(PeekBatchT()), within(5s));
    REQUIRE(!refused);
    CHECK(to_string(refused.error()) ==
          "unsupported: keeper does not answer this (asked of keeper: PeekBatch)");
    CHECK(test.system.counters().pending_asks == 0);
  }

  TEST_CASE("a dropped request is answered by nobody: the deadline names the fault actor") {
    flaky_keeper test{fault_plan{on<Probe>().drop().nth(1)}};
    const auto lost = test.probe_within(10ms);
    REQUIRE(!lost);
    CHECK(lost.error().text == "flaky did not answer Probe within 10 ms");
    CHECK(test.probe_within(5s));
    CHECK(test.system.counters().live_coroutines == 0);
  }

  TEST_CASE("a dropped answer is lost after the request was served") {
    flaky_keeper test{fault_plan{on<ProbeAnswered>().drop()}};
    const auto lost = test.probe_within(10ms);
    REQUIRE(!lost);
    CHECK(lost.error().code == errc::timed_out);
    CHECK(test.system.counters().pending_asks == 0);
  }

  TEST_CASE("requests and answers are delayed") {
    flaky_keeper test{fault_plan{on<Probe>().delay(10ms), on<ProbeAnswered>().delay(10ms)}};
    const auto before = test.env.clock().now();
    CHECK(test.probe_within(5s));
    CHECK(std::chrono::nanoseconds(test.env.clock().now() - before) >= 20ms);
    // Longer than the asker waits: nobody asks for it any more, and nothing is left behind.
    const auto late = test.probe_within(12ms);
    REQUIRE(!late);
    CHECK(late.error().text == "flaky did not answer Probe within 12 ms");
  }

  TEST_CASE("a duplicate arrives in a row with the original, and one answer counts") {
    flaky_keeper test{fault_plan{on<StopGroup>().duplicate(2), on<ProbeAnswered>().duplicate()}};
    CHECK(test.system.run_blocking(&tell_then_probe, test.flaky).value() == "0 applied, 3 notes");
    CHECK(test.seen() == "0 applied, 3 notes");
    CHECK(test.system.counters().pending_asks == 0);
  }

  TEST_CASE("a message that is reordered arrives after the one that overtook it") {
    flaky_keeper test{fault_plan{on<StopGroup>().reorder(1, 5s)}};
    CHECK(test.system.run_blocking(&tell_then_probe, test.flaky).value() == "0 applied, 0 notes");
    CHECK(test.seen() == "0 applied, 1 notes");
  }

  TEST_CASE("a message that nobody overtakes is let go") {
    flaky_keeper test{fault_plan{on<Probe>().reorder(3, 5ms)}};
    CHECK(test.probe_within(5s).value() == "0 applied, 0 notes");
  }

  TEST_CASE("a corrupted request never arrives, and the error names it") {
    flaky_keeper test{fault_plan{on<Probe>().corrupt()}};
    const auto damaged = test.probe_within(5s);
    REQUIRE(!damaged);
    CHECK(damaged.error().code == errc::corrupt);
    CHECK(damaged.error().text.starts_with("flaky corrupted Probe: frame: "));
    CHECK(damaged.error().origin == "flaky");
  }

  TEST_CASE("a corrupted answer is an error to the one who asked") {
    flaky_keeper test{fault_plan{on<ProbeAnswered>().corrupt()}};
    const auto damaged = test.probe_within(5s);
    REQUIRE(!damaged);
    CHECK(damaged.error().text.starts_with("flaky corrupted ProbeAnswered: frame: "));
  }

  TEST_CASE("an error is injected with its code, and names the fault actor") {
    flaky_keeper test{fault_plan{on<Probe>().refuse(errc::exhausted, "no room left")}};
    const auto refused = test.probe_within(5s);
    REQUIRE(!refused);
    CHECK(to_string(refused.error()) ==
          "exhausted: flaky refused Probe: no room left (asked of flaky: Probe)");
  }

  TEST_CASE("the actor behind is killed as a failure of its own") {
    flaky_keeper test{fault_plan{on<Probe>().kill()}};
    const auto refused = test.probe_within(5s);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::unavailable);
    CHECK(refused.error().origin == "keeper");
    const auto ended = test.system.wait_blocking(5s);
    REQUIRE(!ended);
    CHECK(ended.error().text == "killed by flaky");
    CHECK(ended.error().origin == "keeper");
  }

  TEST_CASE("an answer is lost with the actor that gave it") {
    flaky_keeper test{fault_plan{any_reply().kill()}};
    const auto refused = test.probe_within(5s);
    REQUIRE(!refused);
    CHECK(refused.error().text == "flaky killed keeper after it had answered Probe");
  }

  TEST_CASE("the process is killed as a crash would") {
    const pid_t child = ::fork();
    if (child == 0) {
      flaky_keeper test{fault_plan{on<Probe>().kill_process()}};
      std::ignore = test.probe_within(5s);
      ::_exit(0);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
  }

  TEST_CASE("a fault actor in front of a fault actor, and of nobody") {
    flaky_keeper test{fault_plan()};
    world env;
    graph system(env);
    const auto inner = system.add<keeper>("keeper");
    const auto middle = system.add<fault<keeper_protocol>>("middle", inner, fault_plan());
    std::ignore = system.add<fault<keeper_protocol>>("outer", middle, fault_plan());
    REQUIRE(system.start());
    const auto outer = system.find<keeper_protocol>("outer");
    CHECK(system.ask_blocking(outer, probe(), within(5s)));
    graph unwired(env);
    std::ignore =
        unwired.add<fault<keeper_protocol>>("of nobody", handle<keeper_protocol>(), fault_plan());
    CHECK(!unwired.start());
  }
}

} // namespace weir::test
