/// Which instruction set the CPU kernels use: found at run time, or asked for by an option.
///
/// Every level computes each output element by the same sequence of operations. `avx2` and `avx512`
/// therefore give the same bits; `generic` rounds after each multiplication (it has no fused
/// multiply-add) and differs from them in the last places.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::kernels {

enum class isa_level : std::uint8_t {
  generic, ///< Baseline x86-64.
  avx2,    ///< AVX2 and FMA.
  avx512,  ///< AVX-512 F, VL, DQ and BW.
};

/// Name of a level as it is printed, for example "avx512".
[[nodiscard]] std::string_view to_string(isa_level level) noexcept;

/// The highest level that this processor and its operating system support.
[[nodiscard]] isa_level detected_isa() noexcept;

/// Every level up to the detected one, lowest first: what a test runs over.
[[nodiscard]] std::vector<isa_level> usable_isa_levels();

} // namespace weir::kernels
