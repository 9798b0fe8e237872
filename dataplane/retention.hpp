/// Which bundles may go. Pure: the caller lists, and removes (`retire_bundles`) in the background.
///
/// Never retired: the newest durable bundle, anything that is not durable yet, a pinned one (a
/// bundle that is being written links its files), and so nothing whose successor is not durable.
#pragma once

#include "dataplane/bundle_name.hpp"
#include "dataplane/manifest.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace weir::dataplane {

/// One valid bundle as retention sees it.
struct bundle_standing {
  bundle_name name;
  epoch_id epoch;
  /// The value of the policy's metric at the cut, if it was known. NaN counts as unknown.
  std::optional<double> metric = std::nullopt;
  /// Published and its directory synced. Bundles found at a start are durable once the first
  /// publish of this process has synced the directory.
  bool durable = true;
};

enum class retention_order : std::uint8_t { recency, higher_metric, lower_metric };

/// `checkpointing.keep_top_k` and its metric.
struct retention_policy {
  /// How many stay, besides the newest. Nothing is retired for its rank when unset.
  std::optional<std::uint64_t> keep_top_k = std::nullopt;
  retention_order order = retention_order::recency;
};

/// Whether two bundles may have a file in common, so that one bad sector breaks both.
using file_sharing = std::function<bool(bundle_name, bundle_name)>;

/// Returns what to retire, oldest first.
/// - A repetition (step_12.1) goes once a bundle of a later step is durable.
/// - Of the rest the best `keep_top_k` stay: ties to the more recent, unknown metrics last.
/// - With two or more to keep, one stays that shares no file with the newest, if there is one: of
///   those that would go the most recent such. Links need no other care: a file lives as long as
///   one bundle has it.
[[nodiscard]] std::vector<bundle_name> bundles_to_retire(std::span<const bundle_standing> bundles,
                                                         const retention_policy& policy,
                                                         std::span<const bundle_name> pinned,
                                                         const file_sharing& share = {});

/// Whether the bundles have a segment's file in common, by what their manifests say: a segment of
/// one history is written with its cut in the header, so equal means linked, or copied from it.
[[nodiscard]] bool share_segments(const manifest& one, const manifest& other);

} // namespace weir::dataplane
