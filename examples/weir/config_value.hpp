/// Values of keys as text: what a user wrote to a typed member, and back.
#pragma once

#include "examples/weir/config_table.hpp"

namespace weir {

/// A value as YAML has it, before its type is known.
struct raw_value {
  enum class shape : std::uint8_t { null, scalar, list, mapping };
  shape form = shape::null;
  std::string text = {};
  /// Written in quotes: a string, even if it looks like a number.
  bool quoted = false;
  std::vector<raw_value> items = {};
};

/// Sets the key's member. The error's text says what the value is and what is expected; the caller
/// adds place and key. Nothing is changed on an error.
[[nodiscard]] result<void> assign(const config_key& key, const raw_value& value,
                                  run_config& config);

/// The member's value as canonical YAML on one line.
[[nodiscard]] std::string format(const config_key& key, const run_config& config);

/// What a value must be: "a whole number from 1 to 1048576, or null".
[[nodiscard]] std::string expectation(const config_key& key);

/// "whole number", "number or null", "true or false", ... for CONFIG.md.
[[nodiscard]] std::string type_name(const config_key& key);

/// "1 to 1048576", "> 0", or nothing.
[[nodiscard]] std::string range_name(const config_key& key);

/// A text as a double-quoted YAML scalar.
[[nodiscard]] std::string in_quotes(std::string_view text);

} // namespace weir
