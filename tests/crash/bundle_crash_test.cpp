/// Every state that power loss may leave at every call of a small history (publish 1, publish 2
/// that links into 1, retire 1) must restore what was promised: the last bundle whose publish
/// returned, or the one that was on its way. Method: tests/support/crash_disk.hpp.
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "messages/rule.hpp"
#include "tests/crash/publishing.hpp"
#include "tests/support/crash_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace weir::test {

namespace {

std::string path_of(const std::string& name) {
  return crash_directory + "/" + name;
}

std::vector<dataplane::directory_entry> entries_of(crash_disk& storage) {
  auto entries = storage.list(crash_directory);
  REQUIRE(entries);
  return std::move(*entries);
}

/// Watches a disk: counts the states that break the promise made so far, and says the first.
class crash_watch {
public:
  explicit crash_watch(crash_disk& watched, std::uint64_t states_max = 1 << 16)
      : watched_(&watched), states_max_(states_max) {
    watched.after_change([this] { look(); });
  }
  ~crash_watch() { watched_->after_change({}); }
  crash_watch(const crash_watch&) = delete;
  crash_watch& operator=(const crash_watch&) = delete;

  /// From now on these are what a restore may begin from.
  void promise(std::vector<std::uint64_t> allowed) { allowed_ = std::move(allowed); }

  /// Whether no state was left out.
  [[nodiscard]] bool exhaustive() const { return exhaustive_; }
  [[nodiscard]] std::uint64_t states() const { return states_; }
  [[nodiscard]] std::size_t distinct_states() const { return seen_.size(); }
  [[nodiscard]] std::uint64_t violations() const { return violations_; }
  [[nodiscard]] const std::string& first_violation() const { return first_violation_; }

private:
  void look() {
    const auto count =
        watched_->for_each_crash_state(states_max_, calls_++, [this](crash_disk& state) {
          std::string key = state.fingerprint();
          for (const std::uint64_t step : allowed_)
            key += std::to_string(step) + " ";
          if (seen_.insert(std::move(key)).second) judge(state);
        });
    states_ += count;
    exhaustive_ = exhaustive_ && count <= states_max_;
  }

  void judge(crash_disk& state) {
    const auto step = restored_step(state);
    if (!step) return complain(to_string(step.error()));
    if (std::ranges::find(allowed_, *step) == allowed_.end())
      return complain("restores step " + std::to_string(*step));
    // More than a restore needs: whatever has the name of a bundle is one.
    for (const dataplane::directory_entry& entry : entries_of(state))
      if (dataplane::parse_bundle_name(entry.name))
        for (const auto& problem : dataplane::verify_bundle(state, path_of(entry.name)))
          return complain(to_string(problem.reason));
    // The run goes on from there: leftovers do not stand in its way.
    if (auto cleaned = dataplane::remove_leftovers(state, crash_directory); !cleaned)
      return complain("cannot clean: " + to_string(cleaned.error()));
    if (*step == no_bundle) return;
    if (auto next = publish_step(state, 9); !next)
      return complain("cannot publish again: " + to_string(next.error()));
    if (restored_step(state) != 9U) complain("the next bundle is not restored");
  }

  void complain(const std::string& what) {
    if (violations_++ == 0) first_violation_ = what;
  }

  crash_disk* watched_;
  std::uint64_t states_max_;
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> allowed_;
  std::set<std::string> seen_;
  std::uint64_t states_ = 0;
  bool exhaustive_ = true;
  std::uint64_t violations_ = 0;
  std::string first_violation_;
};

void make_checkpoint_directory(crash_disk& storage) {
  REQUIRE(dataplane::make_directories(storage, crash_directory));
}

void play_history(crash_disk& storage, crash_watch& watch) {
  watch.promise({no_bundle, 1});
  const auto first = publish_step(storage, 1);
  REQUIRE(first);
  watch.promise({1, 2});
  const auto second = publish_step(storage, 2, first->published);
  REQUIRE(second);
  watch.promise({2});
  const std::array names{first->published.name};
  REQUIRE(dataplane::retire_bundles(storage, crash_directory, names));
}

/// A bundle of one section, whose length falls from step to step; that of step 1 has another one,
/// in a folder of its own.
result<dataplane::publish_outcome> publish_one_section(dataplane::disk& storage,
                                                       std::uint64_t step) {
  auto writer = dataplane::bundle_writer::begin(storage, crash_directory, crash_epoch(step));
  if (!writer) return failure(writer.error());
  const std::string content(40 / step, static_cast<char>('a' + step));
  auto written = dataplane::write_section(storage, writer->directory(), "policy/a",
                                          crash_epoch(step), std::as_bytes(std::span(content)));
  if (!written) return failure(written.error());
  REQUIRE(writer->add(std::move(*written)));
  if (step == 1) {
    auto once = dataplane::write_section(storage, writer->directory(), "once/b", crash_epoch(step),
                                         std::as_bytes(std::span(content)));
    if (!once) return failure(once.error());
    REQUIRE(writer->add(std::move(*once)));
  }
  return writer->publish(publication_of(step));
}

/// Retires 1, and writes 3 over it.
void play_spare_history(crash_disk& storage, crash_watch& watch) {
  watch.promise({no_bundle, 1});
  const auto first = publish_one_section(storage, 1);
  REQUIRE(first);
  watch.promise({1, 2});
  REQUIRE(publish_one_section(storage, 2));
  watch.promise({2});
  const std::array names{first->published.name};
  REQUIRE(dataplane::retire_bundles(storage, crash_directory, names,
                                    dataplane::retired_files::kept_for_next));
  watch.promise({2, 3});
  REQUIRE(publish_one_section(storage, 3));
  watch.promise({3});
  REQUIRE(storage.sync_directory(crash_directory));
}

/// Plays the history with some syncs left out; returns the first broken promise, or nothing.
std::string violation_without(std::function<bool(const std::string&)> left_out) {
  crash_disk storage;
  make_checkpoint_directory(storage);
  storage.ignore_syncs(std::move(left_out));
  crash_watch watch(storage);
  play_history(storage, watch);
  return watch.first_violation();
}

} // namespace

