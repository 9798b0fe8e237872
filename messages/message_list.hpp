/// Every message that this program knows: those of the library, and those of the program's own
/// schemas.
///
/// The header that `weir-catalogue` writes for a program defines one `message_list`, which enters
/// itself before `main`: errors can then name these messages, and a border can verify them.
#pragma once

#include "messages/catalogue_generated.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace weir::detail {

/// Whether a message of the library has this type. Checked by the compiler for each message of a
/// program: a type is 32 bits of a hash.
[[nodiscard]] constexpr bool is_of_the_library(message_type type) {
  return std::ranges::binary_search(message_catalogue, type, {}, &message_entry::type);
}

/// Lives as long as the program: it is never taken out again.
class message_list {
public:
  /// @pre no other list has a message of another name with one of these types (checked)
  explicit message_list(std::span<const message_entry> entries) noexcept;
  message_list(const message_list&) = delete;
  message_list& operator=(const message_list&) = delete;
  ~message_list() = default;

  [[nodiscard]] const message_entry* find(message_type type) const noexcept;
  [[nodiscard]] const message_list* next() const noexcept { return next_; }

private:
  std::span<const message_entry> entries_; ///< Sorted by type.
  const message_list* next_ = nullptr;
};

/// Null when nobody declared it. Thread-safe.
[[nodiscard]] const message_entry* find_message(message_type type) noexcept;

} // namespace weir::detail
