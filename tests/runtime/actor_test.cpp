#include "actors/runtime/actor.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/completion.hpp"
#include "actors/runtime/offload.hpp"
#include "actors/runtime/simulation.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <future>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// Keeps the log of a world, so that nothing is printed and tests can look.
class captured_log {
public:
  [[nodiscard]] log_hook hook() {
    return [this](log_level, std::string_view actor, std::string_view text) {
      const std::lock_guard guard(mutex_);
      lines_.push_back(std::string(actor) + ": " + std::string(text));
    };
  }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard guard(mutex_);
    return lines_;
  }

private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::string slow_sum(int from, int to) {
  int sum = 0;
  for (int i = from; i < to; ++i)
    sum += i;
  return std::to_string(sum);
}

using worker_protocol = protocol<call<Probe, ProbeAnswered>, note<StopGroup>>;

/// Answers a probe with what came from outside of the actor.
class worker : public actor {
public:
  using protocol = worker_protocol;
  enum class mode { offload, background, completion, dropped, throwing, failing };

  worker(context ctx, mode how) : actor(std::move(ctx)), how_(how) {
    serve(&worker::on_probe);
    serve(&worker::on_stop);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    ProbeAnsweredT reply;
    if (how_ == mode::offload) {
      const auto work = [] { return slow_sum(0, 10); };
      reply.busy_with = co_await offload(work);
      co_return pack(reply);
    }
    if (how_ == mode::background) {
      auto both = co_await when_all(long_write(), short_score());
      const auto& [written, scored] = both;
      reply.busy_with = std::string(written ? "written" : "held up") + scored;
      co_return pack(reply);
    }
    if (how_ == mode::throwing) {
      const auto work = [] { return std::string().at(1); };
      const char never = co_await offload(work);
      reply.busy_with = std::string(1, never);
      co_return pack(reply);
    }
    auto value = co_await from_outside();
    if (!value) co_return failure(std::move(value.error()));
    reply.busy_with = *value;
    co_return pack(reply);
  }
  /// Ends once the score is there.
  task<bool> long_write() {
    const auto work = [came = scored_.get_future().share()] {
      return came.wait_for(5s) == std::future_status::ready;
    };
    const bool written = co_await offload_in_background(work);
    co_return written;
  }
  task<std::string> short_score() {
    const auto work = [this] { scored_.set_value(); };
    co_await offload(work);
    co_return std::string(", scored");
  }
  task<result<std::string>> from_outside() {
    auto done = make_completion<std::string>();
    hand_out(done.setter());
    auto value = co_await done.wait();
    co_return value;
  }
  void hand_out(completion_setter<std::string> setter) {
    const bool dropped = how_ == mode::dropped;
    const bool submitted = env().pool().submit([setter, dropped] {
      if (!dropped) setter.set("first");
      if (!dropped) setter.set("second");
    });
    ensure(submitted, "the pool takes a job");
  }
  task<void> on_stop(message<StopGroup>) {
    fail(error{errc::corrupt, "index broken"});
    co_return;
  }
  mode how_;
  std::promise<void> scored_;
};

/// Begins a transaction while a barrier holds its gate.
class late_mover : public actor {
public:
  using protocol = weir::protocol<note<StopGroup>>;
  static constexpr bool is_origin = true;

  struct progress {
    bool begun = false;
    bool moved = false;
  };

  late_mover(context ctx, progress& seen) : actor(std::move(ctx)), seen_(seen) {
    serve(&late_mover::on_stop);
  }

private:
  task<void> on_stop(message<StopGroup>) {
    mutations().close({1, 1, 1}, 12s);
    seen_.begun = true;
    co_await shielded(move());
  }
  task<void> move() {
    auto lease = co_await mutations().enter();
    seen_.moved = true;
  }
  progress& seen_;
};

result<std::string> probe_worker(worker::mode how) {
  captured_log log;
  world env({.blocking = {.threads = 1}, .background = {.threads = 1}, .log = log.hook()});
  graph system(env);
  const auto handle = system.add<worker>("worker", how);
  REQUIRE(system.start());
  auto answered = system.ask_blocking(handle, probe(), within(5s));
  CHECK(system.stop());
  if (!answered) return failure(std::move(answered.error()));
  return (*answered)->busy_with()->str();
}

} // namespace

