/// Names in a checkpoint directory: which are bundles, which are leftovers.
///
///   step_12, step_12.1     a published bundle: captured trainer step, repetition at that step
///   .tmp-3-1.7             unfinished, of incarnation 3, epoch (life 1, number 7)
///   .retired-step_12       no longer wanted, being removed
///   .retired-spare         what is kept of such a one for the next (`spare_tree.hpp`)
///   .abandoned-step_12     set aside by a restore from an older one; kept for people
///
/// Anything else is not ours: ignored, never removed. A number without "step_", with leading zeros
/// or a suffix is not a bundle, however much it looks like one.
#pragma once

#include "messages/ids.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::dataplane {

/// The name of a published bundle. Ordered by number, not by letters; the order of *histories* is
/// that of the epochs in the manifests.
struct bundle_name {
  std::uint64_t step = 0;
  /// 0 for the first bundle of a step, then 1, 2, ... (step_12.1, step_12.2).
  std::uint64_t repetition = 0;

  friend constexpr auto operator<=>(const bundle_name&, const bundle_name&) = default;
};

/// "step_12" or "step_12.1".
[[nodiscard]] std::string to_string(bundle_name name);
/// The inverse of `to_string`, exactly: nothing else is a bundle name.
[[nodiscard]] std::optional<bundle_name> parse_bundle_name(std::string_view text);

/// ".tmp-3-1.7" for epoch 3.1.7.
[[nodiscard]] std::string temporary_name(epoch_id epoch);
/// The inverse of `temporary_name`.
[[nodiscard]] std::optional<epoch_id> parse_temporary_name(std::string_view text);

inline constexpr std::string_view temporary_prefix = ".tmp-";
inline constexpr std::string_view retired_prefix = ".retired-";
inline constexpr std::string_view abandoned_prefix = ".abandoned-";
inline constexpr std::string_view spare_tree_name = ".retired-spare";
inline constexpr std::string_view latest_name = "latest";
inline constexpr std::string_view manifest_name = "MANIFEST";

/// Whether `path` may name a file of a bundle: relative, at most 1024 characters and 8 folders of
/// letters, digits and "._-", none of which begins with a dot. So a manifest cannot reach outside.
[[nodiscard]] bool is_bundle_path(std::string_view path);

} // namespace weir::dataplane
