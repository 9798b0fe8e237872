#include "actors/runtime/channel.hpp"
#include "tests/runtime/queue_under_test.hpp"

#include <doctest/doctest.h>

#include <memory>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

using pointers = channel<std::unique_ptr<int>>;

task<void> read_all(pointers* from, journal* log) {
  for (;;) {
    auto value = co_await from->next();
    if (!value) break;
    log->push_back(std::to_string(**value));
  }
  log->push_back("end");
}

task<void> read_one(pointers* from, journal* log, std::string name) {
  auto value = co_await from->next();
  log->push_back(name + (value ? std::to_string(**value) : std::string(" closed")));
}

task<void> write(pointers* to, int count, journal* log) {
  for (int i = 0; i < count; ++i) {
    const bool pushed = co_await to->push(std::make_unique<int>(i));
    if (!pushed) break;
  }
  log->push_back("written");
}

} // namespace

TEST_SUITE("runtime/channel") {
  TEST_CASE("values pass in order, and a full channel holds the writer back") {
    queue_under_test test;
    pointers values(2);
    journal log;
    test.root.spawn(&write, &values, 5, &log);
    test.settle();
    CHECK(values.size() == 2);
    CHECK(log.empty());
    test.root.spawn(&read_all, &values, &log);
    test.settle();
    values.close();
    test.settle();
    CHECK(log == journal{"0", "1", "2", "written", "3", "4", "end"});
  }

  TEST_CASE("a value given to a reader that dies before it runs goes to the next one") {
    queue_under_test test;
    pointers values(1);
    journal log;
    scope doomed;
    doomed.spawn(&read_one, &values, &log, std::string("first "));
    test.root.spawn(&read_one, &values, &log, std::string("second "));
    test.settle();
    CHECK(values.try_push(std::make_unique<int>(8)));
    doomed.cancel();
    test.settle();
    CHECK(log == journal{"second 8"});
  }

  TEST_CASE("a reader that dies alone leaves the value in the channel") {
    queue_under_test test;
    pointers values(1);
    journal log;
    scope doomed;
    doomed.spawn(&read_one, &values, &log, std::string("first "));
    test.settle();
    CHECK(values.try_push(std::make_unique<int>(8)));
    doomed.cancel();
    const auto left = values.try_next();
    REQUIRE(left);
    CHECK(**left == 8);
  }

  TEST_CASE("closing ends readers and writers; what is inside can still be taken") {
    queue_under_test test;
    pointers values(1);
    journal log;
    test.root.spawn(&write, &values, 3, &log);
    test.settle();
    values.close();
    test.settle();
    CHECK(log == journal{"written"});
    CHECK(!values.try_push(std::make_unique<int>(1)));
    CHECK(values.try_next().has_value());
    CHECK(!values.try_next().has_value());
  }
}

} // namespace weir::test
