#include "kernels/detail/lanes_avx512.hpp"
#include "kernels/detail/operations_table.hpp"

namespace weir::kernels::detail {

constinit const operations avx512_operations = make_operations(isa_level::avx512);

} // namespace weir::kernels::detail
