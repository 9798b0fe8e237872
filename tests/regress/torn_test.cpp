// Reported faults of checkpoints: torn, lost, or published when they should not have been.
//
// Most of them are faults of the order in which files are written, so that they are played on a
// disk in memory that enumerates what a crash may leave (tests/support/crash_disk.hpp).
#include "dataplane/retention.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

using namespace weir;
using namespace weir::test;
using dataplane::bundle_name;

namespace {

constexpr std::uint64_t states_max = 512;

std::string path_of(const std::string& name) {
  return dataplane::join(crash_directory, name);
}

/// A disk with a checkpoint directory, in which the bundles of these steps are published.
struct published_steps {
  explicit published_steps(std::initializer_list<std::uint64_t> steps) {
    REQUIRE(dataplane::make_directories(storage, crash_directory).has_value());
    for (const std::uint64_t step : steps)
      REQUIRE(publish_step(storage, step).has_value());
  }
  crash_disk storage;
};

/// What the last bundle holds when the process dies in the n-th call of the next publish, for all
/// n, and what a restore and the next publish make of the remains.
void die_at_every_call(const std::function<void(crash_disk&)>& check) {
  for (std::uint64_t n = 0;; ++n) {
    REQUIRE(n < 500);
    published_steps run({1});
    run.storage.die_at(run.storage.calls() + n);
    const bool done = publish_step(run.storage, 2).has_value();
    run.storage.lose_process();
    CAPTURE(n);
    check(run.storage);
    if (done) return;
  }
}

/// A partition of rows that can be told apart.
void put_rows(dataplane::store& plane, std::int32_t first, std::int32_t count) {
  for (std::int32_t at = first; at < first + count; ++at) {
    const std::vector<std::int32_t> values(300, at);
    const dataplane::row_input row{.key = "row" + std::to_string(at),
                                   .tags = {},
                                   .cells = {dataplane::vector_cell<std::int32_t>("v", values)}};
    REQUIRE(plane.put("p", std::span(&row, 1)).has_value());
  }
}

std::vector<std::string> keys_of(const dataplane::snapshot& state) {
  std::vector<std::string> keys;
  for (const auto& partition : state.inventory())
    for (const auto& row : partition.rows)
      keys.push_back(row.key);
  return keys;
}

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/AReaL_1616: a crash at every write of a save leaves the save before it whole") {
  die_at_every_call([](crash_disk& disk) {
    const auto step = restored_step(disk);
    REQUIRE(step.has_value());
    CHECK(*step >= 1);
    CHECK(dataplane::verify_bundle(disk, path_of("step_1")).empty());
  });
}

TEST_CASE("regress/KempnerForge_102: latest names no bundle that power loss could still take") {
  published_steps run({1});
  std::uint64_t states = 0;
  run.storage.after_change([&] {
    const auto named = run.storage.read_symlink(path_of("latest"));
    if (!named || *named != "step_2") return;
    states += run.storage.for_each_crash_state(
        states_max, 1, [](crash_disk& state) { CHECK(restored_step(state) == 2U); });
  });
  REQUIRE(publish_step(run.storage, 2).has_value());
  run.storage.after_change({});
  CHECK(states > 0);
}

TEST_CASE("regress/Megatron-Bridge_4820: a save in flight never costs the last durable one") {
  // 10 is durable, 20 in flight, 30 begun: with one to keep, 10 stays until 20 is durable.
  std::vector<dataplane::bundle_standing> all{
      {.name = {10, 0}, .epoch = {1, 1, 1}},
      {.name = {20, 0}, .epoch = {1, 1, 2}, .metric = std::nullopt, .durable = false},
      {.name = {30, 0}, .epoch = {1, 1, 3}, .metric = std::nullopt, .durable = false}};
  const dataplane::retention_policy one{.keep_top_k = 1};
  CHECK(dataplane::bundles_to_retire(all, one, {}).empty());
  all[1].durable = true;
  CHECK(dataplane::bundles_to_retire(all, one, {}) == std::vector<bundle_name>{{10, 0}});
}

TEST_CASE("regress/verl_4873: a disk that fills up at any call keeps what was published") {
  for (std::uint64_t n = 0;; ++n) {
    REQUIRE(n < 500);
    CAPTURE(n);
    published_steps run({1});
    const std::uint64_t first = run.storage.calls() + n;
    run.storage.plan({first, errc::no_space, true}); // And everything after it that needs room.
    const auto next = publish_step(run.storage, 2);
    const bool struck = run.storage.calls() > first;
    run.storage.plan({});
    CHECK(dataplane::verify_bundle(run.storage, path_of("step_1")).empty());
    // A publication that fails behind its rename may be there; whatever is there is whole.
    const auto restored = restored_step(run.storage);
    REQUIRE(restored.has_value());
    if (next) CHECK(*restored == 2);
    if (*restored == 2) CHECK(dataplane::verify_bundle(run.storage, path_of("step_2")).empty());
    REQUIRE(dataplane::remove_leftovers(run.storage, crash_directory).has_value());
    CHECK(publish_step(run.storage, 3).has_value()); // There is room again.
    if (!struck) break;
  }
}

