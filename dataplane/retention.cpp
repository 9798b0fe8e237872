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

} // namespace

std::vector<bundle_name> bundles_to_retire(std::span<const bundle_standing> bundles,
                                           const retention_policy& policy,
                                           std::span<const bundle_name> pinned) {
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
  ensure(leaving.size() < bundles.size(), "retention leaves at least one bundle");
  std::vector<bundle_name> names;
  std::ranges::transform(leaving, std::back_inserter(names), &bundle_standing::name);
  return names;
}

} // namespace weir::dataplane
