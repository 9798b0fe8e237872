#include "examples/weir/step_metrics.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace weir;

namespace {

std::string line(int step, double reward) {
  std::string text(R"({"event": "step", "incarnation": 3, "step": )");
  text.append(std::to_string(step)).append(R"(, "reward": )").append(std::to_string(reward));
  return text.append(R"(, "loss": 0.100000})");
}

} // namespace

TEST_SUITE_BEGIN("weir/step_metrics");

TEST_CASE("a line of a step is read, and every torn form of it is refused") {
  const std::string whole = line(12, -0.25);
  const auto metric = parse_step_metric(whole);
  REQUIRE(metric.has_value());
  CHECK(metric->step == 12);
  CHECK(metric->reward == doctest::Approx(-0.25));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_step_metric(whole.substr(0, length)).has_value());
  }
}

TEST_CASE("lines of other events and lines without the keys are no steps") {
  for (const char* other :
       {"{\"event\": \"checkpoint\", \"bundle\": \"step_10\", \"step\": 1, \"reward\": 1.0}",
        "{\"event\": \"step\", \"step\": 1}", "{\"event\": \"step\", \"reward\": 0.5, \"loss\": 0}",
        "{\"event\": \"step\", \"step\": x, \"reward\": 0.5, \"loss\": 0}", "", "}"}) {
    CAPTURE(other);
    CHECK_FALSE(parse_step_metric(other).has_value());
  }
}

TEST_CASE("the first tenth is compared with the last; a step made again counts as made last") {
  step_history history;
  std::string lines;
  for (int step = 1; step <= 20; ++step)
    lines += line(step, 0.1) + "\n";
  lines += "{\"event\": \"step\", \"step\": 19, \"rew\n"; // Torn by a kill.
  for (int step = 19; step <= 20; ++step)
    lines += line(step, 0.7) + "\n";
  history.read(lines);
  const auto summary = history.summary();
  REQUIRE(summary.has_value());
  CHECK(summary->steps == 20);
  CHECK(summary->first_tenth == doctest::Approx(0.1));
  CHECK(summary->last_tenth == doctest::Approx(0.7));
  CHECK(summary->learned());
  CHECK(to_text(*summary).find("learned                  yes") != std::string::npos);
  CHECK(to_json(*summary) == "{\"event\": \"summary\", \"steps\": 20, \"first_tenth\": 0.100000, "
                             "\"last_tenth\": 0.700000, \"learned\": true}");
}

TEST_CASE("steps beyond a restart that were not made again do not count") {
  step_history history;
  for (int step = 1; step <= 30; ++step)
    history.read(line(step, 0.9));
  for (int step = 21; step <= 22; ++step)
    history.read(line(step, 0.1));
  const auto summary = history.summary();
  REQUIRE(summary.has_value());
  CHECK(summary->steps == 22);
  CHECK(summary->last_tenth == doctest::Approx(0.1));
}

TEST_CASE("learned takes both: high enough, and better than at the start") {
  CHECK_FALSE(learning_summary{.steps = 10, .first_tenth = 0.1, .last_tenth = 0.59}.learned());
  CHECK_FALSE(learning_summary{.steps = 10, .first_tenth = 0.5, .last_tenth = 0.69}.learned());
  CHECK(learning_summary{.steps = 10, .first_tenth = 0.4, .last_tenth = 0.61}.learned());
}

TEST_CASE("fewer than ten steps say nothing") {
  step_history history;
  CHECK_FALSE(history.summary().has_value());
  for (int step = 1; step <= 9; ++step)
    history.read(line(step, 0.5));
  CHECK_FALSE(history.summary().has_value());
  history.read(line(10, 0.9));
  REQUIRE(history.summary().has_value());
  CHECK(history.summary()->last_tenth == doctest::Approx(0.9));
}

TEST_SUITE_END();
