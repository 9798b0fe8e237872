#include "dataplane/retention.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <cmath>

namespace weir::dataplane {

namespace {

bool is_known(const std::optional<double>& metric) {
  return metric && !std::isnan(*metric);
}

/// Whether `left` stays rather than `right`.
bool ranks_before(const bundle_standing& left, const bundle_standing& right,
                  retention_order order) {
  if (order != retention_order::recency) {
    if (is_known(left.metric) != is_known(right.metric)) return is_known(left.metric);
    if (is_known(left.metric) && *left.metric != *right.metric)
      return (*left.metric > *right.metric) == (order == retention_order::higher_metric);
  }
  return left.epoch > right.epoch;
}

/// Takes the most recent bundle that shares nothing with the newest out of those that leave, unless
/// one stays anyway. @pre `leaving` is sorted by epoch
void spare_independent(std::span<const bundle_standing> bundles, bundle_name newest,
                       std::vector<bundle_standing>& leaving, const file_sharing& share) {
  const auto leaves = [&leaving](bundle_name name) {
    return std::ranges::find(leaving, name, &bundle_standing::name) != leaving.end();
  };
  const auto independent = [&](const bundle_standing& bundle) {
    return bundle.durable && bundle.name != newest && !share(bundle.name, newest);
  };
  if (std::ranges::any_of(bundles, [&](const bundle_standing& bundle) {
        return independent(bundle) && !leaves(bundle.name);
      }))
    return;
  const auto spared = std::find_if(leaving.rbegin(), leaving.rend(), independent);
  if (spared != leaving.rend()) leaving.erase(std::next(spared).base());
}

} // namespace

bool share_segments(const manifest& one, const manifest& other) {
  return std::ranges::any_of(one.files, [&other](const manifest_file& file) {
    if (!file.path.starts_with("data_plane/segments/")) return false;
    const manifest_file* same = other.find(file.path);
    return same != nullptr && *same == file;
  });
}

std::vector<bundle_name> bundles_to_retire(std::span<const bundle_standing> bundles,
                                           const retention_policy& policy,
                                           std::span<const bundle_name> pinned,
                                           const file_sharing& share) {
  std::vector<bundle_standing> ranked;
  std::ranges::copy_if(bundles, std::back_inserter(ranked), &bundle_standing::durable);
  if (ranked.empty()) return {};
  const bundle_standing newest = *std::ranges::max_element(ranked, {}, &bundle_standing::epoch);

  std::vector<bundle_standing> leaving;
  const auto superseded = [&](const bundle_standing& bundle) {
    return bundle.name.repetition != 0 && bundle.name.step < newest.name.step;
  };
  std::ranges::copy_if(ranked, std::back_inserter(leaving), superseded);
  std::erase_if(ranked, superseded);

  std::ranges::sort(ranked, [&](const auto& left, const auto& right) {
    return ranks_before(left, right, policy.order);
  });
  if (policy.keep_top_k && ranked.size() > *policy.keep_top_k)
    leaving.insert(leaving.end(), ranked.begin() + static_cast<std::ptrdiff_t>(*policy.keep_top_k),
                   ranked.end());

  std::erase_if(leaving, [&](const bundle_standing& bundle) {
    return bundle.name == newest.name || std::ranges::find(pinned, bundle.name) != pinned.end();
  });
  std::ranges::sort(leaving, {}, &bundle_standing::epoch);
  if (share && policy.keep_top_k && *policy.keep_top_k >= 2)
    spare_independent(bundles, newest.name, leaving, share);
  ensure(leaving.size() < bundles.size(), "retention leaves at least one bundle");
  std::vector<bundle_name> names;
  std::ranges::transform(leaving, std::back_inserter(names), &bundle_standing::name);
  return names;
}

} // namespace weir::dataplane
