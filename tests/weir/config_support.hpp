/// Reading small configurations in tests.
#pragma once

#include "examples/weir/config.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

/// The least that every configuration needs.
inline const std::string minimal = "data: {train: {path: problems.jsonl}}\n";

/// Reads `text` as the file "run.yaml" in /base, with overrides given in /work.
inline result<checked_config> read_config(std::string text,
                                          std::vector<std::string> overrides = {}) {
  return parse_config({.name = "run.yaml",
                       .text = std::move(text),
                       .directory = "/base",
                       .overrides = std::move(overrides),
                       .working_directory = "/work"});
}

/// The minimal configuration with overrides; it must be right.
inline run_config accepted(std::vector<std::string> overrides) {
  auto read = read_config(minimal, std::move(overrides));
  const std::string text = read ? std::string() : read.error().text;
  REQUIRE_MESSAGE(read.has_value(), text);
  return std::move(read->config);
}

/// Why a text is refused; "accepted" if it is not.
inline std::string refusal(std::string text, std::vector<std::string> overrides = {}) {
  const auto read = read_config(std::move(text), std::move(overrides));
  return read ? std::string("accepted") : read.error().text;
}

/// Why the minimal configuration with overrides is refused.
inline std::string contradiction(std::vector<std::string> overrides) {
  return refusal(minimal, std::move(overrides));
}

inline bool mentions(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    if (text.find(part) == std::string_view::npos) return false;
  return true;
}

} // namespace weir::test
