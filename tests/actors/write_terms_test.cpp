/// What the next bundle may link, how long its writer pauses, and that replay's sections keep to
/// it; and the jobs of a restore on a pool.
#include "actors/checkpoint/pool_jobs.hpp"
#include "actors/checkpoint/write_terms.hpp"
#include "actors/replay/replay_section.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/store.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <filesystem>
#include <future>
#include <vector>

namespace weir::test {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;

constexpr epoch_id cut(std::uint64_t number) {
  return {.incarnation = 1, .life = 1, .number = number};
}

std::shared_ptr<const dataplane::snapshot_files> files_of(std::uint64_t number) {
  auto files = std::make_shared<dataplane::snapshot_files>();
  files->epoch = cut(number);
  return files;
}

/// A store, and bundles of it under their names.
class saved_store {
public:
  explicit saved_store(std::uint64_t full_every = 8)
      : terms({.full_every = full_every}), storage_(dataplane::make_posix_disk()) {}

  void put(std::int32_t value) {
    const std::vector<std::int32_t> values(64, value);
    const dataplane::row_input row{
        .key = {}, .tags = {}, .cells = {dataplane::vector_cell<std::int32_t>("v", values)}};
    REQUIRE(rows_.put("p", std::span(&row, 1)).has_value());
  }
  void write(std::uint64_t number) {
    const section_target target{*storage_, directory(number), cut(number), {}};
    fs::create_directories(target.directory);
    REQUIRE(write_replay_section(target, {}, rows_.capture(), terms).has_value());
  }
  void publish(std::uint64_t number) {
    write(number);
    terms.published(directory(number), cut(number));
  }
  /// How many bundles have the segment.
  [[nodiscard]] std::uint64_t sharers(std::uint64_t number, std::uint64_t segment) const {
    return fs::hard_link_count(directory(number) + "/" + dataplane::segment_path(segment));
  }
  [[nodiscard]] std::string directory(std::uint64_t number) const {
    return home_.file("step_" + std::to_string(number));
  }

  write_terms terms;

private:
  temp_dir home_;
  std::unique_ptr<dataplane::disk> storage_;
  dataplane::store rows_;
};

/// Keeps its jobs until it is told to run them.
class patient_pool final : public blocking_pool {
public:
  bool submit(std::function<void()> job) override {
    if (full) return false;
    jobs.push_back(std::move(job));
    return true;
  }
  void stop() override {}

  std::deque<std::function<void()>> jobs;
  bool full = false;
};

} // namespace

