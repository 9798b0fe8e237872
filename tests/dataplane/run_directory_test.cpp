#include "dataplane/posix_disk.hpp"
#include "dataplane/run_directory.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace weir::dataplane {

namespace {

static_assert(!std::is_copy_constructible_v<run_directory>);

struct fixture {
  test::temp_dir directory;
  std::unique_ptr<disk> storage = make_posix_disk();
  std::string path = directory.file("runs/first");

  result<run_directory> acquire(const std::string& started = "noon") const {
    return run_directory::acquire(*storage, path, {this_process(), started});
  }
  void put(const std::string& name, const std::string& text) const {
    REQUIRE(replace_file(*storage, path + "/" + name, std::as_bytes(std::span(text))));
  }
};

} // namespace

TEST_SUITE("dataplane/run_directory") {

  TEST_CASE("a second run is refused, and told who holds the first") {
    const fixture on;
    std::optional<run_directory> held = std::move(*on.acquire("today"));
    const auto second = on.acquire();
    REQUIRE(!second);
    CHECK(second.error().code == errc::already_exists);
    const process_identity me = this_process();
    CHECK(second.error().text ==
          on.path + ": in use by pid " + std::to_string(me.pid) + " on host " + me.host +
              ", started today; stop that process, or use another directory");
    held.reset();
    CHECK(on.acquire());
  }

  TEST_CASE("another process is refused too, and a dead one is no obstacle") {
    const fixture on;
    const pid_t child = ::fork();
    if (child == 0) {
      // Dies without letting go: the kernel does it. The file keeps its words.
      const auto held = on.acquire("in the child");
      const bool refused = held.has_value() && !on.acquire();
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(on.acquire());
  }

  TEST_CASE("words of any kind in a lock make a one-line error") {
    const fixture on;
    const auto held = on.acquire("a\nb\x1b[31m");
    REQUIRE(held);
    const auto second = on.acquire();
    REQUIRE(!second);
    CHECK(second.error().text.find('\n') == std::string::npos);
    CHECK(second.error().text.find('\x1b') == std::string::npos);
  }

  TEST_CASE("incarnations go up from 1, past the file and past every manifest") {
    const fixture on;
    auto run = on.acquire();
    REQUIRE(run);
    CHECK(run->read_incarnation() == incarnation(0));
    CHECK(run->raise_incarnation(incarnation(0)) == incarnation(1));
    CHECK(run->raise_incarnation(incarnation(0)) == incarnation(2));
    CHECK(run->raise_incarnation(incarnation(7)) == incarnation(8));
    CHECK(run->raise_incarnation(incarnation(3)) == incarnation(9));
    CHECK(run->read_incarnation() == incarnation(9));
    CHECK(run->events_path(incarnation(9)) == on.path + "/events-9.jsonl");
  }

  TEST_CASE("a process whose incarnation has passed is a zombie") {
    const fixture on;
    auto run = on.acquire();
    REQUIRE(run);
    const auto mine = run->raise_incarnation(incarnation(0));
    REQUIRE(mine);
    CHECK(run->check_current(*mine));
    on.put("INCARNATION", "2\n");
    const auto stopped = run->check_current(*mine);
    REQUIRE(!stopped);
    CHECK(stopped.error().code == errc::conflict);
    CHECK(stopped.error().text ==
          on.path + "/INCARNATION: says 2, and this process is incarnation 1: another process took "
                    "the run over, so this one stops");
  }

  TEST_CASE("an INCARNATION that is no number is an error that says what to do") {
    const fixture on;
    auto run = on.acquire();
    REQUIRE(run);
    for (const std::string& text :
         {std::string(), std::string("\n"), std::string("x"), std::string("-1\n"),
          std::string("1 2\n"), std::string("1\n\n"), std::string("18446744073709551616\n"),
          std::string("18446744073709551615\n"), std::string(5000, '1')}) {
      CAPTURE(text);
      on.put("INCARNATION", text);
      const auto raised = run->raise_incarnation(incarnation(0));
      REQUIRE(!raised);
      CHECK(raised.error().code == errc::corrupt);
      CHECK(raised.error().text.starts_with(on.path + "/INCARNATION: is not a number; write one"));
      CHECK(!run->check_current(incarnation(1)));
    }
    on.put("INCARNATION", "41");
    CHECK(run->raise_incarnation(incarnation(0)) == incarnation(42));
  }

  TEST_CASE("a manifest with the last of all numbers is refused") {
    const fixture on;
    auto run = on.acquire();
    REQUIRE(run);
    const auto raised = run->raise_incarnation(incarnation(18446744073709551615U));
    REQUIRE(!raised);
    CHECK(raised.error().code == errc::corrupt);
  }
}

} // namespace weir::dataplane
