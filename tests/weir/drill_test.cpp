#include "examples/weir/drill_files.hpp"
#include "examples/weir/drill_plan.hpp"
#include "examples/weir/drill_process.hpp"
#include "examples/weir/drill_watch.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace weir;
using weir::test::temp_dir;

namespace {

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string difference(const std::filesystem::path& left, const std::filesystem::path& right) {
  const auto compared = compare_weights(left.string(), right.string());
  return compared ? compared->difference : to_string(compared.error());
}

/// Steps of the kills that wait for one, in their order.
std::vector<std::uint64_t> steps_of(const std::vector<kill_order>& orders) {
  std::vector<std::uint64_t> steps;
  for (const kill_order& order : orders)
    if (order.kind == kill_kind::at_step || order.kind == kill_kind::while_writing)
      steps.push_back(order.step);
  return steps;
}

std::size_t count_of(const std::vector<kill_order>& orders, kill_kind kind) {
  return static_cast<std::size_t>(std::ranges::count_if(
      orders, [kind](const kill_order& order) { return order.kind == kind; }));
}

/// Finished steps when the kill comes, in a job that writes a bundle every `save_period` steps
/// within one step, and was at `resumed` when the life began.
std::uint64_t killed_at(const kill_order& order, const drill_plan& plan, std::uint64_t resumed) {
  life_sight sight{.step = resumed, .past_warmup = true, .step_s = 1};
  while (true) {
    if (const auto delay = kill_due(order, sight))
      return sight.step +
             (order.kind == kill_kind::at_step ? static_cast<std::uint64_t>(*delay) : 0);
    ++sight.step;
    sight.writing = plan.save_period > 0 && sight.step % plan.save_period == 0;
  }
}

} // namespace

TEST_SUITE_BEGIN("weir/drill");

TEST_CASE("kills follow from the plan alone, and differ between seeds and attempts") {
  const drill_plan plan{.seed = 3, .kills = 10, .steps = 60, .save_period = 10};
  const auto delays = [](const drill_plan& of) {
    std::vector<double> all;
    for (const kill_order& order : plan_kills(of))
      all.push_back(order.delay);
    return all;
  };
  CHECK(delays(plan) == delays(plan));
  drill_plan other = plan;
  other.seed = 4;
  CHECK(delays(other) != delays(plan));
  other.seed = 3;
  other.attempt = 1;
  CHECK(delays(other) != delays(plan));
}

TEST_CASE("kills are spread over the whole job, and every kind of moment is hit") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const auto orders =
        plan_kills({.seed = seed, .kills = 10, .steps = 60, .save_period = 10, .has_warmup = true});
    REQUIRE(orders.size() == 10);
    const std::size_t in_warmup = count_of(orders, kill_kind::in_warmup);
    CHECK(in_warmup >= 1);
    CHECK(in_warmup <= 2);
    for (std::size_t i = 0; i < orders.size(); ++i)
      CHECK((orders[i].kind == kill_kind::in_warmup) == (i < in_warmup));
    CHECK(count_of(orders, kill_kind::at_start) >= 2);
    CHECK(count_of(orders, kill_kind::while_writing) >= 2);
    CHECK(count_of(orders, kill_kind::at_step) >= 4);

    const auto steps = steps_of(orders);
    CHECK(std::ranges::is_sorted(steps));
    CHECK(steps.front() <= 57 / steps.size());
    CHECK(steps.back() >= 57 - 57 / steps.size() - 1);
  }
}

TEST_CASE("all kills land before the job is done, whatever the lives before them reached") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const std::uint64_t period : {0U, 1U, 10U, 100U}) {
      for (const std::uint64_t kills : {1U, 3U, 10U, 200U}) {
        CAPTURE(seed);
        CAPTURE(period);
        CAPTURE(kills);
        const drill_plan plan{.seed = seed, .kills = kills, .steps = 60, .save_period = period};
        const auto orders = plan_kills(plan);
        REQUIRE(orders.size() == kills);
        std::uint64_t resumed = 0;
        std::uint64_t latest = 0;
        for (const kill_order& order : orders) {
          const std::uint64_t at = killed_at(order, plan, resumed);
          latest = std::max(latest, at);
          if (period > 0) resumed = std::max(resumed, at / period * period);
        }
        CHECK(latest < plan.steps);
      }
    }
  }
}

TEST_CASE("a job that is shorter than the margin is still planned") {
  for (const std::uint64_t steps : {1U, 2U, 3U, 4U}) {
    for (std::uint64_t attempt = 0; attempt < drill_attempts_max; ++attempt) {
      const auto orders =
          plan_kills({.kills = 10, .steps = steps, .save_period = 10, .attempt = attempt});
      REQUIRE(orders.size() == 10);
      for (const std::uint64_t step : steps_of(orders))
        CHECK(step == 0);
    }
  }
}