TEST_CASE("regress/torchtitan_930: what changes behind a cut is not in its bundle") {
  crash_disk storage;
  REQUIRE(dataplane::make_directories(storage, crash_directory).has_value());
  dataplane::store plane;
  put_rows(plane, 0, 20);
  const dataplane::snapshot cut = plane.capture();
  const auto expected = keys_of(cut);
  auto writer = dataplane::bundle_writer::begin(storage, crash_directory, crash_epoch(1));
  REQUIRE(writer.has_value());
  std::int32_t next = 20;
  // Each piece that is written is followed by rows that come, and rows that go.
  const auto mutate = [&](std::uint64_t) -> result<void> {
    put_rows(plane, next, 3);
    for (const std::int32_t gone : {next - 20, next - 19}) {
      const auto row = plane.find_key("p", "row" + std::to_string(gone));
      if (row) CHECK(plane.clear("p", std::span(&*row, 1)).has_value());
    }
    next += 3;
    CHECK(plane.compact(1 << 20).has_value());
    return {};
  };
  auto sections =
      dataplane::write_snapshot(storage, writer->directory(), crash_epoch(1), cut, mutate);
  REQUIRE(sections.has_value());
  CHECK(next > 20);
  for (auto& section : *sections)
    REQUIRE(writer->add(std::move(section)).has_value());
  REQUIRE(writer->publish(publication_of(1)).has_value());
  const auto read = dataplane::read_snapshot(storage, path_of("step_1"), crash_epoch(1));
  REQUIRE(read.has_value());
  CHECK(keys_of(*read) == expected);
}

TEST_CASE("regress/Lightning_688: no file of a bundle is cut, wherever a save is killed") {
  die_at_every_call([](crash_disk& disk) {
    const auto survey = dataplane::survey_bundles(disk, crash_directory);
    REQUIRE(survey.has_value());
    CHECK(survey->broken.empty());
    for (const dataplane::bundle& bundle : survey->readable)
      CHECK(dataplane::verify_bundle(disk, path_of(to_string(bundle.name))).empty());
  });
}

TEST_CASE("regress/transformers_35580: the highest number is not restored while it is incomplete") {
  published_steps run({1});
  const auto high = publish_step(run.storage, 99);
  REQUIRE(high.has_value());
  REQUIRE(run.storage.unlink(path_of("step_99/data_plane/index.fb")).has_value());
  CHECK(restored_step(run.storage) == 1U);
}

TEST_CASE("regress/speculators_739: a directory with a number for a name is no bundle") {
  published_steps run({1});
  for (const char* name : {"7", "007", "7.tmp", "step_007", "step_7.tmp"})
    REQUIRE(dataplane::make_directories(run.storage, path_of(name)).has_value());
  const auto survey = dataplane::survey_bundles(run.storage, crash_directory);
  REQUIRE(survey.has_value());
  CHECK(survey->broken.empty());
  CHECK(restored_step(run.storage) == 1U);
  REQUIRE(publish_step(run.storage, 7).has_value());
  CHECK(restored_step(run.storage) == 7U);
}

TEST_CASE("regress/Automodel_3261: what an interrupted save left behind holds no later one up") {
  die_at_every_call([](crash_disk& disk) {
    const auto before = restored_step(disk);
    REQUIRE(before.has_value());
    REQUIRE(dataplane::remove_leftovers(disk, crash_directory).has_value());
    // The same step again, as after a restart, under a new cut.
    auto writer = dataplane::bundle_writer::begin(disk, crash_directory, {2, 1, 1});
    REQUIRE(writer.has_value());
    const auto published = writer->publish(publication_of(2));
    REQUIRE(published.has_value());
    CHECK(published->published.name == bundle_name{2, *before == 2 ? 1U : 0U});
    const auto entries = disk.list(crash_directory);
    REQUIRE(entries.has_value());
    CHECK(std::ranges::none_of(*entries,
                               [](const auto& entry) { return entry.name.starts_with(".tmp-"); }));
  });
}

TEST_CASE("regress/DeepSpec_74: a latest that names nothing is neither trusted nor in the way") {
  published_steps run({1, 2});
  REQUIRE(dataplane::retire_bundles(run.storage, crash_directory, std::array{bundle_name{2, 0}})
              .has_value());
  CHECK(run.storage.read_symlink(path_of("latest")) == std::string("step_2"));
  CHECK(restored_step(run.storage) == 1U);
  const auto next = publish_step(run.storage, 3);
  REQUIRE(next.has_value());
  CHECK_FALSE(next->pointer_failure.has_value());
  CHECK(run.storage.read_symlink(path_of("latest")) == std::string("step_3"));
}

