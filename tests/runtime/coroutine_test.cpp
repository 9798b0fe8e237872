#include "actors/runtime/channel.hpp"
#include "messages/block_pool.hpp"
#include "tests/runtime/queue_under_test.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<task<int>>);
static_assert(!std::is_move_constructible_v<task<int>>);
static_assert(!std::is_move_assignable_v<task<int>>);

task<int> number(int value) {
  co_return value;
}
task<std::unique_ptr<int>> owned(int value) {
  co_return std::make_unique<int>(value);
}

task<void> add_up(int count, long* sum) {
  for (int i = 0; i < count; ++i) {
    const int value = co_await number(i);
    *sum += value;
  }
}

task<void> park(signal* until, journal* log, std::string name) {
  const mark here(*log, name);
  co_await until->raised();
  log->push_back(name + " woke");
}

task<void> nested(signal* until, journal* log) {
  const mark here(*log, "parent");
  co_await park(until, log, "child");
  log->push_back("parent went on");
}

task<void> note(journal* log, std::string what) {
  log->push_back(std::move(what));
  co_return;
}

/// Counts constructions and destructions; what g++ 12 gets wrong is a second destruction.
struct counted {
  explicit counted(int* live) : live_(live) { ++*live_; }
  counted(const counted& other) : live_(other.live_) { ++*live_; }
  counted& operator=(const counted&) = delete;
  ~counted() { --*live_; }
  int* live_;
};
task<int> take(counted first, std::shared_ptr<int> second) {
  co_return *first.live_ + *second;
}
task<void> pass_temporaries(int* live, std::shared_ptr<int> shared, int* out) {
  *out = co_await take(counted(live), shared);
}

task<int> throw_late() {
  static_cast<void>(std::string().at(3));
  co_return 1;
}
/// Its first wait is over, and gone, when it makes the call.
task<void> sleep_then_call() {
  co_await detail::sleep_awaiter(5ns);
  std::ignore = co_await throw_late();
}

task<void> note_and_park(signal* until, journal* log) {
  log->push_back("parked");
  co_await until->raised();
}
task<void> spawn_and_park(signal* until, journal* log) {
  scope children;
  children.spawn(&note_and_park, until, log);
  co_await park(until, log, "called");
}
task<void> call_between_spawns(signal* until, journal* log) {
  scope children;
  children.spawn(&note_and_park, until, log);
  co_await spawn_and_park(until, log);
}

/// The functions of a dump, with their indentation.
journal functions_of(const std::string& dump) {
  journal names;
  std::size_t begin = dump.find('\n') + 1;
  for (std::size_t end = dump.find('\n', begin); end != std::string::npos;
       end = dump.find('\n', begin)) {
    const std::string line = dump.substr(begin, end - begin);
    names.push_back(line.substr(0, line.find(" (")));
    begin = end + 1;
  }
  return names;
}

} // namespace

// A spawned function keeps what it is given in its own frame, unless it takes a reference: then a
// frame around it does.
static_assert(detail::owns_arguments<task<void> (*)(int, std::shared_ptr<int>)>);
static_assert(detail::owns_arguments<task<void> (counted::*)(int)>);
static_assert(!detail::owns_arguments<task<void> (*)(int, const int&)>);

