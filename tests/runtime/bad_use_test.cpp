/// Wrong uses that compile: each gets an answer that names who did what, and what to do.
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"
#include "tests/runtime/queue_under_test.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using nobody_protocol = protocol<>;
using runner_protocol = protocol<note<StopGroup>>;

log_hook silent() {
  return [](log_level, std::string_view, std::string_view) {};
}

/// Looks up somebody in its constructor; is given somebody's handle.
class curious : public actor {
public:
  using protocol = nobody_protocol;
  curious(context ctx, const std::string& wanted) : actor(ctx) {
    std::ignore = ctx.find<nobody_protocol>(wanted);
  }
};
class given : public actor {
public:
  using protocol = nobody_protocol;
  given(context ctx, handle<nobody_protocol>) : actor(std::move(ctx)) {}
};

/// Its constructor throws, as one that parses a name would.
class throwing : public actor {
public:
  using protocol = nobody_protocol;
  explicit throwing(context ctx) : actor(std::move(ctx)) { static_cast<void>(name().at(1000)); }
};

/// Does one thing when it is told to.
class runner : public actor {
public:
  using protocol = runner_protocol;
  using body = std::function<task<void>(runner*)>;
  runner(context ctx, body what) : actor(std::move(ctx)), what_(std::move(what)) {
    serve(&runner::on_stop);
  }
  using actor::children;
  using actor::finish_run;

  signal never;

private:
  task<void> on_stop(message<StopGroup>) { co_await what_(this); }
  body what_;
};

task<void> explode() {
  static_cast<void>(std::string().at(7));
  co_return;
}
task<void> explode_below(runner*) {
  co_await explode();
}
task<void> explode_shielded(runner*) {
  co_await shielded(explode());
}
task<void> count(int* runs) {
  ++*runs;
  co_return;
}
task<void> explode_beside(runner* self, int* runs) {
  self->children().spawn(&count, runs);
  co_await explode();
}
task<void> wait_for_ever(runner* self) {
  co_await self->never.raised();
}
task<void> wait_shielded_while_stopping(runner* self) {
  self->children().spawn(&wait_for_ever, self);
  co_await yield();
  self->children().spawn(&wait_for_ever, self);
}
task<void> spawn_while_stopping(runner* self) {
  co_await shielded(wait_shielded_while_stopping(self));
}

message<TokenBatch> batch() {
  return pack(TokenBatchT());
}

/// One actor at both ends of a stream, and at a third one that nobody asked for.
task<void> connect_twice(runner* self, journal* log) {
  auto tokens = open_stream<TokenBatch>(*self, 2);
  auto first = connect<TokenBatch>(*self, tokens.id());
  {
    auto second = connect<TokenBatch>(*self, tokens.id());
    auto refused = co_await second.push(batch());
    log->push_back(refused ? "pushed" : to_string(refused.error()));
  }
  auto pushed = co_await first.push(batch());
  first.finish();
  auto item = co_await tokens.next(within(5s));
  log->push_back(pushed && item && *item ? "an item" : "nothing");
  auto end = co_await tokens.next(within(5s));
  log->push_back(end && !*end ? "the end" : "no end");
  self->finish_run();
}

task<void> wait_without_time(runner* self, journal* log) {
  auto tokens = open_stream<TokenBatch>(*self, 2);
  auto item = co_await tokens.next(within(-1s));
  log->push_back(item ? "an item" : to_string(item.error()));
  auto begun = co_await with_deadline(wait_for_ever(self), within(0s));
  log->push_back(begun ? "begun" : begun.error().text);
  self->finish_run();
}

/// Tells one runner to do it, and gives the first failure of the graph and how it stopped.
std::string failure_of(runner::body what) {
  world env({.log = silent()});
  graph system(env);
  const auto told = system.add<runner>("runner", std::move(what));
  REQUIRE(system.start());
  told.tell(pack(StopGroupT()));
  const auto ended = system.wait_blocking(5s);
  CHECK(system.stop());
  return ended ? "no failure" : to_string(ended.error());
}