TEST_SUITE("crash/bundle") {

  TEST_CASE("every state after power loss opens to the old bundle or the new one") {
    crash_disk storage;
    make_checkpoint_directory(storage);
    crash_watch watch(storage, std::uint64_t{1} << 20); // Nothing is synced before MANIFEST is.
    play_history(storage, watch);
    CAPTURE(watch.first_violation());
    CHECK(watch.violations() == 0);
    CHECK(restored_step(storage) == 2U);
    // Evidence that states were enumerated at all.
    CHECK(watch.exhaustive());
    CHECK(watch.states() > 1000);
    CHECK(watch.distinct_states() > 150);
    MESSAGE(watch.states() << " states, " << watch.distinct_states() << " distinct");
  }

  TEST_CASE("a bundle written over a retired one opens whole, or the one before") {
    crash_disk storage;
    make_checkpoint_directory(storage);
    crash_watch watch(storage);
    play_spare_history(storage, watch);
    CAPTURE(watch.first_violation());
    CHECK(watch.violations() == 0);
    CHECK(watch.exhaustive());
    CHECK(restored_step(storage) == 3U);
    CHECK(watch.distinct_states() > 300);
    MESSAGE(watch.states() << " states, " << watch.distinct_states() << " distinct");
  }

  TEST_CASE("writing over a bundle whose retirement is not durable is seen") {
    crash_disk storage;
    make_checkpoint_directory(storage);
    int syncs = 0;
    storage.ignore_syncs([&](const std::string& path) {
      return path == crash_directory && ++syncs == 5; // Two for each name, and `latest`; then this.
    });
    crash_watch watch(storage, 4096);
    play_spare_history(storage, watch);
    CHECK(watch.first_violation().find("step_1/") != std::string::npos);
    MESSAGE(watch.first_violation());
  }

  TEST_CASE("a bundle of many files opens in states chosen at random") {
    crash_disk storage;
    make_checkpoint_directory(storage);
    const auto first = publish_step(storage, 1);
    REQUIRE(first);
    crash_watch watch(storage, 16);
    watch.promise({1, 2});
    auto writer = dataplane::bundle_writer::begin(storage, crash_directory, crash_epoch(2));
    REQUIRE(writer);
    REQUIRE(write_sections(*writer, "content", first->published));
    for (int file = 0; file < 20; ++file) {
      const std::string text(700, static_cast<char>('a' + file));
      const std::string path = "policy/optimizer/" + std::to_string(file) + ".safetensors";
      auto section = dataplane::write_section(storage, writer->directory(), path, crash_epoch(2),
                                              std::as_bytes(std::span(text)));
      REQUIRE(section);
      REQUIRE(writer->add(std::move(*section)));
    }
    REQUIRE(writer->publish(publication_of(2)));
    CHECK(!watch.exhaustive());
    CAPTURE(watch.first_violation());
    CHECK(watch.violations() == 0);
    CHECK(watch.distinct_states() > 100);
  }

  // The marked rule of the design, by its switch; then every other sync of the order.
  TEST_CASE("directory_synced_after_manifest: without it a power loss leaves no bundle at all") {
    const auto none_left_out = [](const std::string&) { return false; };
    CHECK(violation_without(none_left_out).empty());
    const rule_suspension off(rule::directory_synced_after_manifest);
    CHECK(violation_without(none_left_out).find("MANIFEST: missing") != std::string::npos);
  }

  TEST_CASE("leaving out the sync of the checkpoint directory is seen") {
    const auto left_out = [](const std::string& path) { return path == crash_directory; };
    CHECK(violation_without(left_out) == "restores step 0");
  }

  TEST_CASE("leaving out the sync of a section's folder is seen") {
    const auto left_out = [](const std::string& path) { return path.ends_with("data_plane"); };
    const std::string seen = violation_without(left_out);
    CHECK(seen.find("data_plane/index.fb: missing") != std::string::npos);
  }

  TEST_CASE("leaving out the sync of MANIFEST is seen") {
    const auto left_out = [](const std::string& path) { return path.ends_with("/MANIFEST"); };
    CHECK(violation_without(left_out).find("MANIFEST: truncated to 0") != std::string::npos);
  }

  TEST_CASE("leaving out the sync of a section is seen") {
    const auto left_out = [](const std::string& path) { return path.ends_with("1.seg"); };
    CHECK(violation_without(left_out).find("1.seg: has 0 bytes") != std::string::npos);
  }

  TEST_CASE("a bundle set aside by a restore does not come back") {
    crash_disk storage;
    make_checkpoint_directory(storage);
    const auto first = publish_step(storage, 1);
    REQUIRE(first);
    REQUIRE(publish_step(storage, 2));
    const auto survey = dataplane::survey_bundles(storage, crash_directory);
    REQUIRE(survey);
    crash_watch watch(storage);
    watch.promise({1, 2});
    const auto abandoned =
        dataplane::abandon_newer(storage, crash_directory, *survey, first->published);
    REQUIRE(abandoned);
    CHECK(*abandoned == std::vector<std::string>{".abandoned-step_2"});
    CHECK(watch.violations() == 0);
    watch.promise({1});
    REQUIRE(storage.sync_directory(crash_directory));
    CHECK(watch.violations() == 0);
  }
}

} // namespace weir::test
