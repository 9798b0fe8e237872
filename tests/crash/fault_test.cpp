/// An error at the n-th call to the disk, for every n: the older bundle is never lost, the error
/// names a file, and the next attempt succeeds once the disk does. Three disks: one bad call (EIO),
/// one full moment (ENOSPC), and a disk that stays full.
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace weir::test {

namespace {

struct fault_kind {
  errc code;
  bool persistent;
};
constexpr std::array fault_kinds{fault_kind{errc::io_failed, false},
                                 fault_kind{errc::no_space, false},
                                 fault_kind{errc::no_space, true}};
/// More calls than the history has: reaching it means that the count never ended.
constexpr std::uint64_t calls_max = 1000;

planned_fault fault_at(const crash_disk& storage, std::uint64_t n, fault_kind kind) {
  return {storage.calls() + n, kind.code, kind.persistent};
}

bool names_a_file(const error& failed) {
  return failed.text.starts_with(crash_directory);
}

/// Every state that power loss may leave restores one of these steps.
void check_crash_states(const crash_disk& storage, std::initializer_list<std::uint64_t> allowed) {
  storage.for_each_crash_state(256, 7, [&](crash_disk& state) {
    const auto step = restored_step(state);
    REQUIRE(step);
    CHECK(std::ranges::find(allowed, *step) != allowed.end());
  });
}

dataplane::bundle publish_first(crash_disk& storage) {
  REQUIRE(dataplane::make_directories(storage, crash_directory));
  auto first = publish_step(storage, 1);
  REQUIRE(first);
  return first->published;
}

/// Returns whether the fault struck before the end, so that there may be a later call to fail.
bool publish_with_fault(fault_kind kind, std::uint64_t n) {
  crash_disk storage;
  const dataplane::bundle first = publish_first(storage);
  const planned_fault fault = fault_at(storage, n, kind);
  storage.plan(fault);
  const auto second = publish_step(storage, 2, first);
  const bool struck = storage.calls() > fault.first_call;
  storage.plan({});
  if (second) {
    CHECK(restored_step(storage) == 2U);
    check_crash_states(storage, {2});
    if (second->pointer_failure) CHECK(second->pointer_failure->code == kind.code);
  } else {
    CHECK(second.error().code == kind.code);
    CHECK_MESSAGE(names_a_file(second.error()), second.error().text);
    const auto step = restored_step(storage);
    REQUIRE(step);
    // Only a disk that refuses even the rename that takes it back leaves the failed one in sight.
    CHECK((*step == 1 || (kind.persistent && *step == 2)));
    check_crash_states(storage, {1, 2});
  }
  REQUIRE(publish_step(storage, 3));
  CHECK(restored_step(storage) == 3U);
  check_crash_states(storage, {3});
  REQUIRE(dataplane::remove_leftovers(storage, crash_directory));
  CHECK(restored_step(storage) == 3U);
  return struck;
}

bool retire_with_fault(fault_kind kind, std::uint64_t n) {
  crash_disk storage;
  const dataplane::bundle first = publish_first(storage);
  REQUIRE(publish_step(storage, 2));
  const planned_fault fault = fault_at(storage, n, kind);
  storage.plan(fault);
  const std::array names{first.name};
  const auto retired = dataplane::retire_bundles(storage, crash_directory, names);
  const bool struck = storage.calls() > fault.first_call;
  storage.plan({});
  if (!retired) CHECK(retired.error().code == kind.code);
  CHECK(restored_step(storage) == 2U);
  check_crash_states(storage, {2});
  // Again, as the next period does: what was half removed is finished by the next restore.
  REQUIRE(dataplane::retire_bundles(storage, crash_directory, names));
  REQUIRE(dataplane::remove_leftovers(storage, crash_directory));
  const auto left = storage.list(crash_directory);
  REQUIRE(left);
  CHECK(left->size() == 2); // latest and step_2
  return struck;
}

} // namespace

TEST_SUITE("crash/fault") {

  TEST_CASE("a fault at any call of a publish loses no older bundle") {
    for (const fault_kind kind : fault_kinds) {
      std::uint64_t n = 0;
      while (publish_with_fault(kind, n) && n < calls_max)
        ++n;
      CHECK(n > 30);
      CHECK(n < calls_max);
    }
  }

  TEST_CASE("a fault at any call of a retirement leaves the newest bundle alone") {
    for (const fault_kind kind : fault_kinds) {
      std::uint64_t n = 0;
      while (retire_with_fault(kind, n) && n < calls_max)
        ++n;
      CHECK(n > 8);
      CHECK(n < calls_max);
    }
  }

  TEST_CASE("a full disk at the pointer leaves the finished bundle published") {
    std::uint64_t pointer_failures = 0;
    for (std::uint64_t n = 0; n < 60; ++n) {
      crash_disk fresh;
      const dataplane::bundle first = publish_first(fresh);
      fresh.plan(fault_at(fresh, n, {errc::no_space, true}));
      const auto second = publish_step(fresh, 2, first);
      if (!second || !second->pointer_failure) continue;
      ++pointer_failures;
      // Never dangling: the replacement is atomic.
      const auto latest = fresh.read_symlink(crash_directory + "/latest");
      REQUIRE(latest);
      CHECK((*latest == "step_1" || *latest == "step_2"));
      fresh.plan({});
      CHECK(restored_step(fresh) == 2U);
    }
    CHECK(pointer_failures >= 2);
  }

  TEST_CASE("a fault at any call of a restore's search is an error or a report, never silence") {
    std::uint64_t n = 0;
    for (bool struck = true; struck && n < calls_max; ++n) {
      crash_disk storage;
      publish_first(storage);
      REQUIRE(publish_step(storage, 2));
      storage.plan(fault_at(storage, n, {errc::io_failed, false}));
      const std::uint64_t last = storage.calls() + n;
      const auto survey = dataplane::survey_bundles(storage, crash_directory);
      if (!survey) continue;
      const auto choice = dataplane::newest_valid_bundle(storage, crash_directory, *survey);
      struck = storage.calls() > last;
      if (!choice) continue;
      REQUIRE(*choice);
      const bool newest = (*choice)->chosen.name == dataplane::bundle_name{2};
      CHECK((newest || (*choice)->passed_over.size() == 1));
    }
    CHECK(n > 10);
    CHECK(n < calls_max);
  }

  TEST_CASE("without hard links the file is copied and verified") {
    crash_disk storage;
    const dataplane::bundle first = publish_first(storage);
    storage.refuse_links();
    REQUIRE(publish_step(storage, 2, first));
    CHECK(restored_step(storage) == 2U);
    storage.damage(crash_directory + "/step_1/data_plane/segments/1.seg", 3, 5);
    CHECK(restored_step(storage) == 2U); // The copy is another file.
    const auto third = publish_step(storage, 3, first);
    REQUIRE(!third);
    CHECK(third.error().code == errc::corrupt);
    CHECK(third.error().text.find("step_1/data_plane/segments/1.seg") != std::string::npos);
  }
}

} // namespace weir::test
