/// The main job through io_uring: killed and resumed, it ends with the bits that posix writes.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace weir::test {

namespace {

const std::string through_ring = "checkpointing.disk=auto";

file_tree final_policy(const small_job& job) {
  return tree_of(job.bundle("step_6") / "policy");
}

} // namespace

TEST_SUITE("drill/uring") {
  TEST_CASE("a run through io_uring that was killed ends with the bits of one through posix") {
    const small_job whole({synchronous});
    REQUIRE(whole.run().exited_with(0));
    const file_tree expected = final_policy(whole);
    for (const char* const point :
         {"trainer.consumed=kill@2", "bundle.section=kill@3", "bundle.section=kill@9",
          "bundle.before_rename=kill@2", "bundle.published=kill@2"}) {
      CAPTURE(std::string(point));
      const small_job job({synchronous, through_ring});
      const program_end killed = job.run_failing(point);
      INFO(killed.output);
      REQUIRE(killed.by_signal);
      REQUIRE(killed.status == SIGKILL);
      const program_end resumed = job.run();
      INFO(resumed.output);
      CHECK(resumed.exited_with(0));
      CHECK(final_policy(job) == expected);
      CHECK_FALSE(has_entry(job.checkpoints(), ".tmp-"));
      CHECK(job.audit().exited_with(0));
      CHECK(run_program({"verify", job.bundle("step_6").string()}).exited_with(0));
    }
  }
}

} // namespace weir::test