TEST_CASE("a kill is due at its moment and not before") {
  const kill_order start{.kind = kill_kind::at_start, .delay = 0.1};
  CHECK(kill_due(start, {}) == 0.1);

  const kill_order warmup{.kind = kill_kind::in_warmup, .delay = 3};
  CHECK(kill_due(warmup, {}) == 3.0);
  CHECK(kill_due(warmup, {.past_warmup = true}) == 0.0);

  const kill_order step{.kind = kill_kind::at_step, .step = 12, .delay = 1.5};
  CHECK_FALSE(kill_due(step, {.step = 11, .past_warmup = true, .step_s = 2}));
  CHECK(kill_due(step, {.step = 12, .past_warmup = true, .step_s = 2}) == 3.0);
  CHECK(kill_due(step, {.step = 13, .past_warmup = true, .step_s = 2}) == 3.0);
  const auto beyond = kill_due(step, {.step = 14, .past_warmup = true, .step_s = 2});
  REQUIRE(beyond.has_value());
  CHECK(*beyond < 0.25);
  const kill_order first{.kind = kill_kind::at_step, .step = 0, .delay = 1};
  CHECK_FALSE(kill_due(first, {}));

  const kill_order write{
      .kind = kill_kind::while_writing, .step = 12, .step_limit = 23, .delay = 0.02};
  CHECK_FALSE(kill_due(write, {.step = 11, .past_warmup = true, .writing = true}));
  CHECK_FALSE(kill_due(write, {.step = 12, .past_warmup = true}));
  CHECK(kill_due(write, {.step = 12, .past_warmup = true, .writing = true}) == 0.02);
  CHECK(kill_due(write, {.step = 23, .past_warmup = true}) == 0.0);
}

TEST_CASE("what a life was doing is read from the run directory") {
  const temp_dir directory;
  const auto root = directory.path();
  const auto metric = [&root](int step) {
    std::ofstream(root / "metrics.jsonl", std::ios::app)
        << "{\"event\": \"step\", \"incarnation\": 1, \"step\": " << step
        << ", \"reward\": 0.5, \"loss\": 0.0}\n";
  };
  life_watch first(root.string());
  CHECK(first.stage() == life_stage::starting);
  write(root / "INCARNATION", "1\n");
  CHECK(first.stage() == life_stage::restoring);
  write(root / "events-1.jsonl", "");
  CHECK(first.stage() == life_stage::warming_up);
  CHECK_FALSE(first.look(1, 0.1).past_warmup);
  std::filesystem::create_directories(root / "checkpoints" / "step_0");
  CHECK(first.stage() == life_stage::first_step);
  CHECK(first.look(1, 0.1).past_warmup);
  metric(1);
  CHECK(first.look(2, 0.1).step_s == 0.1); // One step tells no time yet.
  metric(2);
  const life_sight sight = first.look(2.5, 0.1);
  CHECK(sight.step == 2);
  CHECK(sight.step_s == doctest::Approx(0.5));
  CHECK_FALSE(sight.writing);
  CHECK(first.stage() == life_stage::training);
  std::filesystem::create_directories(root / "checkpoints" / ".tmp-1-1");
  CHECK(first.look(3, 0.1).writing);
  CHECK(first.stage() == life_stage::writing);
  write(root / "checkpoints" / ".tmp-1-1" / "MANIFEST", "");
  CHECK(first.stage() == life_stage::publishing);
}

TEST_CASE("a life is not taken for the one before it") {
  const temp_dir directory;
  const auto root = directory.path();
  write(root / "INCARNATION", "1\n");
  write(root / "events-1.jsonl", "");
  write(root / "metrics.jsonl", "{\"event\": \"step\", \"step\": 15, \"reward\": 0.5, \"loss\": "
                                "0.0}\n{\"event\": \"step\", \"step\": 16, \"rew");
  std::filesystem::create_directories(root / "checkpoints" / "step_10");
  std::filesystem::create_directories(root / "checkpoints" / ".tmp-1-7");
  life_watch second(root.string());
  const life_sight sight = second.look(0.1, 0.1);
  CHECK(sight.step == 10);
  CHECK_FALSE(sight.writing);
  CHECK(second.stage() == life_stage::starting);
  write(root / "INCARNATION", "2\n");
  write(root / "events-2.jsonl", "");
  CHECK(second.stage() == life_stage::first_step);
  std::ofstream(root / "metrics.jsonl", std::ios::app)
      << "\n{\"event\": \"step\", \"step\": 11, \"reward\": 0.5, \"loss\": 0.0}\n";
  CHECK(second.look(1, 0.1).step == 11);
}

