// A bundle as a run publishes it, damaged one byte after the other: `weir verify` is these calls.
#include "dataplane/bundle_reader.hpp"
#include "tests/recovery/warm_run.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/tiny_job.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace weir;
using namespace weir::test;

namespace {

/// Publishes a bundle of a run with groups in every state, and returns its directory.
std::string bundle_of_one_run(crash_disk& storage, const main_job& job) {
  warm_run run(storage, job);
  run.next_batch();
  run.train_to(5);
  run.done(12, 4);
  run.half(13, 4);
  run.waiting(14);
  run.publish();
  const auto survey = dataplane::survey_bundles(storage, sim::checkpoint_directory_path);
  REQUIRE(survey.has_value());
  REQUIRE(survey->readable.size() == 1);
  return dataplane::join(sim::checkpoint_directory_path, to_string(survey->readable.front().name));
}

} // namespace

TEST_SUITE_BEGIN("recovery");

TEST_CASE("recovery/damage: one changed bit in any byte of a bundle is found, in its file") {
  const sim::run_plan plan = matrix_plan("in_order", 1);
  world unused;
  const main_job job = sim::tiny_job(plan, plan.sampler, unused, nullptr);
  crash_disk storage;
  REQUIRE(dataplane::make_directories(storage, sim::checkpoint_directory_path).has_value());
  const std::string path = bundle_of_one_run(storage, job);
  REQUIRE(dataplane::verify_bundle(storage, path).empty());
  const auto opened = dataplane::open_bundle_at(storage, path);
  REQUIRE(opened.has_value());
  REQUIRE(read_parts(storage, path, *opened).has_value());

  std::vector<std::string> files{std::string(dataplane::manifest_name)};
  for (const dataplane::manifest_file& file : opened->content.files)
    files.push_back(file.path);
  REQUIRE(files.size() >= 8);
  std::size_t unseen = 0;
  for (const std::string& file : files) {
    const std::string place = dataplane::join(path, file);
    const auto content = dataplane::read_file(storage, place, 1 << 20);
    REQUIRE(content.has_value());
    for (std::size_t byte = 0; byte < content->size(); ++byte) {
      const unsigned bit = static_cast<unsigned>(byte * 5 % 8);
      storage.damage(place, byte, bit);
      const auto problems = dataplane::verify_bundle(storage, path);
      if (problems.size() != 1 || problems.front().file != file) ++unseen;
      storage.damage(place, byte, bit);
    }
  }
  CHECK(unseen == 0);
  CHECK(dataplane::verify_bundle(storage, path).empty());
}

TEST_SUITE_END();
