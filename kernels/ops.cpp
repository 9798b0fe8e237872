#include "kernels/ops.hpp"

#include "messages/error.hpp"

namespace weir::kernels {

namespace detail {
extern const operations generic_operations;
extern const operations avx2_operations;
extern const operations avx512_operations;
} // namespace detail

const operations& operations_of(isa_level level) noexcept {
  ensure(level <= detected_isa(), "the processor supports the instruction set asked for");
  switch (level) {
  case isa_level::avx512:
    return detail::avx512_operations;
  case isa_level::avx2:
    return detail::avx2_operations;
  case isa_level::generic:
    break;
  }
  return detail::generic_operations;
}

} // namespace weir::kernels
