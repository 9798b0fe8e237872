/// INCARNATION and the log under power loss and faults: a number is never used twice, and what a
/// sync promised is there.
#include "dataplane/append_log.hpp"
#include "dataplane/run_directory.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weir::test {

namespace {

using dataplane::append_log;
using dataplane::run_directory;

run_directory acquire_run(dataplane::disk& storage) {
  auto acquired = run_directory::acquire(storage, "/run", {{7, "here"}, "now"});
  REQUIRE(acquired);
  return std::move(*acquired);
}

std::string content_of(dataplane::disk& storage, const std::string& path) {
  const auto bytes = dataplane::read_file(storage, path, 1 << 20);
  std::string text;
  if (!bytes) return text;
  for (const std::byte byte : *bytes)
    text += static_cast<char>(byte);
  return text;
}

} // namespace

TEST_SUITE("crash/run_directory") {

  TEST_CASE("power loss never takes back an incarnation that was begun") {
    crash_disk storage;
    run_directory run = acquire_run(storage);
    std::uint64_t begun = 0;
    std::uint64_t states = 0;
    storage.after_change([&] {
      states += storage.for_each_crash_state(4096, 1, [&](crash_disk& state) {
        const auto number = acquire_run(state).read_incarnation();
        REQUIRE(number);
        CHECK(number->value >= begun);
        CHECK(number->value <= begun + 1);
      });
    });
    for (std::uint64_t life = 1; life <= 3; ++life) {
      const auto raised = run.raise_incarnation(incarnation(0));
      REQUIRE(raised);
      CHECK(raised->value == life);
      begun = life;
    }
    CHECK(states > 20);
  }

  TEST_CASE("power loss spares what a process began in a directory that another died in making") {
    for (std::uint64_t n = 0; n < 6; ++n) {
      crash_disk storage;
      storage.die_at(n);
      std::ignore = run_directory::acquire(storage, "/a/run", {{7, "here"}, "now"});
      REQUIRE(storage.dead());
      storage.lose_process();
      auto run = run_directory::acquire(storage, "/a/run", {{8, "here"}, "later"});
      REQUIRE(run);
      REQUIRE(run->raise_incarnation(incarnation(0)));
      storage.for_each_crash_state(512, 1, [&](crash_disk& state) {
        CHECK(content_of(state, "/a/run/INCARNATION") == "1\n");
      });
    }
  }

  TEST_CASE("a fault at any call of a raise leaves a number, and the next raise is higher") {
    for (std::uint64_t n = 0; n < 12; ++n) {
      crash_disk storage;
      run_directory run = acquire_run(storage);
      REQUIRE(run.raise_incarnation(incarnation(4)));
      storage.plan({storage.calls() + n, errc::io_failed, false});
      const auto failed = run.raise_incarnation(incarnation(0));
      storage.plan({});
      const auto again = run.raise_incarnation(incarnation(0));
      REQUIRE(again);
      CHECK(again->value >= 6);
      if (failed) CHECK(again->value == failed->value + 1);
      if (!failed) CHECK(failed.error().text.starts_with("/run"));
    }
  }

  TEST_CASE("lines that were synced are in every state, whatever follows them") {
    crash_disk storage;
    REQUIRE(dataplane::make_directories(storage, "/run"));
    auto log = append_log::open(storage, "/run/events-1.jsonl");
    REQUIRE(log);
    std::string promised;
    std::string all;
    storage.after_change([&] {
      storage.for_each_crash_state(4096, 1, [&](crash_disk& state) {
        CHECK(content_of(state, "/run/events-1.jsonl").starts_with(promised));
      });
    });
    for (const char* line : {"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"}) {
      REQUIRE(log->append(line));
      all.append(line).append("\n");
      REQUIRE(log->write());
      CHECK(content_of(storage, "/run/events-1.jsonl") == all);
      REQUIRE(log->sync());
      promised = all;
    }
  }

  TEST_CASE("a failed write or sync delays lines and leaves no half of one") {
    for (std::uint64_t n = 0; n < 6; ++n) {
      crash_disk storage;
      REQUIRE(dataplane::make_directories(storage, "/run"));
      auto log = append_log::open(storage, "/run/events-1.jsonl");
      REQUIRE(log);
      storage.plan({storage.calls() + n, errc::no_space, false});
      bool failed = false;
      for (const char* line : {"first", "second", "third"}) {
        REQUIRE(log->append(line));
        failed = !log->sync() || failed;
      }
      CHECK(failed);
      REQUIRE(log->sync());
      CHECK(content_of(storage, "/run/events-1.jsonl") == "first\nsecond\nthird\n");
      storage.for_each_crash_state(4096, 1, [&](crash_disk& state) {
        CHECK(content_of(state, "/run/events-1.jsonl") == "first\nsecond\nthird\n");
      });
    }
  }
}

} // namespace weir::test
