#include "actors/audit/event_codec.hpp"
#include "actors/audit/event_log.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace weir;

namespace {

constexpr const char* path = "/events-3.jsonl";

/// What a disk holds under that name.
std::string content_of(dataplane::disk& storage) {
  auto file = storage.open(path);
  if (!file) return {};
  const auto status = storage.stat(path);
  REQUIRE(status.has_value());
  std::string text(status->bytes, '\0');
  REQUIRE((*file)->read_at(0, std::as_writable_bytes(std::span(text))).has_value());
  return text;
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// A log of incarnation 3, with one owner.
struct logged {
  explicit logged(test::crash_disk& storage)
      : log(incarnation(3), open(storage)), owner(log, "trainer") {}
  static dataplane::append_log open(dataplane::disk& storage) {
    auto file = dataplane::append_log::open(storage, path);
    REQUIRE(file.has_value());
    return std::move(*file);
  }
  void finish_steps(std::uint64_t count) {
    for (std::uint64_t step = 0; step < count; ++step)
      owner.append(step_finished_event{step, weight_version(step + 1)});
  }
  event_log log;
  event_stream owner;
};

} // namespace

TEST_SUITE_BEGIN("actors/audit/event_log");

TEST_CASE("what was synced is there after any power loss, in order and with its numbers") {
  test::crash_disk storage;
  {
    logged writer(storage);
    writer.finish_steps(3);
    REQUIRE(writer.log.sync().has_value());
    writer.finish_steps(1); // Not synced: may vanish.
  }
  storage.lose_power(1);
  std::string expected;
  for (std::uint64_t step = 0; step < 3; ++step)
    encode_event(expected, incarnation(3), "trainer", sequence_number(step + 1),
                 step_finished_event{step, weight_version(step + 1)});
  CHECK(content_of(storage).starts_with(expected));
}

TEST_CASE("appending touches no disk: a lease never waits for one") {
  test::crash_disk storage;
  logged writer(storage);
  const std::uint64_t calls = storage.calls();
  writer.finish_steps(1000);
  CHECK(storage.calls() == calls);
  REQUIRE(writer.log.sync().has_value());
  CHECK(lines_in(content_of(storage)) == 1000);
}

TEST_CASE("above the bound the appender hands over what has gathered, without a sync") {
  test::crash_disk storage;
  logged writer(storage);
  std::string line;
  encode_event(line, incarnation(3), "trainer", sequence_number(1),
               step_finished_event{0, weight_version(1)});
  writer.finish_steps(event_log::gathered_bytes_max / line.size() + 1000);
  CHECK(lines_in(content_of(storage)) > 0);
}

TEST_CASE("lines that a full disk refused are written by the next sync, each once") {
  test::crash_disk storage;
  logged writer(storage);
  writer.finish_steps(2);
  storage.plan({.first_call = storage.calls(), .code = errc::no_space});
  const auto refused = writer.log.sync();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::no_space);
  writer.finish_steps(1);
  storage.plan({});
  REQUIRE(writer.log.sync().has_value());
  CHECK(lines_in(content_of(storage)) == 3);
}

TEST_CASE("a log without a file takes everything and keeps nothing") {
  event_log log{incarnation(1)};
  event_stream owner(log, "trainer");
  owner.append(step_finished_event{0, weight_version(1)});
  CHECK(owner.newest() == sequence_number(1));
  CHECK(log.sync().has_value());
}

TEST_SUITE_END();