TEST_SUITE("runtime/task") {
  TEST_CASE("a task is lazy, and gives its value to the one who awaits it") {
    queue_under_test test;
    long sum = 0;
    test.root.spawn(&add_up, 10, &sum);
    CHECK(sum == 0);
    test.settle();
    CHECK(sum == 45);
    CHECK(test.queue.live() == 0);
    CHECK(test.queue.frames().live_frames() == 0);
  }

  TEST_CASE("a million awaits in a loop need no stack and, once warm, no heap") {
    queue_under_test test;
    long sum = 0;
    const std::uint64_t before = blocks_from_heap();
    test.root.spawn(&add_up, 1'000'000, &sum);
    test.settle();
    CHECK(sum == 499'999'500'000L);
    if (recycles_blocks()) CHECK(blocks_from_heap() - before <= 4);
  }

  TEST_CASE("temporaries in an await are destroyed once") {
    queue_under_test test;
    int live = 0;
    int out = 0;
    const auto shared = std::make_shared<int>(41);
    test.root.spawn(&pass_temporaries, &live, shared, &out);
    test.settle();
    CHECK(out == 43); // two alive inside: the temporary, and the parameter made from it
    CHECK(live == 0);
    CHECK(shared.use_count() == 1);
  }

  TEST_CASE("cancelling destroys the child before its parent, and resumes nobody") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&nested, &until, &log);
    test.settle();
    test.root.cancel();
    until.raise();
    test.settle();
    CHECK(log == journal{"~child", "~parent"});
    CHECK(test.queue.frames().live_frames() == 0);
  }

  TEST_CASE("a coroutine that is ready and dies leaves the queue") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&nested, &until, &log);
    test.settle();
    until.raise();
    CHECK(test.queue.ready());
    test.root.cancel();
    CHECK(!test.queue.ready());
    CHECK(log == journal{"~child", "~parent"});
  }

  TEST_CASE("an exception of a library is the failure of the actor and resumes nobody") {
    queue_under_test test;
    journal log;
    const auto thrower = []() -> task<void> {
      static_cast<void>(std::string().at(3));
      co_return;
    };
    test.root.spawn(thrower);
    test.settle();
    REQUIRE(test.failures.size() == 1);
    CHECK(test.failures[0].code == errc::internal);
    CHECK(test.failures[0].origin == "test");
    CHECK(test.failures[0].text.find("basic_string::at") != std::string::npos);
    test.root.cancel();
  }

  TEST_CASE("a caller whose callee has thrown still says what it waits for") {
    queue_under_test test;
    test.root.spawn(&sleep_then_call);
    test.settle();
    test.advance(5ns);
    REQUIRE(test.failures.size() == 1);
    CHECK(test.queue.live() == 1);
    const std::string text = test.queue.dump_tasks();
    CHECK(text.find("sleep_then_call") != std::string::npos);
    CHECK(text.find(" waits for its callee\n") != std::string::npos);
    test.root.cancel();
    CHECK(test.queue.live() == 0);
  }

  TEST_CASE("siblings stand in the order of their starts, called or spawned, below their parent") {
    queue_under_test test;
    signal until;
    journal log;
    test.root.spawn(&call_between_spawns, &until, &log);
    test.root.spawn(&park, &until, &log, std::string("last"));
    test.settle();
    CHECK(test.queue.live() == 6);
    CHECK(functions_of(test.queue.dump_tasks()) ==
          journal{"  test::call_between_spawns", "    test::note_and_park",
                  "    test::spawn_and_park", "      test::note_and_park", "      test::park",
                  "  test::park"});
    test.root.cancel();
    CHECK(test.queue.live() == 0);
  }

  TEST_CASE("the tree of suspended coroutines names places and what they wait for") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&nested, &until, &log);
    test.settle();
    const std::string text = test.queue.dump_tasks();
    const auto parent = text.find("nested");
    const auto child = text.find("park");
    CHECK(text.starts_with("test\n"));
    REQUIRE(parent != std::string::npos);
    REQUIRE(child != std::string::npos);
    CHECK(parent < child);
    CHECK(text.find("coroutine_test.cpp:") != std::string::npos);
    CHECK(text.find("waits for a signal\n") > child);
    test.root.cancel();
  }
}

TEST_SUITE("runtime/scope") {
  namespace {
  task<void> run_children(journal* log) {
    scope children;
    children.spawn(&note, log, std::string("first"));
    children.spawn(&note, log, std::string("second"));
    log->push_back("spawned");
    co_await children.joined();
    log->push_back("joined");
  }
  task<void> leave_children(signal* until, journal* log) {
    scope children;
    children.spawn(&park, until, log, std::string("a"));
    children.spawn(&park, until, log, std::string("b"));
    co_await yield();
    log->push_back("leaving");
  }
  task<void> hold(std::unique_ptr<int> argument, int* out, signal* until) {
    co_await until->raised();
    *out = *argument;
  }
  } // namespace

  TEST_CASE("children start in order after their parent suspends, and are joined") {
    queue_under_test test;
    journal log;
    test.root.spawn(&run_children, &log);
    test.settle();
    CHECK(log == journal{"spawned", "first", "second", "joined"});
  }

  TEST_CASE("a scope that ends takes its children with it, the youngest first") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&leave_children, &until, &log);
    test.settle();
    CHECK(log == journal{"leaving", "~b", "~a"});
    CHECK(test.root.size() == 0);
  }

  TEST_CASE("arguments are owned by the child") {
    queue_under_test test;
    signal until;
    int out = 0;
    test.root.spawn(&hold, std::make_unique<int>(7), &out, &until);
    test.settle();
    until.raise();
    test.settle();
    CHECK(out == 7);
  }
}