TEST_CASE(
    "regress/prime-rl_1712: only weights and rollouts together are a bundle, whoever is last") {
  const std::string weights = "policy/weights/model.safetensors";
  const std::string rollouts = "data_plane/index.fb";
  for (const auto& order : {std::array{weights, rollouts}, std::array{rollouts, weights}}) {
    published_steps run({1});
    auto writer = dataplane::bundle_writer::begin(run.storage, crash_directory, crash_epoch(2));
    REQUIRE(writer.has_value());
    const std::vector<std::byte> content(100);
    auto first = dataplane::write_section(run.storage, writer->directory(), order[0],
                                          crash_epoch(2), content);
    REQUIRE(first.has_value());
    REQUIRE(writer->add(std::move(*first)).has_value());
    auto second = writer->create(order[1]); // Begun, and not finished.
    REQUIRE(second.has_value());
    REQUIRE(second->append(content).has_value());
    CHECK(restored_step(run.storage) == 1U);
    const auto refused = writer->publish(publication_of(2));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text.find(order[1] + ": was begun and not finished") !=
          std::string::npos);
    CHECK(restored_step(run.storage) == 1U);
  }
}

TEST_CASE("regress/TransferQueue_checkpoint_2: a clear during a save gives no index to gone rows") {
  // Rows are cleared after each piece of the save; each time all of the cut must be readable.
  for (std::uint64_t after = 0; after < 6; ++after) {
    CAPTURE(after);
    crash_disk storage;
    REQUIRE(dataplane::make_directories(storage, "/bundle").has_value());
    dataplane::store plane;
    put_rows(plane, 0, 12);
    const dataplane::snapshot cut = plane.capture();
    std::uint64_t pieces = 0;
    const auto clear_all = [&](std::uint64_t) -> result<void> {
      if (pieces++ != after) return {};
      const auto rows = plane.query("p", {});
      return rows ? plane.clear("p", *rows) : failure(rows.error());
    };
    REQUIRE(
        dataplane::write_snapshot(storage, "/bundle", crash_epoch(1), cut, clear_all).has_value());
    const auto read = dataplane::read_snapshot(storage, "/bundle", crash_epoch(1));
    REQUIRE(read.has_value());
    CHECK(keys_of(*read) == keys_of(cut));
    read->state().check_invariants();
  }
}

TEST_CASE("regress/TransferQueue_checkpoint_3: a rename that fails costs neither old nor new") {
  // A disk that refuses the n-th call with any reason: the rename is among them.
  for (const errc reason : {errc::no_space, errc::io_failed, errc::unsupported}) {
    for (std::uint64_t n = 0;; ++n) {
      REQUIRE(n < 500);
      CAPTURE(n);
      published_steps run({1});
      const std::uint64_t call = run.storage.calls() + n;
      run.storage.plan({call, reason, false});
      const auto second = publish_step(run.storage, 2);
      if (second) {
        const std::array old{bundle_name{1, 0}};
        std::ignore = dataplane::retire_bundles(run.storage, crash_directory, old);
      }
      const bool struck = run.storage.calls() > call;
      run.storage.plan({});
      CHECK(restored_step(run.storage) == (second ? 2U : 1U));
      if (!struck) break;
    }
  }
}

TEST_CASE("regress/metaseq_53: a file of zero bytes is no file of a bundle") {
  published_steps run({1});
  const auto second = publish_step(run.storage, 2);
  REQUIRE(second.has_value());
  for (const dataplane::manifest_file& file : second->published.content.files) {
    CAPTURE(file.path);
    published_steps emptied({1, 2});
    const std::string path = path_of("step_2/" + file.path);
    REQUIRE(emptied.storage.unlink(path).has_value());
    REQUIRE(emptied.storage.create(path).has_value());
    CHECK(restored_step(emptied.storage) == 1U);
  }
}

TEST_CASE("regress/RocksDB_10573: a name that was not synced is lost, and nothing relies on it") {
  // With every sync in place no state of power loss has less than what was promised.
  published_steps run({1});
  std::uint64_t promised = 1;
  std::set<std::string> seen;
  run.storage.after_change([&] {
    run.storage.for_each_crash_state(states_max, 3, [&](crash_disk& state) {
      if (!seen.insert(state.fingerprint() + std::to_string(promised)).second) return;
      const auto step = restored_step(state);
      REQUIRE(step.has_value());
      CHECK(*step >= promised);
    });
  });
  REQUIRE(publish_step(run.storage, 2).has_value());
  promised = 2;
  REQUIRE(dataplane::retire_bundles(run.storage, crash_directory, std::array{bundle_name{1, 0}})
              .has_value());
  run.storage.after_change({});
  CHECK(seen.size() > 20);
}

TEST_SUITE_END();
