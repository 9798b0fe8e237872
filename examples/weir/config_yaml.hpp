/// YAML text to a flat list of settings. The only include of yaml-cpp.
#pragma once

#include "examples/weir/config_value.hpp"

namespace weir {

/// One leaf of a YAML document.
struct setting {
  std::string path;
  raw_value value;
  /// "grpo.yaml:12" or "--set grpo.seed=x".
  std::string place;
};

/// The leaves of a document whose root is a mapping. A leaf is a scalar, a list, or whatever stands
/// at the path of a known key. Anchors and merge keys ("<<") are resolved. Errors:
/// invalid_argument, one line per finding, for text that is not YAML, several documents, a root
/// that is no mapping, a key that stands twice or is no text, and nesting or size beyond any
/// configuration.
[[nodiscard]] result<std::vector<setting>> read_settings(const std::string& name,
                                                         const std::string& text);

/// The leaves of one "a.b=c". The value is YAML too: "[a, b]", "null".
[[nodiscard]] result<std::vector<setting>> read_override(const std::string& assignment);

} // namespace weir
