// A sampler that does something wrong ends the run with an error that names it and where it is
// from: the whole graph in virtual time, with each sampler by name and out of a shared object.
#include "actors/sampler/custom_sampler.hpp"
#include "tests/samplers/bad_samplers.hpp"
#include "tests/simulation/one_life.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

using namespace weir;
using namespace weir::test;
using std::chrono::seconds;

namespace {

sampler_registry bad_ones() {
  sampler_registry all;
  all.add("throwing", &make_bad<throwing>);
  all.add("inventing", &make_bad<inventing>);
  all.add("shutting", &make_bad<shutting>);
  all.add("refusing", &make_bad<refusing>);
  all.add("crowding", &make_bad<crowding>);
  all.add("hesitating", &make_bad<hesitating>);
  return all;
}

std::string in_module(const std::string& name) {
  const char* const path = std::getenv("WEIR_SAMPLER_MODULE");
  REQUIRE(path != nullptr);
  return std::string(path) + ":" + name + "_sampler";
}

constexpr watchdog_options watch{seconds(10), seconds(100), stall_action::abort};

sim::one_life live_with(const std::string& target, stall_action action = stall_action::abort) {
  sim::run_plan plan;
  plan.groups_per_step = 4;
  plan.dataset = 40;
  plan.buffered_max = plan.inflight_max = 16;
  watchdog_options judged = watch;
  judged.action = action;
  return sim::live_once(
      plan,
      [&](main_job& job) {
        auto policy = make_custom_sampler(target, bad_ones(), {.window = 1, .groups_per_step = 4});
        INFO((policy ? std::string() : policy.error().text));
        REQUIRE(policy.has_value());
        job.policy = *policy;
        job.rollout.limits.stamps = false;
        job.trainer.watchdog = judged;
      },
      judged);
}

/// By name and from the shared object; `words` follow the sampler's title. Returns how long the
/// longer run took.
std::chrono::nanoseconds check_named(const std::string& name, errc code, const std::string& words) {
  std::chrono::nanoseconds took{0};
  for (const std::string& target : {name, in_module(name)}) {
    const sim::one_life lived = live_with(target);
    REQUIRE_FALSE(lived.ended.has_value());
    INFO(lived.ended.error().text);
    CHECK(lived.ended.error().code == code);
    CHECK(lived.ended.error().text.find("sampler " + name + " (" + target + ")" + words) !=
          std::string::npos);
    CHECK(lived.audit.clean());
    took = std::max(took, lived.took);
  }
  return took;
}

} // namespace

TEST_SUITE("samplers/bad") {
  TEST_CASE("a custom sampler that throws ends the run with its name") {
    const auto took =
        check_named("throwing", errc::invalid_argument, ": select threw: vector::_M_range_check");
    CHECK(took < watch.stall_timeout);
  }

  TEST_CASE("a custom sampler that returns unknown ids ends the run with its name") {
    const auto took = check_named("inventing", errc::invalid_argument,
                                  ": select: took group 4711, which is not in the buffer");
    CHECK(took < watch.stall_timeout);
  }

  TEST_CASE("a custom sampler that lies about its capacity ends the run with its name") {
    const auto took = check_named("crowding", errc::invalid_argument,
                                  ": admits: lets batch 1 in at version 0: 8 groups ahead of "
                                  "training, and declared a buffer of 4");
    CHECK(took < watch.stall_timeout);
  }

  TEST_CASE("a custom sampler whose gate never opens ends the run with its name") {
    const auto took =
        check_named("shutting", errc::exhausted,
                    " keeps batch 3 waiting at version 3, and nothing is in flight: step 3 has "
                    "lacked 4 groups for 100 s");
    CHECK(took >= watch.stall_timeout);
    CHECK(took < watch.stall_timeout + 3 * watch.interval);
  }

  TEST_CASE("a custom sampler that selects nothing behind its gate ends the run with its name") {
    const auto took = check_named("refusing", errc::exhausted,
                                  " keeps batch 4 waiting at version 2, and nothing is in flight");
    CHECK(took < watch.stall_timeout + 3 * watch.interval);
  }

  TEST_CASE("with stall_action warn, a gate that stays shut is warned of, and may open late") {
    const sim::one_life lived = live_with("hesitating", stall_action::warn);
    INFO(lived.log);
    CHECK(lived.log.find("trainer: exhausted: sampler hesitating (hesitating) keeps batch 3 "
                         "waiting at version 3") != std::string::npos);
    CHECK(lived.ended.has_value());
    CHECK(lived.audit.consumed.size() == 40);
  }
}
