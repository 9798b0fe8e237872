/// Two processes and one known group: it is parked right before its commit while a bundle is made,
/// and its process is killed. The bundle's ledger holds that very group, the next process generates
/// and commits it once, and no later ledger holds it.
#include "actors/sampler/ledger.hpp"
#include "dataplane/bundle_reader.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/section_file.hpp"
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::test {

namespace {

/// A bundle's ledger, in dispatch order.
std::vector<ledger_record> ledger_in(const small_job& job, const std::string& bundle) {
  const auto storage = dataplane::make_posix_disk();
  const auto opened = dataplane::open_bundle(*storage, job.checkpoints().string(),
                                             dataplane::parse_bundle_name(bundle).value());
  REQUIRE(opened.has_value());
  const auto bytes = dataplane::read_bundle_file(*storage, job.checkpoints().string(), *opened,
                                                 "rollout_recovery.fb");
  REQUIRE(bytes.has_value());
  const auto payload = dataplane::section_payload(*bytes, opened->content.epoch);
  REQUIRE(payload.has_value());
  const auto ledger = decode_sampler(*payload);
  REQUIRE(ledger.has_value());
  return in_dispatch_order(ledger->image.ledger);
}

std::vector<ledger_record> admitted_of(const std::vector<ledger_record>& ledger) {
  std::vector<ledger_record> admitted;
  for (const ledger_record& record : ledger)
    if (record.phase == group_phase::admitted) admitted.push_back(record);
  return admitted;
}

/// The groups of the oldest batch of a ledger. Some of the batch after it may be there too: it is
/// admitted as soon as the step's weights are live, which a cut in that moment may come before or
/// after, and each of its groups leaves when it is committed.
std::vector<group_id> oldest_batch(const std::vector<ledger_record>& admitted) {
  std::vector<group_id> groups;
  for (const ledger_record& record : admitted)
    if (record.dispatch_index == admitted.front().dispatch_index) groups.push_back(record.group);
  return groups;
}

constexpr std::size_t groups_per_step = 4; ///< Of a small job; group 0 is its first.

/// How often the event logs of a life say that the group did this.
std::size_t told_in(const small_job& job, std::uint64_t life, group_id group,
                    const std::string& what) {
  const std::string line = "\"g\":" + std::to_string(group.value) + "," + what;
  const std::string log =
      content_of(job.run_directory() / ("events-" + std::to_string(life) + ".jsonl"));
  std::size_t count = 0;
  for (std::size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1))
    ++count;
  return count;
}

} // namespace

TEST_SUITE("drill/parked") {
  TEST_CASE("a group that is parked before its commit is committed once, by the next process") {
    const small_job job;
    // The ninth rollout waits between its staging and its commit while step_2 is captured.
    const program_end killed = job.run_failing(
        "trainer.learned=delay:300ms@2,rollout.produced=park@9,bundle.published=kill@1");
    INFO(killed.output);
    REQUIRE(killed.by_signal);
    const std::vector<ledger_record> ledger = ledger_in(job, "step_2");
    const std::vector<ledger_record> admitted = admitted_of(ledger);
    const std::vector<group_id> parked = oldest_batch(admitted);
    REQUIRE(parked.size() == 1);
    CAPTURE(admitted.size());
    for (const ledger_record& record : admitted)
      CHECK(record.dispatch_index <= admitted.front().dispatch_index + 1);
    CHECK(admitted.size() <= 1 + groups_per_step);
    // Of the batch after it each group is in the ledger, reserved or admitted, or was committed.
    for (std::uint64_t number = 3 * groups_per_step; number < 4 * groups_per_step; ++number) {
      CAPTURE(number);
      const bool unfinished = std::ranges::any_of(
          ledger, [&](const ledger_record& record) { return record.group.value == number; });
      if (!unfinished)
        CHECK(told_in(job, 1, group_id(number), R"("f":"admitted","t":"ready")") == 1);
    }
    CHECK(told_in(job, 1, parked.front(), R"("f":"reserved","t":"admitted")") == 1);
    CHECK(told_in(job, 1, parked.front(), R"("f":"admitted","t":"ready")") == 0);
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.exited_with(0));
    CHECK(told_in(job, 2, parked.front(), R"("f":"reserved","t":"admitted")") == 0);
    CHECK(told_in(job, 2, parked.front(), R"("f":"admitted","t":"ready")") == 1);
    CHECK(told_in(job, 2, parked.front(), R"("f":"claimed","t":"consumed")") == 1);
    for (const char* const later : {"step_4", "step_6"})
      for (const ledger_record& record : admitted_of(ledger_in(job, later)))
        CHECK(record.group != parked.front());
    const program_end audited = job.audit();
    INFO(audited.output);
    CHECK(audited.says("clean: 0 problems"));
  }
}

} // namespace weir::test
