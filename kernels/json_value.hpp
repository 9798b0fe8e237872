/// A small, strict, bounded JSON reader for headers of safetensors files and for `config.json`.
///
/// It reads RFC 8259 and nothing more: no comments, no trailing commas, no duplicate keys, UTF-8
/// only. Depth and size are bounded, so that no input exhausts the stack or the memory.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::kernels {

/// One JSON value with everything below it. Numbers keep their text: who reads them knows the type.
class json_value {
public:
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };

  [[nodiscard]] kind type() const noexcept { return kind_; }
  [[nodiscard]] bool is_null() const noexcept { return kind_ == kind::null; }

  /// The value, where it has that type; a number only where it is in range.
  [[nodiscard]] std::optional<bool> as_boolean() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> as_unsigned() const noexcept;
  [[nodiscard]] std::optional<double> as_double() const noexcept;
  [[nodiscard]] const std::string* as_string() const noexcept;

  /// Elements of an array, or values of an object in the order of `keys()`.
  [[nodiscard]] const std::vector<json_value>& items() const noexcept { return items_; }
  [[nodiscard]] const std::vector<std::string>& keys() const noexcept { return keys_; }

  /// The member of an object, or null when there is none. Linear in the number of members.
  [[nodiscard]] const json_value* find(std::string_view key) const noexcept;

private:
  friend class json_reader;

  kind kind_ = kind::null;
  bool flag_ = false;
  std::string text_; ///< Of a string, or the literal of a number.
  std::vector<json_value> items_;
  std::vector<std::string> keys_;
};

/// Most arrays and objects inside each other.
inline constexpr int json_depth_max = 16;

/// Reads one value that spans all of `text`. Fails with `corrupt`, naming the byte.
[[nodiscard]] result<json_value> parse_json(std::string_view text);

/// `text` as a JSON string, quotes included; control characters are escaped.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// Whether the bytes are well-formed UTF-8 (no overlong form, no surrogate).
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

} // namespace weir::kernels
