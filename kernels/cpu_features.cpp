#include "kernels/cpu_features.hpp"

namespace weir::kernels {

std::string_view to_string(isa_level level) noexcept {
  switch (level) {
  case isa_level::generic:
    return "generic";
  case isa_level::avx2:
    return "avx2";
  case isa_level::avx512:
    return "avx512";
  }
  return "unknown";
}

isa_level detected_isa() noexcept {
  // The builtin also asks the operating system (XGETBV), so a hit may be executed.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    return isa_level::generic;
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512vl") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512bw") == 0)
    return isa_level::avx2;
  return isa_level::avx512;
}

std::vector<isa_level> usable_isa_levels() {
  std::vector<isa_level> levels{isa_level::generic};
  if (detected_isa() >= isa_level::avx2) levels.push_back(isa_level::avx2);
  if (detected_isa() >= isa_level::avx512) levels.push_back(isa_level::avx512);
  return levels;
}

} // namespace weir::kernels
