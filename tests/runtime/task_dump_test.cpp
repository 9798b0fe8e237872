#include "actors/runtime/detail/task_dump.hpp"
#include "actors/runtime/simulation.hpp"
#include "actors/runtime/stream.hpp"
#include "tests/runtime/actors_under_test.hpp"
#include "tests/runtime/queue_under_test.hpp"
#include "tests/support/death.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

task<void> rest_for(queue_under_test* test, std::chrono::nanoseconds duration) {
  co_await weir::detail::sleep_awaiter(duration);
  test->name = "woken";
}

task<void> impatient(queue_under_test* test) {
  std::ignore = co_await with_deadline(rest_for(test, 1h), within(30s));
}

task<void> five_seconds(const clock* time) {
  co_await time->after(5s);
}

task<void> read_of(channel<int>* from) {
  std::ignore = co_await from->next();
}

/// Waits in every way that an actor can; breaks an invariant when it is told to stop.
class waiter : public actor {
public:
  using protocol = weir::protocol<note<StopGroup>>;
  static constexpr bool is_origin = true;

  waiter(context ctx, handle<keeper_protocol> asked) : actor(std::move(ctx)), asked_(asked) {
    serve(&waiter::on_stop);
  }

private:
  task<void> run() override {
    mutations().close(epoch_id{1, 1, 1}, 1h);
    children().spawn(&waiter::enter, this);
    children().spawn(&waiter::read, this);
    auto never = co_await asked_.ask(pack(StartGroupT()), within(1h));
    ensure(!never, "an ask that nobody answers fails");
  }
  task<void> enter() { auto lease = co_await mutations().enter(); }
  task<void> read() {
    auto tokens = open_stream<TokenBatch>(*this, 4);
    std::ignore = co_await tokens.next(within(1h));
  }
  task<void> on_stop(message<StopGroup>) {
    co_await yield();
    ensure(false, "nobody stops a waiter");
  }
  handle<keeper_protocol> asked_;
};

void contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

void break_an_invariant() {
  simulation around({});
  graph system(around.env());
  const auto asked = system.add<keeper>("keeper");
  const auto waits = system.add<waiter>("waiter", asked);
  if (system.start()) waits.tell(pack(StopGroupT()));
  std::ignore = system.wait_blocking(1min);
}

} // namespace

TEST_SUITE("runtime/task_dump") {
  TEST_CASE("names of functions are short, whoever wrote them") {
    using weir::detail::short_function;
    CHECK(short_function("weir::task<tl::expected<std::vector<T>, weir::error> > weir::app::"
                         "{anonymous}::holder<T>::get(std::map<int, T>, void (*)(int)) "
                         "[with T = std::pair<int, double>]") == "holder::get");
    CHECK(short_function("task<result<std::vector<T>>> weir::app::(anonymous namespace)::holder<"
                         "std::pair<int, double>>::get(std::map<int, T>, void (*)(int)) "
                         "[T = std::pair<int, double>]") == "holder::get");
    CHECK(short_function("task<void> weir::app::(anonymous namespace)::free_one(int)") ==
          "app::free_one");
    CHECK(short_function("weir::app::go()::<lambda(int)>") == "a lambda in app::go");
    CHECK(short_function("auto weir::app::go()::(anonymous class)::operator()(int) const") ==
          "a lambda in app::go");
    CHECK(short_function("main") == "main");
    CHECK(short_function("").empty());
  }

  TEST_CASE("ages have the unit that a reader wants") {
    CHECK(weir::detail::age_text(0ns) == "0 ms");
    CHECK(weir::detail::age_text(999ms) == "999 ms");
    CHECK(weir::detail::age_text(2540ms) == "2.5 s");
    CHECK(weir::detail::age_text(612s + 900ms) == "612 s");
  }

  TEST_CASE("timers and channels say what they are") {
    queue_under_test test;
    channel<int> values(1);
    test.root.spawn(&impatient, &test);
    test.root.spawn(&read_of, &values);
    test.settle();
    test.now += 10s;
    const std::string text = test.queue.dump_tasks();
    contains(text, "test::impatient (task_dump_test.cpp:");
    contains(text, ") waits for its callee, for at most 20 s\n    test::rest_for");
    contains(text, ") waits for a time in 3590 s\n");
    contains(text, ") waits for the next value of a channel\n");
    CHECK(text.find("run_child") == std::string::npos);
    test.root.cancel();
  }

  TEST_CASE("asks, gates and streams name whom they wait for") {
    simulation around({});
    graph system(around.env());
    const auto asked = system.add<keeper>("keeper");
    system.add<waiter>("waiter", asked);
    REQUIRE(system.start());
    REQUIRE(system.run_blocking(&five_seconds, &around.env().clock()));
    const std::string text = system.dump_tasks("waiter");
    contains(text, "waiter\n  waiter::run (task_dump_test.cpp:");
    contains(text, ") waits for keeper to answer StartGroup, 5.0 s so far\n");
    contains(text, ") waits for the mutation gate of waiter, closed for epoch 1.1.1\n");
    contains(text, ") waits for the next item of a stream from a producer to come, 5.0 s so far\n");
    contains(system.dump_tasks("keeper"), "  keeper::on_start (actors_under_test.hpp:");
    CHECK(system.stop());
  }

  TEST_CASE("a broken invariant prints the tree of the actor on whose turn it broke") {
    const std::string text = death_of(&break_an_invariant);
    contains(text, "weir: broken invariant: nobody stops a waiter\n");
    contains(text, "the coroutines of waiter\n");
    contains(text, "  waiter::on_stop (task_dump_test.cpp:");
    contains(text, ") runs\n");
    contains(text, ") waits for keeper to answer StartGroup, ");
  }
}

} // namespace weir::test