TEST_SUITE("runtime/combinators") {
  namespace {
  task<void> all(journal* log) {
    auto values = co_await when_all(number(1), owned(2), note(log, "three"));
    auto& [one, two, nothing] = values;
    static_assert(std::is_same_v<std::decay_t<decltype(nothing)>, std::monostate>);
    log->push_back(std::to_string(one + *two));
  }
  task<int> after(signal* until, journal* log, int value) {
    const mark here(*log, std::to_string(value));
    co_await until->raised();
    co_return value;
  }
  task<void> first(signal* one, signal* two, journal* log) {
    auto winner = co_await first_of(after(one, log, 1), after(two, log, 2));
    log->push_back("winner " + std::to_string(winner.index()));
  }
  task<void> limited(signal* until, journal* log, std::chrono::nanoseconds limit) {
    auto value = co_await with_deadline(after(until, log, 5), within(limit));
    log->push_back(value ? std::to_string(*value) : to_string(value.error().code).data());
  }
  task<result<int>> failing() {
    co_return failure(errc::corrupt, "bad");
  }
  task<void> flat(journal* log) {
    auto value = co_await with_deadline(failing(), within(1s));
    static_assert(std::is_same_v<decltype(value), result<int>>);
    log->push_back(value.error().text);
  }
  task<void> doze(queue_under_test* test, std::chrono::nanoseconds time, journal* log) {
    detail::sleep_awaiter sleep(time);
    co_await sleep;
    log->push_back(std::to_string(test->now / 1ms));
  }
  task<void> protect(signal* until, journal* log) {
    const int value = co_await shielded(after(until, log, 9));
    log->push_back("caller got " + std::to_string(value));
  }
  } // namespace

  TEST_CASE("when_all gives every value") {
    queue_under_test test;
    journal log;
    test.root.spawn(&all, &log);
    test.settle();
    CHECK(log == journal{"three", "3"});
  }

  TEST_CASE("first_of gives the first value; the losers are gone before") {
    queue_under_test test;
    journal log;
    signal one;
    signal two;
    test.root.spawn(&first, &one, &two, &log);
    test.settle();
    two.raise();
    one.raise();
    test.settle();
    CHECK(log == journal{"~2", "~1", "winner 1"});
  }

  TEST_CASE("with_deadline cancels what is late, and only that") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&limited, &until, &log, 10ms);
    test.settle();
    test.advance(9ms);
    CHECK(log.empty());
    test.advance(1ms);
    CHECK(log == journal{"~5", "timed out"});
    log.clear();
    test.root.spawn(&limited, &until, &log, 10ms);
    test.settle();
    until.raise();
    test.settle();
    CHECK(log == journal{"~5", "5"});
    CHECK(test.queue.timers().empty());
  }

  TEST_CASE("with_deadline keeps a result flat") {
    queue_under_test test;
    journal log;
    test.root.spawn(&flat, &log);
    test.settle();
    CHECK(log == journal{"bad"});
  }

  TEST_CASE("sleepers wake in the order of their times") {
    queue_under_test test;
    journal log;
    for (const auto time : {30ms, 10ms, 20ms})
      test.root.spawn(&doze, &test, std::chrono::nanoseconds(time), &log);
    test.settle();
    for (int i = 0; i < 3; ++i)
      test.advance(10ms);
    CHECK(log == journal{"10", "20", "30"});
  }

  TEST_CASE("shielded work outlives its caller, and wakes a caller that is there") {
    queue_under_test test;
    journal log;
    signal until;
    test.root.spawn(&protect, &until, &log);
    test.settle();
    test.root.cancel();
    CHECK(test.shield.size() == 1);
    until.raise();
    test.settle();
    CHECK(log == journal{"~9"});
    CHECK(test.shield.size() == 0);
    log.clear();
    test.root.spawn(&protect, &until, &log);
    test.settle();
    until.raise();
    test.settle();
    CHECK(log == journal{"~9", "caller got 9"});
  }
}

} // namespace weir::test
