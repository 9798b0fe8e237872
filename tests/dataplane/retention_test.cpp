#include "dataplane/retention.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

/// Bundles in the order of their epochs.
std::vector<bundle_standing>
history(std::vector<std::pair<bundle_name, std::optional<double>>> in) {
  std::vector<bundle_standing> bundles;
  for (const auto& [name, metric] : in)
    bundles.push_back({name, {1, 1, bundles.size() + 1}, metric});
  return bundles;
}

std::string retired(const std::vector<bundle_standing>& bundles, const retention_policy& policy,
                    const std::vector<bundle_name>& pinned = {}) {
  std::string names;
  for (const bundle_name name : bundles_to_retire(bundles, policy, pinned))
    names += to_string(name) + " ";
  return names;
}

constexpr retention_policy by_recency(std::uint64_t k) {
  return {k, retention_order::recency};
}
constexpr retention_policy by_reward(std::uint64_t k) {
  return {k, retention_order::higher_metric};
}

} // namespace

TEST_SUITE("dataplane/retention") {

  TEST_CASE("nothing goes without a limit, and nothing comes of nothing") {
    const auto bundles = history({{{1}, {}}, {{2}, {}}, {{3}, {}}});
    CHECK(retired(bundles, {}).empty());
    CHECK(retired({}, by_recency(1)).empty());
  }

  TEST_CASE("by recency the newest stay") {
    const auto bundles = history({{{1}, {}}, {{2}, {}}, {{3}, {}}, {{4}, {}}});
    CHECK(retired(bundles, by_recency(2)) == "step_1 step_2 ");
    CHECK(retired(bundles, by_recency(4)).empty());
  }

  TEST_CASE("the newest stays even with a limit of none") {
    CHECK(retired(history({{{1}, {}}, {{2}, {}}}), by_recency(0)) == "step_1 ");
    CHECK(retired(history({{{1}, {}}}), by_recency(0)).empty());
  }

  TEST_CASE("recency is that of the epoch, not of the step") {
    // A history that went back to step 10 after step 20.
    const auto bundles = history({{{20}, {}}, {{10}, {}}, {{11}, {}}});
    CHECK(retired(bundles, by_recency(1)) == "step_20 step_10 ");
  }

  TEST_CASE("by metric the best stay, and the newest besides") {
    const auto bundles = history({{{1}, 0.9}, {{2}, 0.1}, {{3}, 0.5}, {{4}, 0.2}});
    CHECK(retired(bundles, by_reward(1)) == "step_2 step_3 ");
    CHECK(retired(bundles, by_reward(2)) == "step_2 ");
    CHECK(retired(bundles, {1, retention_order::lower_metric}) == "step_1 step_3 ");
  }

  TEST_CASE("ties go to the more recent") {
    const auto bundles = history({{{1}, 0.5}, {{2}, 0.5}, {{3}, 0.5}, {{4}, 0.1}});
    CHECK(retired(bundles, by_reward(1)) == "step_1 step_2 ");
  }

  TEST_CASE("unknown metrics rank last, NaN among them") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto bundles = history({{{1}, -7.0}, {{2}, {}}, {{3}, nan}, {{4}, -9.0}});
    CHECK(retired(bundles, by_reward(2)) == "step_2 step_3 ");
    CHECK(retired(bundles, {2, retention_order::lower_metric}) == "step_2 step_3 ");
    CHECK(retired(bundles, by_reward(3)) == "step_2 ");
  }

  TEST_CASE("repetitions go once a later step is durable, also without a limit") {
    const auto during = history({{{5}, {}}, {{5, 1}, {}}, {{5, 2}, {}}});
    CHECK(retired(during, {}).empty());
    const auto after = history({{{5}, {}}, {{5, 1}, {}}, {{5, 2}, {}}, {{6}, {}}});
    CHECK(retired(after, {}) == "step_5.1 step_5.2 ");
    CHECK(retired(after, by_recency(2)) == "step_5.1 step_5.2 ");
  }

  TEST_CASE("nothing goes before its successor is durable") {
    auto bundles = history({{{1}, {}}, {{2}, {}}});
    bundles[1].durable = false;
    CHECK(retired(bundles, by_recency(1)).empty());
    auto longer = history({{{1}, {}}, {{2}, {}}, {{2, 1}, {}}, {{3}, {}}});
    longer[3].durable = false;
    CHECK(retired(longer, by_recency(1)) == "step_1 step_2 ");
  }

  TEST_CASE("a pinned bundle stays") {
    const auto bundles = history({{{1}, {}}, {{2}, {}}, {{3}, {}}});
    CHECK(retired(bundles, by_recency(1), {{1}}) == "step_2 ");
  }

  TEST_CASE("of two to keep, one shares no file with the newest") {
    const auto bundles = history({{{1}, {}}, {{2}, {}}, {{3}, {}}, {{4}, {}}});
    // 1 and 2 were written whole; 3 and 4 link what 2 has.
    const file_sharing share = [](bundle_name one, bundle_name other) {
      return one.step >= 2 && other.step >= 2;
    };
    const auto names = [&](const retention_policy& policy) {
      std::string text;
      for (const bundle_name name : bundles_to_retire(bundles, policy, {}, share))
        text += to_string(name) + " ";
      return text;
    };
    CHECK(names(by_recency(2)) == "step_2 ");
    CHECK(names(by_recency(4)).empty());
    CHECK(names(by_recency(1)) == "step_1 step_2 step_3 ");
  }

  TEST_CASE("bundles share segments whose manifests say the same of them") {
    const auto of = [](std::vector<manifest_file> files) {
      manifest content;
      content.files = std::move(files);
      return content;
    };
    const manifest_file segment{"data_plane/segments/0000000000000001.seg", 7, {1, 2}};
    manifest_file rewritten = segment;
    rewritten.checksum = {3, 4};
    const manifest_file config{"policy/weights/config.json", 7, {1, 2}};
    CHECK(share_segments(of({segment, config}), of({segment})));
    CHECK_FALSE(share_segments(of({segment, config}), of({rewritten, config})));
  }
}

} // namespace weir::dataplane
