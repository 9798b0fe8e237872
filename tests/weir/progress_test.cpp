#include "examples/weir/progress.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

constexpr progress twelfth{.step = 12,
                           .max_steps = 250,
                           .reward = 0.4123,
                           .loss = 0.00312,
                           .tokens_per_second = 1234.4,
                           .staleness = 0.84,
                           .groups_in_flight = 32,
                           .groups_buffered = 17,
                           .groups_dropped = 3,
                           .last_hold_us = 84.2,
                           .checkpoint_age_s = 12.3};

} // namespace

TEST_SUITE_BEGIN("weir/progress");

TEST_CASE("a line says everything that the run knows") {
  CHECK(to_string(twelfth) == "step 12/250  reward 0.412  loss 0.0031  1234 tok/s  stale 0.8  "
                              "in flight 32  buffered 17  dropped 3  hold 84 us  saved 12 s ago");
  CHECK(to_string(progress{}) == "step 0  reward 0.000  loss 0.0000  0 tok/s  stale 0.0  "
                                 "in flight 0  buffered 0");
  progress late = twelfth;
  late.last_hold_us = 12'345;
  late.checkpoint_age_s = 600;
  CHECK(to_string(late).ends_with("hold 12.3 ms  saved 10 min ago"));
  late.checkpoint_age_s = 9'000;
  CHECK(to_string(late).ends_with("saved 2.5 h ago"));
}

TEST_CASE("on a terminal the line is overwritten in place and cut to its width") {
  progress_line line(true, 20);
  CHECK(line.update(twelfth) == "\r\x1b[2Kstep 12/250  reward");
  CHECK(line.above("saved") == "\r\x1b[2Ksaved\nstep 12/250  reward");
  CHECK(line.finish() == "\n");
  CHECK(line.finish().empty());
  CHECK(line.above("done") == "done\n");
}

TEST_CASE("elsewhere there is one plain line a step") {
  progress_line line(false, 0);
  CHECK(line.update(twelfth) == to_string(twelfth) + "\n");
  CHECK(line.update(twelfth).empty());
  progress next = twelfth;
  next.step = 13;
  CHECK(line.update(next).starts_with("step 13/250"));
  CHECK(line.above("saved") == "saved\n");
  CHECK(line.finish().empty());
}

TEST_SUITE_END();