TEST_CASE("names of bundles are read strictly and ordered by number") {
  CHECK(parse_bundle_name("step_12") == bundle_name{.step = 12});
  CHECK(parse_bundle_name("step_0") == bundle_name{});
  CHECK(parse_bundle_name("step_12.3") == bundle_name{.step = 12, .further = 3});
  CHECK(to_string(bundle_name{.step = 12, .further = 3}) == "step_12.3");
  for (const char* name : {"step_", "step_x", "step_012", "step_12.", "step_12.0", "step_12.01",
                           "step_12.x", "step_-1", "step_12 ", ".tmp-1-2", "latest",
                           ".abandoned-step_20", "step_18446744073709551616"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_bundle_name(name).has_value());
  }
}

TEST_CASE("the newest bundle has the highest number, not the last name") {
  const temp_dir directory;
  CHECK_FALSE(newest_bundle(directory.path().string()).has_value());
  CHECK_FALSE(newest_bundle(directory.file("none")).has_value());
  for (const char* name : {"step_9", "step_10", "step_10.2", "step_10.10", ".tmp-1-2", "step_x"})
    std::filesystem::create_directory(directory.path() / name);
  CHECK(newest_bundle(directory.path().string()) == bundle_name{.step = 10, .further = 10});
}

TEST_CASE("weights are equal when every file is, byte for byte") {
  const temp_dir directory;
  const auto left = directory.path() / "left";
  const auto right = directory.path() / "right";
  const std::string large(200'000, 'x');
  for (const auto& side : {left, right}) {
    write(side / "model.safetensors", large);
    write(side / "config.json", "{}");
  }
  const auto equal = compare_weights(left.string(), right.string());
  REQUIRE(equal.has_value());
  CHECK(equal->difference.empty());
  CHECK(equal->files == 2);
  CHECK(equal->bytes == large.size() + 2);

  std::string flipped = large;
  flipped[150'000] = 'y';
  write(right / "model.safetensors", flipped);
  CHECK(difference(left, right) == "model.safetensors differs at byte 150000");
  write(right / "model.safetensors", large + "z");
  CHECK(difference(left, right) == "model.safetensors differs at byte 200000");
  std::filesystem::remove(right / "model.safetensors");
  CHECK(difference(left, right) == "model.safetensors is only in " + left.string());
  CHECK(difference(right, left) == "model.safetensors is only in " + left.string());
  CHECK(difference(left, directory.path() / "none").find("none") != std::string::npos);
  std::filesystem::create_directory(directory.path() / "empty");
  CHECK(difference(left, directory.path() / "empty").find("holds no file") != std::string::npos);
}

// Run by the next cases in a child process, never by itself.
TEST_CASE("a child that waits for its end" * doctest::skip()) {
  while (true)
    ::pause();
}

TEST_CASE("a child that ends by itself is reaped with its exit code and output") {
  const temp_dir directory;
  auto child = child_process::start({"--version"}, directory.file("log"));
  REQUIRE(child.has_value());
  const auto end = child->wait();
  REQUIRE(end.has_value());
  CHECK(end->succeeded());
  CHECK(to_string(*end) == "exit code 0");
  std::ifstream log(directory.file("log"));
  std::ostringstream text;
  text << log.rdbuf();
  CHECK(text.str().find("doctest") != std::string::npos);
}

TEST_CASE("a child is killed while it lives, and one that ended before keeps its exit code") {
  const temp_dir directory;
  const std::vector<std::string> waiting = {"-tc=a child that waits for its end", "--no-skip"};
  auto child = child_process::start(waiting, directory.file("log"));
  REQUIRE(child.has_value());
  const auto alive = child->wait_for(0.05);
  REQUIRE(alive.has_value());
  CHECK_FALSE(alive->has_value());
  CHECK(child->lived_s() >= 0.05);
  const auto killed = child->kill();
  REQUIRE(killed.has_value());
  CHECK(killed->by_signal);
  CHECK(killed->status == SIGKILL);
  CHECK(killed->lived_s >= 0.05);
  CHECK(to_string(*killed) == "signal 9");

  auto brief = child_process::start({"--version"}, directory.file("log"));
  REQUIRE(brief.has_value());
  const auto ended = brief->wait_for(60);
  REQUIRE(ended.has_value());
  REQUIRE(ended->has_value());
  CHECK((*ended)->succeeded());
}

TEST_CASE("a child does not outlive its handle, and a log that cannot be written is said") {
  const temp_dir directory;
  {
    auto child = child_process::start({"-tc=a child that waits for its end", "--no-skip"},
                                      directory.file("log"));
    REQUIRE(child.has_value());
  }
  const auto refused = child_process::start({"--version"}, directory.file("none/log"));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text.find("none/log") != std::string::npos);
}

TEST_SUITE_END();
