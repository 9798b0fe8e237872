/// Builds error texts from pieces.
///
/// Not operator+: g++ 12 warns falsely about "literal" + std::string (GCC bug 105651).
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace weir::kernels::detail {

/// The pieces, one after the other; numbers in decimal.
template <class... Pieces>
[[nodiscard]] std::string text(const Pieces&... pieces) {
  std::string joined;
  const auto append = [&joined](const auto& piece) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(piece)>>)
      joined += std::to_string(piece);
    else
      joined += std::string_view(piece);
  };
  (append(pieces), ...);
  return joined;
}

} // namespace weir::kernels::detail