TEST_SUITE("runtime/actor") {
  TEST_CASE("offload runs on the pool and comes back with the value") {
    CHECK(probe_worker(worker::mode::offload).value() == "45");
  }

  TEST_CASE("a bundle that is written keeps no score waiting") {
    CHECK(probe_worker(worker::mode::background).value() == "written, scored");
  }

  TEST_CASE("a completion takes the first value that a foreign thread sets") {
    CHECK(probe_worker(worker::mode::completion).value() == "first");
  }

  TEST_CASE("a completion whose setters are gone without a value is an error") {
    const auto value = probe_worker(worker::mode::dropped);
    REQUIRE(!value);
    CHECK(value.error().code == errc::unavailable);
  }

  TEST_CASE("work that throws fails its actor, and who asked is told") {
    const auto value = probe_worker(worker::mode::throwing);
    REQUIRE(!value);
    CHECK(value.error().code == errc::unavailable);
    CHECK(value.error().text.find("worker failed before it answered: ") == 0);
    CHECK(value.error().origin == "worker");
  }

  TEST_CASE("the first failure of an actor ends the run, with its name") {
    captured_log log;
    world env({.log = log.hook()});
    graph system(env);
    const auto handle = system.add<worker>("worker", worker::mode::failing);
    REQUIRE(system.start());
    handle.tell(pack(StopGroupT()));
    const auto ended = system.wait_blocking(5s);
    REQUIRE(!ended);
    CHECK(to_string(ended.error()) == "corrupt: index broken (asked of worker)");
    const auto answered = system.ask_blocking(handle, probe(), within(5s));
    REQUIRE(!answered);
    CHECK(answered.error().code == errc::unavailable);
    CHECK(answered.error().origin == "worker");
    CHECK(answered.error().subject == "Probe");
    CHECK(log.lines() ==
          std::vector<std::string>{"worker: corrupt: index broken (asked of worker)"});
  }

  TEST_CASE("an origin that stops within a barrier lets its transactions in, and ends") {
    simulation around({});
    graph system(around.env());
    late_mover::progress seen;
    const auto handle = system.add<late_mover>("mover", seen);
    REQUIRE(system.start());
    handle.tell(pack(StopGroupT()));
    while (!seen.begun && around.step()) {
    }
    CHECK(seen.begun);
    CHECK(!seen.moved);
    CHECK(system.stop());
    CHECK(seen.moved);
    CHECK(around.elapsed() < 5s);
  }

  TEST_CASE("an unwired handle is found before anything starts") {
    world env;
    graph system(env);
    class needy : public actor {
    public:
      using protocol = weir::protocol<>;
      needy(context ctx, int, handle<worker_protocol>) : actor(std::move(ctx)) {}
    };
    std::ignore = system.add<needy>("needy", 1, handle<worker_protocol>());
    const auto started = system.start();
    REQUIRE(!started);
    CHECK(started.error().code == errc::invalid_argument);
    CHECK(started.error().text.find("actor needy: argument 2") == 0);
  }

  TEST_CASE("a graph is drawn with its roles and handles") {
    world env;
    graph system(env);
    const auto owner_handle = system.add<keeper>("keeper");
    class user : public actor {
    public:
      using protocol = weir::protocol<>;
      user(context ctx, handle<keeper_protocol>) : actor(std::move(ctx)) {}
    };
    std::ignore = system.add<user>("user", origin, owner_handle);
    const std::string dot = system.describe();
    CHECK(dot.find("\"keeper\" [label=\"keeper\\nowner\", shape=cylinder];") != std::string::npos);
    CHECK(dot.find("\"user\" [label=\"user\\norigin\", ") != std::string::npos);
    CHECK(dot.find("\"user\" -> \"keeper\";") != std::string::npos);
    CHECK(system.origins() == std::vector<std::string>{"user"});
    CHECK(system.owners() == std::vector<std::string>{"keeper"});
  }
}

} // namespace weir::test
