/// What a drill reads of run directories: the newest bundle, and its weights.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace weir {

/// A published bundle, by its name.
struct bundle_name {
  std::uint64_t step = 0;
  std::uint64_t further = 0; ///< k of step_N.k; 0 for step_N.

  friend constexpr auto operator<=>(const bundle_name&, const bundle_name&) = default;
};

/// "step_12", "step_12.1".
[[nodiscard]] std::string to_string(bundle_name name);
/// Reads such a name; nothing for any other, such as ".tmp-1-2" or "step_012".
[[nodiscard]] std::optional<bundle_name> parse_bundle_name(std::string_view text);

/// The bundle with the highest step, then the highest k; nothing if there is none.
[[nodiscard]] std::optional<bundle_name> newest_bundle(const std::string& checkpoint_directory);

/// What a comparison of two weight directories found.
struct weights_comparison {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  /// Empty if every byte is equal; else the first difference, in words.
  std::string difference;
};

/// Compares all files of two directories. Errors: not_found if one is missing or has no file,
/// io_failed.
[[nodiscard]] result<weights_comparison> compare_weights(const std::string& left,
                                                         const std::string& right);

} // namespace weir
