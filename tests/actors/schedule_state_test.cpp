#include "actors/checkpoint/schedule_state.hpp"

#include <doctest/doctest.h>

namespace weir {
namespace {

constexpr std::int64_t second = 1'000'000'000;

} // namespace

TEST_SUITE("actors/checkpoint/schedule_state") {
  TEST_CASE("a period asks for exactly its steps") {
    schedule_state schedule({.save_period = 10}, 0);
    for (std::uint64_t step = 1; step < 10; ++step)
      CHECK(schedule.step_consumed(step, 0) == save_reason::none);
    CHECK(schedule.step_consumed(10, 0) == save_reason::period);
    CHECK(schedule.asked() == save_reason::period);
    CHECK(schedule.published(0) == save_reason::none);
    CHECK(schedule.step_consumed(11, 0) == save_reason::none);
    CHECK(schedule.step_consumed(20, 0) == save_reason::period);
    CHECK_FALSE(schedule.next_tick().has_value());
  }

  TEST_CASE("a period of zero never asks") {
    schedule_state schedule({.save_period = 0}, 0);
    for (std::uint64_t step = 0; step < 100; ++step)
      CHECK(schedule.step_consumed(step, 0) == save_reason::none);
  }

  TEST_CASE("an interval counts from the newest attempt, published or not") {
    schedule_state schedule({.save_period = 10, .save_interval_ns = 60 * second}, 5 * second);
    CHECK(schedule.next_tick() == 65 * second);
    CHECK(schedule.tick(64 * second) == save_reason::none);
    CHECK(schedule.step_consumed(10, 64 * second) == save_reason::period);
    CHECK(schedule.tick(100 * second) == save_reason::none);
    CHECK(schedule.failed(100 * second) == save_reason::none);
    CHECK(schedule.next_tick() == 124 * second);
    CHECK(schedule.tick(124 * second) == save_reason::interval);
    CHECK(schedule.failed(125 * second) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::none);
    CHECK(schedule.next_tick() == 184 * second);
  }

  TEST_CASE("a period that falls into another save is asked for after it") {
    schedule_state schedule({.save_period = 10, .save_interval_ns = 60 * second}, 0);
    CHECK(schedule.tick(60 * second) == save_reason::interval);
    CHECK(schedule.step_consumed(10, 61 * second) == save_reason::none);
    CHECK(schedule.published(62 * second) == save_reason::period);
    CHECK(schedule.published(63 * second) == save_reason::none);
  }

  TEST_CASE("the last step is saved and ends the job") {
    schedule_state schedule({.save_period = 10, .steps_max = 12}, 0);
    CHECK(schedule.step_consumed(12, 0) == save_reason::last_step);
    CHECK(schedule.stop() == stop_reason::none);
    CHECK(schedule.published(0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::job_done);
  }

  TEST_CASE("the end of the data is saved and ends the job") {
    schedule_state schedule({}, 0);
    CHECK(schedule.step_consumed(10, 0) == save_reason::period);
    CHECK(schedule.data_ended(0) == save_reason::none);
    CHECK(schedule.failed(0) == save_reason::last_step);
    CHECK(schedule.published(0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::job_done);
  }

  TEST_CASE("a signal saves and stops unfinished") {
    schedule_state schedule({}, 0);
    CHECK(schedule.signalled(0) == save_reason::signal);
    CHECK(schedule.published(0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::unfinished);
    CHECK(schedule.step_consumed(10, 0) == save_reason::none);
  }

  TEST_CASE("a signal after the last step leaves the job done") {
    schedule_state schedule({.steps_max = 5}, 0);
    SUBCASE("while it is being saved") {
      CHECK(schedule.step_consumed(5, 0) == save_reason::last_step);
      CHECK(schedule.signalled(0) == save_reason::none);
      CHECK(schedule.published(0) == save_reason::none);
    }
    SUBCASE("and its save failed") {
      CHECK(schedule.step_consumed(5, 0) == save_reason::last_step);
      CHECK(schedule.signalled(0) == save_reason::none);
      CHECK(schedule.failed(0) == save_reason::signal);
      CHECK(schedule.published(0) == save_reason::none);
    }
    CHECK(schedule.stop() == stop_reason::job_done);
  }

  TEST_CASE("the last step after a signal is saved too") {
    schedule_state schedule({.steps_max = 5}, 0);
    CHECK(schedule.signalled(0) == save_reason::signal);
    CHECK(schedule.step_consumed(5, 0) == save_reason::none);
    CHECK(schedule.published(0) == save_reason::last_step);
    CHECK(schedule.published(0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::job_done);
  }

  TEST_CASE("must_save_by asks once and stops unfinished") {
    schedule_state schedule({.save_interval_ns = 60 * second, .must_save_by_ns = 90 * second},
                            10 * second);
    CHECK(schedule.tick(70 * second) == save_reason::interval);
    CHECK(schedule.next_tick() == 100 * second);
    CHECK(schedule.tick(100 * second) == save_reason::none);
    CHECK(schedule.published(101 * second) == save_reason::deadline);
    CHECK(schedule.published(102 * second) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::unfinished);
    CHECK_FALSE(schedule.next_tick().has_value());
  }

  TEST_CASE("a save that must not fail ends the run when it does") {
    schedule_state schedule({}, 0);
    CHECK(schedule.signalled(0) == save_reason::signal);
    CHECK(schedule.failed(0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::save_failed);
  }

  TEST_CASE("without checkpoints nothing is asked for, and the run still ends") {
    schedule_state schedule({.enabled = false, .steps_max = 5}, 0);
    CHECK(schedule.step_consumed(5, 0) == save_reason::none);
    CHECK(schedule.stop() == stop_reason::job_done);
    schedule_state signalled({.enabled = false, .save_interval_ns = second}, 0);
    CHECK_FALSE(signalled.next_tick().has_value());
    CHECK(signalled.signalled(0) == save_reason::none);
    CHECK(signalled.stop() == stop_reason::unfinished);
  }
}

} // namespace weir
