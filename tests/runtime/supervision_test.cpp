/// Actors that are restarted in place, on threads and in a simulation. What fails is told to: the
/// tests wait by asking until the next life answers.
#include "actors/runtime/simulation.hpp"
#include "tests/runtime/actors_under_test.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// Constructions of the actors of one test; shared by all their lives.
using life_count = std::shared_ptr<std::atomic<int>>;

/// Says in which life it is; fails when it is told to stop.
class fragile : public actor {
public:
  using protocol =
      weir::protocol<call<Probe, ProbeAnswered>, call<StartGroup, GroupStarted>, note<StopGroup>>;
  enum class way { fails, throws, throws_early };

  fragile(context ctx, life_count lives, way how = way::fails)
      : actor(std::move(ctx)), life_(++*lives), how_(how) {
    serve(&fragile::on_probe);
    serve(&fragile::on_start);
    serve(&fragile::on_stop);
    if (how_ == way::throws_early && life_ > 1) parse();
  }

private:
  static void parse() { static_cast<void>(std::string().at(3)); }
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    ++probes_;
    ProbeAnsweredT reply;
    reply.busy_with = "life " + std::to_string(life_) + ", probe " + std::to_string(probes_);
    co_return pack(reply);
  }
  task<result<message<GroupStarted>>> on_start(message<StartGroup>) {
    co_await never_.raised();
    co_return pack(GroupStartedT());
  }
  task<void> on_stop(message<StopGroup>) {
    if (how_ == way::throws)
      co_await deeper();
    else
      fail(error{errc::corrupt, "index broken"});
  }
  task<void> deeper() {
    parse();
    co_return;
  }

  const int life_;
  const way how_;
  int probes_ = 0;
  signal never_;
};

using fragile_handle = handle<fragile::protocol>;

/// Answers the start of a group when it is told to stop one.
class slow : public actor {
public:
  using protocol = fragile::protocol;
  explicit slow(context ctx) : actor(std::move(ctx)) {
    serve(&slow::on_probe);
    serve(&slow::on_start);
    serve(&slow::on_stop);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    co_return pack(ProbeAnsweredT());
  }
  task<result<message<GroupStarted>>> on_start(message<StartGroup>) {
    co_await stopped_.raised();
    co_return pack(GroupStartedT());
  }
  task<void> on_stop(message<StopGroup>) {
    stopped_.raise();
    co_return;
  }
  signal stopped_;
};

/// Fails with a question open; its second life is sent the answer, beside the one to its own.
class forgetful : public actor {
public:
  using protocol = weir::protocol<>;
  forgetful(context ctx, fragile_handle asked, life_count lives)
      : actor(std::move(ctx)), asked_(std::move(asked)), life_(++*lives) {}

private:
  task<void> run() override {
    if (life_ == 1) {
      children().spawn(&forgetful::ask, this);
      co_await yield();
      fail(error{errc::corrupt, "forgot"});
      co_return;
    }
    asked_.tell(pack(StopGroupT()));
    auto answered = co_await asked_.ask(probe(), within(5s));
    if (answered)
      finish_run();
    else
      fail(answered.error());
  }
  task<void> ask() { std::ignore = co_await asked_.ask(pack(StartGroupT()), within(1h)); }

  fragile_handle asked_;
  const int life_;
};

/// The answer of the first life that answers.
task<result<std::string>> answer_of(fragile_handle asked, const clock* time) {
  result<message<ProbeAnswered>> answered = failure(errc::unavailable, "not asked");
  for (int tries = 0; tries < 5000 && !answered; ++tries) {
    answered = co_await asked.ask(probe(), within(5s));
    if (!answered) co_await time->after(1ms);
  }
  if (!answered) co_return failure(answered.error());
  co_return (*answered)->busy_with()->str();
}

/// What a request is told that is under way when its actor fails.
task<result<void>> start_then_stop(fragile_handle asked) {
  scope children;
  const auto stop = [](fragile_handle stopped) -> task<void> {
    co_await yield();
    stopped.tell(pack(StopGroupT()));
  };
  children.spawn(stop, asked);
  auto started = co_await asked.ask(pack(StartGroupT()), within(5s));
  if (!started) co_return failure(started.error());
  co_return result<void>();
}

