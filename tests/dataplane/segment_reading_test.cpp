/// One segment that several threads read together: the same values as one thread finds, and of
/// damage the same report, whoever meets it first.
#include "dataplane/posix_disk.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace weir::dataplane {

namespace {

constexpr std::size_t threads = 4;

void run_on_threads(std::span<const std::function<void()>> jobs) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> running;
  for (std::size_t at = 0; at < threads; ++at)
    running.emplace_back([&] {
      for (std::size_t job = next++; job < jobs.size(); job = next++)
        jobs[job]();
    });
  for (std::thread& one : running)
    one.join();
}

/// 24 MiB in one segment: columns that compress, and one that does not.
snapshot large_snapshot() {
  std::mt19937_64 random(11);
  std::vector<std::int32_t> tokens(300'000);
  std::vector<float> noise(200'001);
  store plane({.segment_bytes = 32 << 20});
  for (int row = 0; row < 12; ++row) {
    for (auto& token : tokens)
      token = static_cast<std::int32_t>(random() % 1000);
    for (auto& one : noise)
      one = static_cast<float>(static_cast<std::int32_t>(random())) * 1e-7F;
    const row_input input{
        .key = {},
        .tags = {},
        .cells = {vector_cell<std::int32_t>("tokens", tokens), vector_cell<float>("noise", noise)}};
    REQUIRE(plane.put("rollouts", std::span(&input, 1)).has_value());
  }
  return plane.capture();
}

struct written {
  written() {
    storage = make_posix_disk();
    auto sections = write_snapshot(*storage, directory.path().string(), fixture::epoch, state);
    REQUIRE(sections.has_value());
  }

  result<snapshot> read(const job_runner& run) {
    return read_snapshot(*storage, directory.path().string(), fixture::epoch, run);
  }
  void flip(std::uint64_t byte) const {
    std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(byte));
    const int value = file.get() ^ 1;
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(static_cast<char>(value));
    REQUIRE(file.good());
  }

  test::temp_dir directory;
  std::unique_ptr<disk> storage;
  snapshot state = large_snapshot();
  std::string segment = directory.file(segment_path(1));
};

} // namespace

TEST_SUITE("dataplane/segment_reading") {
  TEST_CASE("several threads read what one does") {
    written files;
    const auto alone = files.read({});
    const auto together = files.read(run_on_threads);
    REQUIRE(alone.has_value());
    REQUIRE(together.has_value());
    CHECK(fixture::describe_all(*alone) == fixture::describe_all(files.state));
    CHECK(fixture::describe_all(*together) == fixture::describe_all(files.state));
  }

  TEST_CASE("the first damage in a file is the one that is reported, whoever meets it") {
    written files;
    const std::uint64_t bytes = std::filesystem::file_size(files.segment);
    const std::uint64_t places[] = {bytes - 5'000'000, bytes / 2, bytes / 5, 900};
    // From the end to the beginning, so that each is the new first.
    for (const std::uint64_t place : places) {
      files.flip(place);
      const auto alone = files.read({});
      REQUIRE_FALSE(alone.has_value());
      for (int turn = 0; turn < 5; ++turn) {
        const auto together = files.read(run_on_threads);
        REQUIRE_FALSE(together.has_value());
        CHECK(together.error().code == errc::corrupt);
        CHECK(together.error().text == alone.error().text);
      }
    }
  }

  TEST_CASE("a file that ends too early is refused by every number of threads") {
    for (const std::uint64_t left : {30ULL, 200ULL, 3'000'000ULL, 12'000'000ULL}) {
      written files;
      std::filesystem::resize_file(files.segment, left);
      CHECK(files.read({}).error().code == errc::corrupt);
      CHECK(files.read(run_on_threads).error().code == errc::corrupt);
    }
  }
}

} // namespace weir::dataplane
