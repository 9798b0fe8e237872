#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>

using namespace weir;
using test::crash_disk;

namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string content(crash_disk& storage, const std::string& path) {
  const auto read = dataplane::read_file(storage, path, 4096);
  if (!read) return std::string(to_string(read.error().code));
  return {reinterpret_cast<const char*>(read->data()), read->size()};
}

void append(crash_disk& storage, const std::string& path, std::string_view text, bool synced) {
  auto file = storage.open_or_create(path);
  REQUIRE(file);
  REQUIRE((*file)->append(bytes(text)));
  if (synced) REQUIRE((*file)->sync());
}

} // namespace

TEST_SUITE_BEGIN("crash/disk");

TEST_CASE("loss of the process keeps what was written and not synced") {
  crash_disk storage;
  append(storage, "/a", "written", false);
  storage.die();
  storage.lose_process();
  CHECK(content(storage, "/a") == "written");
}

TEST_CASE("power loss keeps what was synced with its name, whatever the seed") {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    crash_disk storage;
    append(storage, "/a", "first,", true);
    REQUIRE(storage.sync_directory("/"));
    append(storage, "/a", "second", false);
    storage.die();
    storage.lose_power(seed);
    CHECK(content(storage, "/a").starts_with("first,"));
  }
}

TEST_CASE("power loss takes a name that was not synced for some seeds, and for others not") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    crash_disk storage;
    append(storage, "/a", "text", true);
    storage.die();
    storage.lose_power(seed);
    lost += content(storage, "/a") == "not found" ? 1 : 0;
  }
  CHECK(lost > 8);
  CHECK(lost < 56);
}

TEST_CASE("what one process left volatile, power loss may take from the next one") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    crash_disk storage;
    append(storage, "/a", "text", false);
    REQUIRE(storage.sync_directory("/"));
    storage.die();
    storage.lose_process();
    storage.lose_power(seed);
    lost += content(storage, "/a") == "text" ? 0 : 1;
  }
  CHECK(lost > 8);
}

TEST_CASE("a disk that died changes nothing any more, and its dying write leaves a part") {
  crash_disk storage;
  append(storage, "/a", "before,", true);
  auto file = storage.open_or_create("/a");
  REQUIRE(file);
  storage.die_at(storage.calls());
  CHECK_FALSE((*file)->append(bytes("torn")));
  CHECK(storage.dead());
  CHECK_FALSE((*file)->append(bytes("after")));
  CHECK_FALSE(storage.create("/b"));
  CHECK_FALSE(storage.unlink("/a"));
  storage.lose_process();
  CHECK(content(storage, "/a") == "before,to");
  CHECK(content(storage, "/b") == "not found");
}

TEST_SUITE_END();