supervision_options at_once(restart how = restart::one_for_one) {
  supervision_options options;
  options.how = how;
  options.backoff = 0ns;
  return options;
}

world_options quiet() {
  return {.log = [](log_level, std::string_view, std::string_view) {}};
}

life_count counted() {
  return std::make_shared<std::atomic<int>>(0);
}

} // namespace

TEST_SUITE("runtime/supervision") {
  TEST_CASE("an actor that fails lives again, fresh, behind the same handle") {
    world env(quiet());
    graph system(env);
    const auto group = system.supervise("workers", at_once());
    const auto worker = system.add<fragile>(group, "worker", counted());
    REQUIRE(system.start());
    CHECK(system.run_blocking(&answer_of, worker, &env.clock()).value() == "life 1, probe 1");
    CHECK(system.run_blocking(&answer_of, worker, &env.clock()).value() == "life 1, probe 2");
    worker.tell(pack(StopGroupT()));
    CHECK(system.run_blocking(&answer_of, worker, &env.clock()).value() == "life 2, probe 1");
    const auto counters = system.counters();
    CHECK(counters.pending_asks == 0);
    CHECK(counters.late_answers == 0);
    CHECK(system.stop());
  }

  TEST_CASE("a request that was under way is told who failed, and of what") {
    world env(quiet());
    graph system(env);
    const auto group = system.supervise("workers", at_once());
    const auto worker = system.add<fragile>(group, "worker", counted());
    REQUIRE(system.start());
    const auto started = system.run_blocking(&start_then_stop, worker);
    REQUIRE(!started);
    CHECK(to_string(started.error()) == "unavailable: worker failed before it answered: index "
                                        "broken (asked of worker: StartGroup)");
    CHECK(system.stop());
  }

  TEST_CASE("during the backoff requests are refused at once, and a stop ends the wait") {
    world env(quiet());
    graph system(env);
    const auto group = system.supervise("workers", {.backoff = 1h, .backoff_max = 1h});
    const auto worker = system.add<fragile>(group, "worker", counted());
    REQUIRE(system.start());
    CHECK(!system.run_blocking(&start_then_stop, worker));
    const auto refused = system.ask_blocking(worker, probe(), within(1min));
    REQUIRE(!refused);
    CHECK(to_string(refused.error()) == "unavailable: worker is being restarted: index broken "
                                        "(asked of worker: Probe)");
    CHECK(system.dump_tasks("worker") == "  worker is being restarted\n");
    CHECK(system.stop());
  }

  TEST_CASE("strategies: who lives again when the second of three fails") {
    const auto lives_after = [](restart how) {
      world env(quiet());
      graph system(env);
      const auto group = system.supervise("workers", at_once(how));
      std::vector<fragile_handle> workers;
      for (const char* name : {"a", "b", "c"})
        workers.push_back(system.add<fragile>(group, name, counted()));
      REQUIRE(system.start());
      CHECK(system.run_blocking(&answer_of, workers[1], &env.clock()));
      CHECK(!system.run_blocking(&start_then_stop, workers[1]));
      std::string lives;
      // Once it lives again, all that were told to leave have left.
      CHECK(system.run_blocking(&answer_of, workers[1], &env.clock()));
      for (const auto& worker : workers)
        lives += system.run_blocking(&answer_of, worker, &env.clock()).value().substr(5, 1);
      return lives;
    };
    CHECK(lives_after(restart::one_for_one) == "121");
    CHECK(lives_after(restart::one_for_all) == "222");
    CHECK(lives_after(restart::rest_for_one) == "122");
  }

  TEST_CASE("a group without patience left ends the run, with actor and history") {
    world env(quiet());
    graph system(env);
    supervision_options options = at_once();
    options.restarts_max = 2;
    const auto group = system.supervise("workers", options);
    const auto worker = system.add<fragile>(group, "worker", counted());
    REQUIRE(system.start());
    for (int failures = 0; failures < 3; ++failures) {
      CHECK(system.run_blocking(&answer_of, worker, &env.clock()));
      worker.tell(pack(StopGroupT()));
    }
    const auto ended = system.wait_blocking(5s);
    REQUIRE(!ended);
    CHECK(to_string(ended.error()) ==
          "corrupt: worker failed after 2 restarts within 10 s, all that group workers allows: "
          "index broken (asked of worker)");
    CHECK(system.stop());
  }

  TEST_CASE("a group inside of another one is restarted whole when it gives up") {
    world env(quiet());
    graph system(env);
    const auto outer = system.supervise("outer", at_once());
    supervision_options none = at_once();
    none.restarts_max = 0;
    const auto inner = system.supervise(outer, "inner", none);
    const auto failing = system.add<fragile>(inner, "failing", counted());
    const auto sibling = system.add<fragile>(inner, "sibling", counted());
    REQUIRE(system.start());
    CHECK(system.run_blocking(&answer_of, sibling, &env.clock()).value() == "life 1, probe 1");
    CHECK(!system.run_blocking(&start_then_stop, failing));
    CHECK(system.run_blocking(&answer_of, failing, &env.clock()).value() == "life 2, probe 1");
    CHECK(system.run_blocking(&answer_of, sibling, &env.clock()).value() == "life 2, probe 1");
    CHECK(system.stop());
  }

  TEST_CASE("a constructor that throws is one more failure") {
    world env(quiet());
    graph system(env);
    const auto group = system.supervise("workers", at_once());
    const auto worker = system.add<fragile>(group, "worker", counted(), fragile::way::throws_early);
    REQUIRE(system.start());
    worker.tell(pack(StopGroupT()));
    const auto ended = system.wait_blocking(5s);
    REQUIRE(!ended);
    CHECK(ended.error().text.find("worker failed after 3 restarts") == 0);
    CHECK(ended.error().text.find("thrown by its constructor") != std::string::npos);
    CHECK(system.stop());
  }

  TEST_CASE("an actor that throws is named with its message and its stack") {
    world env(quiet());
    graph system(env);
    const auto worker = system.add<fragile>("worker", counted(), fragile::way::throws);
    REQUIRE(system.start());
    worker.tell(pack(StopGroupT()));
    const auto ended = system.wait_blocking(5s);
    REQUIRE(!ended);
    CHECK(ended.error().origin == "worker");
    const std::string& text = ended.error().text;
    CHECK(text.find("basic_string::at") == 0);
    const auto thrown = text.find("; thrown in fragile::deeper (supervision_test.cpp:");
    const auto awaited = text.find(", called by fragile::on_stop (supervision_test.cpp:");
    CHECK(thrown != std::string::npos);
    CHECK(awaited != std::string::npos);
    CHECK(thrown < awaited);
  }

  TEST_CASE("an answer to an earlier life is not taken for one to the next") {
    simulation around({.log = [](log_level, std::string_view, std::string_view) {}});
    graph system(around.env());
    const auto asked = system.add<slow>("slow");
    const auto group = system.supervise("workers", at_once());
    system.add<forgetful>(group, "forgetful", asked, counted());
    REQUIRE(system.start());
    CHECK(system.wait_blocking(1min));
    CHECK(system.counters().late_answers == 1);
    CHECK(system.stop());
  }

  TEST_CASE("the backoff is a time of the world, and a seed repeats the restart") {
    const auto trace_of = [](std::uint64_t seed) {
      simulation around(
          {.seed = seed, .log = [](log_level, std::string_view, std::string_view) {}});
      graph system(around.env());
      const auto group = system.supervise("workers", {.backoff = 1s, .backoff_max = 1s});
      const auto worker = system.add<fragile>(group, "worker", counted());
      REQUIRE(system.start());
      CHECK(!system.run_blocking(&start_then_stop, worker));
      const auto answer = system.run_blocking(&answer_of, worker, &around.env().clock());
      CHECK(answer.value() == "life 2, probe 1");
      CHECK(around.elapsed() >= 1s);
      CHECK(around.elapsed() < 1100ms);
      CHECK(system.stop());
      return around.trace_hash();
    };
    CHECK(trace_of(7) == trace_of(7));
  }

  TEST_CASE("a graph shows who restarts whom") {
    world env(quiet());
    graph system(env);
    const auto group = system.supervise("workers");
    std::ignore = system.add<fragile>(group, "worker", counted());
    CHECK(system.describe().find("\"workers\" -> \"worker\" [style=dotted") != std::string::npos);
  }
}

} // namespace weir::test
