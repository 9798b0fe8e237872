#include "examples/weir/drill_files.hpp"
#include "examples/weir/drill_plan.hpp"
#include "examples/weir/drill_process.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

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

/// A job of `steps` steps of one second that saves every `period` steps and starts in half a
/// second: how many kills of the plan land before it is done.
std::uint64_t kills_landed(const drill_plan& plan, std::uint64_t steps, std::uint64_t period) {
  constexpr double start_s = 0.5;
  drill_progress progress;
  while (progress.kills_done < plan.kills) {
    const double life_s = next_life(plan, progress);
    CHECK(life_s >= drill_life_min_s);
    progress.lived_s += life_s;
    const double trained =
        std::max(0.0, life_s - start_s) + static_cast<double>(progress.saved_step);
    if (trained >= static_cast<double>(steps)) break;
    const auto reached = static_cast<std::uint64_t>(trained);
    progress.saved_step = std::max(progress.saved_step, reached / period * period);
    ++progress.kills_done;
  }
  return progress.kills_done;
}

} // namespace

TEST_SUITE_BEGIN("weir/drill");

TEST_CASE("lives follow from seed, attempt and number alone") {
  const drill_plan plan{.seed = 3, .kills = 5, .duration_s = 60};
  CHECK(next_life(plan, {}) == next_life(plan, {}));
  CHECK(next_life(plan, {.kills_done = 1}) != next_life(plan, {}));
  CHECK(next_life({.seed = 4, .kills = 5, .duration_s = 60}, {}) != next_life(plan, {}));
  // Nothing is left of the job: the shortest lives.
  const double last = next_life(plan, {.kills_done = 4, .lived_s = 99});
  CHECK(last >= drill_life_min_s);
  CHECK(last <= 2 * drill_life_min_s);
}

TEST_CASE("what is left of the job is known from a reference, or estimated from its bundles") {
  const drill_plan timed{.max_steps = 100, .duration_s = 50};
  CHECK(remaining_seconds(timed, {.saved_step = 20}) == doctest::Approx(40));
  CHECK(remaining_seconds(timed, {.saved_step = 200}) == doctest::Approx(0));
  const drill_plan blind{.max_steps = 100};
  CHECK_FALSE(remaining_seconds(blind, {.lived_s = 9}).has_value());
  CHECK(remaining_seconds(blind, {.lived_s = 10, .saved_step = 20}) == doctest::Approx(40));
  const drill_plan bounded_by_data{.max_steps = 0, .duration_s = 50};
  CHECK(remaining_seconds(bounded_by_data, {.lived_s = 20}) == doctest::Approx(30));
  CHECK_FALSE(remaining_seconds({.max_steps = 0}, {.lived_s = 20}).has_value());
}

TEST_CASE("all kills land before the job is done, at the latest with shorter lives") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    for (const bool referenced : {false, true}) {
      bool landed = false;
      for (std::uint64_t attempt = 0; attempt < drill_attempts_max && !landed; ++attempt) {
        drill_plan plan{.seed = seed, .kills = 10, .max_steps = 60, .attempt = attempt};
        if (referenced) plan.duration_s = 60.5;
        landed = kills_landed(plan, 60, 10) == plan.kills;
      }
      CHECK(landed);
    }
  }
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

TEST_CASE("a child is killed at its instant, and one that ended before is not") {
  const temp_dir directory;
  const std::vector<std::string> waiting = {"-tc=a child that waits for its end", "--no-skip"};
  auto child = child_process::start(waiting, directory.file("log"));
  REQUIRE(child.has_value());
  const auto killed = child->kill_after(0.05);
  REQUIRE(killed.has_value());
  CHECK(killed->by_signal);
  CHECK(killed->status == SIGKILL);
  CHECK(killed->lived_s >= 0.05);
  CHECK(to_string(*killed) == "signal 9");

  auto brief = child_process::start({"--version"}, directory.file("log"));
  REQUIRE(brief.has_value());
  const auto ended = brief->kill_after(60);
  REQUIRE(ended.has_value());
  CHECK(ended->succeeded());
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