std::string start_error(void (*add)(graph&)) {
  world env({.log = silent()});
  graph system(env);
  add(system);
  const auto started = system.start();
  return started ? "started" : to_string(started.error());
}

} // namespace

TEST_SUITE("runtime/bad_use") {
  TEST_CASE("two actors of one name do not start") {
    const auto add = [](graph& system) {
      std::ignore = system.add<keeper>("keeper");
      std::ignore = system.add<keeper>("keeper");
    };
    CHECK(start_error(add) == "already exists: two actors are called keeper: handles and logs tell "
                              "actors by name");
  }

  TEST_CASE("a constructor that throws is an error of start, with its actor and text") {
    const auto add = [](graph& system) { std::ignore = system.add<throwing>("weak"); };
    CHECK(start_error(add).find("internal error: actor weak: its constructor threw: ") == 0);
  }

  TEST_CASE("an actor that is looked up before it is added is named, with the one who looks") {
    const auto add = [](graph& system) {
      std::ignore = system.add<curious>("curious", "late");
      std::ignore = system.add<keeper>("late");
    };
    CHECK(start_error(add) == "invalid argument: actor curious looks up late in its constructor, "
                              "where it is not added yet; add late before curious");
  }

  TEST_CASE("a cycle in the order of start is shown") {
    const auto add = [](graph& system) {
      const auto first = system.add<curious>("first", "third");
      const auto second = system.add<given>("second", first);
      std::ignore = system.add<given>("third", second);
    };
    CHECK(start_error(add) ==
          "invalid argument: actor first looks up third in its constructor, but is needed by it: "
          "first -> third -> second -> first; one of them looks the other up in run()");
  }

  TEST_CASE("an actor that nobody is called is an error, not an empty handle") {
    const auto add = [](graph& system) { std::ignore = system.add<curious>("curious", "nobody"); };
    CHECK(start_error(add) == "not found: actor curious looks up nobody in its constructor, and no "
                              "actor of the graph is called so");
  }

  TEST_CASE("an actor that throws is told with its text, its name and its stack") {
    const std::string told = failure_of(&explode_below);
    CHECK(told.find("internal error: basic_string::at") == 0);
    CHECK(told.find("thrown in ") != std::string::npos);
    const auto thrower = told.find("test::explode (bad_use_test.cpp:");
    const auto caller = told.find("called by test::explode_below (");
    CHECK(thrower < caller);
    CHECK(caller != std::string::npos);
    CHECK(told.find("bad_use_test.cpp:") != std::string::npos);
    CHECK(told.find("(asked of runner)") != std::string::npos);
  }

  TEST_CASE("shielded work that throws ends its actor too") {
    CHECK(failure_of(&explode_shielded).find("internal error: basic_string::at") == 0);
  }

  TEST_CASE("once a coroutine has thrown, no other one of its actor runs") {
    int runs = 0;
    const auto body = [&runs](runner* self) { return explode_beside(self, &runs); };
    CHECK(failure_of(body).find("internal error: basic_string::at") == 0);
    CHECK(runs == 0);
  }

  TEST_CASE("a stream has one producer: a second one is refused, and ends nothing") {
    journal log;
    const auto body = [&log](runner* self) { return connect_twice(self, &log); };
    CHECK(failure_of(body) == "no failure");
    CHECK(log ==
          journal{"unavailable: runner does not read the stream any more, or never read this "
                  "one (asked of runner)",
                  "an item", "the end"});
  }

  TEST_CASE("a wait whose deadline has passed does not begin") {
    journal log;
    const auto body = [&log](runner* self) { return wait_without_time(self, &log); };
    CHECK(failure_of(body) == "no failure");
    CHECK(log == journal{"timed out: no item of the stream from a producer to come within -1 s",
                         "test::wait_for_ever did not begin: its deadline had passed already"});
  }

  TEST_CASE("what shielded work spawns in an actor that stops is cancelled with it") {
    world env({.log = silent()});
    graph system(env);
    const auto told = system.add<runner>("runner", &spawn_while_stopping);
    REQUIRE(system.start());
    told.tell(pack(StopGroupT()));
    CHECK(system.stop());
  }
}

} // namespace weir::test