TEST_SUITE("actors/write_terms") {
  TEST_CASE("only the files of the bundle that was published last may be linked") {
    write_terms terms;
    CHECK_FALSE(terms.base().has_value());
    terms.wrote(files_of(3)); // Loaded by a restore.
    CHECK_FALSE(terms.base().has_value());
    terms.published("step_3", cut(3));
    REQUIRE(terms.base().has_value());
    CHECK(terms.base()->directory == "step_3");
    terms.wrote(files_of(4));
    CHECK(terms.base()->files->epoch == cut(3)); // Cut 4 was not published.
    terms.wrote(files_of(5));
    terms.published("step_5", cut(5));
    CHECK(terms.base()->files->epoch == cut(5));
    terms.published("step_6", cut(6)); // Written by somebody else.
    CHECK_FALSE(terms.base().has_value());
  }

  TEST_CASE("a write that an aborted checkpoint left behind does not take the newest one's place") {
    write_terms terms;
    terms.wrote(files_of(5));
    terms.wrote(files_of(4));
    terms.published("step_5", cut(5));
    CHECK(terms.base().has_value());
  }

  TEST_CASE("after a failed write nothing is linked") {
    write_terms terms;
    terms.wrote(files_of(4));
    terms.forget();
    terms.published("step_4", cut(4));
    CHECK_FALSE(terms.base().has_value());
  }

  TEST_CASE("a bundle links the segments of its base, and writes what is new") {
    saved_store saved;
    saved.put(1);
    saved.publish(1);
    saved.put(2);
    saved.publish(2);
    CHECK(saved.sharers(2, 1) == 2);
    CHECK(saved.sharers(2, 2) == 1);
    saved.publish(3);
    CHECK(saved.sharers(3, 1) == 3);
    CHECK(saved.sharers(3, 2) == 2);
  }

  TEST_CASE("a bundle that was written and never published is nobody's base") {
    saved_store saved;
    saved.put(1);
    saved.publish(1);
    saved.write(2);
    fs::remove_all(saved.directory(2));
    saved.publish(3);
    CHECK(saved.sharers(3, 1) == 2);
  }

  TEST_CASE("every full_every-th bundle shares nothing") {
    saved_store saved(3);
    saved.put(1);
    for (std::uint64_t number = 1; number <= 4; ++number)
      saved.publish(number);
    CHECK(saved.sharers(1, 1) == 3);
    CHECK(saved.sharers(4, 1) == 1);
  }

  TEST_CASE("a short bundle is written at once, a long one at the rate") {
    dataplane::write_pacer due = pacer_of({.bytes_per_second = 64 * mebi});
    std::int64_t now = 0;
    std::chrono::nanoseconds paused{0};
    for (int piece = 0; piece < 64; ++piece) {
      const std::chrono::nanoseconds rest(due.take(4 * mebi, now));
      if (piece == 0) CHECK(rest == 0ns); // An eighth of a second comes at once.
      now += rest.count();
      paused += rest;
    }
    CHECK(paused >= 3'800ms); // 256 MiB, less the burst.
    CHECK(paused <= 4s);
  }

  TEST_CASE("on a pool a writer keeps to the rate, until somebody waits") {
    const auto time = make_system_clock();
    const auto pool = make_blocking_pool({.threads = 1, .crowded_share = 0.5});
    std::promise<bool> ended;
    const bool taken = pool->submit([&] {
      ended.set_value(write_terms({.bytes_per_second = 1}).pace(*time)(mebi).has_value());
    });
    REQUIRE(taken);
    auto paced = ended.get_future();
    CHECK(paced.wait_for(20ms) == std::future_status::timeout);
    pool->hurry(true);
    REQUIRE(paced.wait_for(10s) == std::future_status::ready);
    CHECK(paced.get());
  }

  TEST_CASE("on a thread that no pool has, nobody rests, whatever the rate") {
    const auto time = make_system_clock();
    const auto pace = write_terms({.bytes_per_second = 1}).pace(*time);
    CHECK(pace(mebi).has_value());
    CHECK_FALSE(static_cast<bool>(write_terms({.bytes_per_second = 0}).pace(*time)));
  }
}

TEST_SUITE("actors/pool_jobs") {
  TEST_CASE("each job runs once, whoever takes it") {
    const auto pool = make_blocking_pool({});
    std::vector<int> runs(1000);
    std::vector<std::function<void()>> jobs;
    for (int& count : runs)
      jobs.emplace_back([&count] { ++count; });
    jobs_on (*pool)(jobs);
    CHECK(runs == std::vector<int>(1000, 1));
    pool->stop();
  }

  TEST_CASE("a pool that is busy holds nothing up, and a helper that comes late does nothing") {
    patient_pool pool;
    int runs = 0;
    {
      const std::vector<std::function<void()>> jobs(5, [&runs] { ++runs; });
      jobs_on(pool)(jobs);
    }
    CHECK(runs == 5);
    CHECK(pool.jobs.size() == 4);
    for (const auto& helper : pool.jobs)
      helper();
    CHECK(runs == 5);
  }

  TEST_CASE("a full pool and no job at all are fine") {
    patient_pool pool;
    pool.full = true;
    int runs = 0;
    const std::vector<std::function<void()>> jobs(3, [&runs] { ++runs; });
    jobs_on(pool)(jobs);
    CHECK(runs == 3);
    jobs_on(pool)({});
    CHECK(runs == 3);
  }
}

} // namespace weir::test
