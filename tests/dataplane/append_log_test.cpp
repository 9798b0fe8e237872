#include "dataplane/append_log.hpp"
#include "dataplane/posix_disk.hpp"
#include "tests/support/crash_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <string>

namespace weir::dataplane {

namespace {

std::string content_of(disk& storage, const std::string& path) {
  const auto bytes = read_file(storage, path, 64 << 20);
  REQUIRE(bytes);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

} // namespace

TEST_SUITE("dataplane/append_log") {

  TEST_CASE("lines come one after the other, across lives") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const std::string path = directory.file("metrics.jsonl");
    for (const char* life : {"1", "2"}) {
      auto log = append_log::open(*storage, path);
      REQUIRE(log);
      REQUIRE(log->append(std::string("{\"life\":") + life + "}"));
      REQUIRE(log->append("{}"));
      CHECK(log->pending_bytes() > 0);
      REQUIRE(log->sync());
      CHECK(log->pending_bytes() == 0);
    }
    CHECK(content_of(*storage, path) == "{\"life\":1}\n{}\n{\"life\":2}\n{}\n");
  }

  TEST_CASE("a torn last line of an earlier life stays one bad line") {
    const test::temp_dir directory;
    const auto storage = make_posix_disk();
    const std::string path = directory.file("metrics.jsonl");
    const std::string torn = "{}\n{\"torn";
    REQUIRE(replace_file(*storage, path, std::as_bytes(std::span(torn))));
    auto log = append_log::open(*storage, path);
    REQUIRE(log);
    REQUIRE(log->append("{}"));
    REQUIRE(log->sync());
    CHECK(content_of(*storage, path) == "{}\n{\"torn\n{}\n");
  }

  TEST_CASE("lines reach the system and the disk by themselves as they come together") {
    test::crash_disk storage;
    auto log = append_log::open(storage, "/log");
    REQUIRE(log);
    const std::string line(1023, 'x');
    for (int i = 0; i < 63; ++i)
      REQUIRE(log->append(line));
    CHECK(content_of(storage, "/log").empty());
    REQUIRE(log->append(line));
    CHECK(content_of(storage, "/log").size() == 64 * 1024);
    for (int i = 0; i < 8 * 1024 - 64; ++i)
      REQUIRE(log->append(line));
    CHECK(log->pending_bytes() == 0);
  }

  TEST_CASE("a disk that takes nothing stops the log at its bound, and no line is lost") {
    test::crash_disk storage;
    auto log = append_log::open(storage, "/log");
    REQUIRE(log);
    storage.plan({storage.calls(), errc::no_space, true});
    const std::string line(1 << 20, 'x');
    std::size_t taken = 0;
    errc last = errc::no_space;
    for (int i = 0; i < 20 && last == errc::no_space; ++i) {
      const auto appended = log->append(line);
      REQUIRE(!appended);
      last = appended.error().code;
      taken += last == errc::no_space ? 1 : 0;
    }
    CHECK(last == errc::exhausted);
    CHECK(taken == 15);
    storage.plan({});
    REQUIRE(log->sync());
    CHECK(content_of(storage, "/log").size() == 15 * ((1 << 20) + 1));
  }
}

} // namespace weir::dataplane
