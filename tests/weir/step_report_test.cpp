#include "examples/weir/step_metrics.hpp"
#include "examples/weir/step_report.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

step_report sample() {
  step_report report;
  report.incarnation = 2;
  report.step = 7;
  report.reward = 0.5;
  report.loss = -0.25;
  report.lag_mean = 1.5;
  report.staleness = {1, 2, 1};
  report.groups = 4;
  report.chunks = 2;
  report.tokens = 64;
  report.tokens_per_second = 12.34;
  report.events = {{"aborted", 1}, {"replaced", 0}};
  report.dropped = {{"stale", 3}, {"data_failure", 1}};
  report.in_flight = {.taken = 3, .most = 32};
  report.buffered = {.taken = 5, .most = 64};
  report.train_ns = 10;
  report.wait_ns = 20;
  report.waits = {{"gate", 30}, {"generators", 40}};
  return report;
}

} // namespace

TEST_SUITE_BEGIN("weir/step_report");

TEST_CASE("a step is one line of JSON with everything that is known of it") {
  CHECK(to_json(sample()) ==
        "{\"event\": \"step\", \"incarnation\": 2, \"step\": 7, \"reward\": 0.500000, "
        "\"loss\": -0.250000, \"grad_norm\": 0.000000, \"kl\": 0.000000, "
        "\"clip_fraction\": 0.000000, \"staleness\": 1.5000, \"groups_by_lag\": [1, 2, 1], "
        "\"groups\": 4, \"chunks\": 2, \"tokens\": 64, \"masked_tokens\": 0, "
        "\"tokens_per_second\": 12.3, \"aborted\": 1, \"replaced\": 0, "
        "\"dropped\": {\"stale\": 3, \"data_failure\": 1}, "
        "\"in_flight\": {\"taken\": 3, \"most\": 32}, \"buffered\": {\"taken\": 5, \"most\": 64}, "
        "\"train_ns\": 10, \"wait_ns\": 20, \"waited_ns\": {\"gate\": 30, \"generators\": 40}}");
}

TEST_CASE("the summary of a run reads the line again") {
  const auto metric = parse_step_metric(to_json(sample()));
  REQUIRE(metric.has_value());
  CHECK(metric->step == 7);
  CHECK(metric->reward == 0.5);
}

TEST_SUITE_END();
