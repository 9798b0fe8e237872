#include "kernels/detail/lanes_avx2.hpp"
#include "kernels/detail/operations_table.hpp"

namespace weir::kernels::detail {

constinit const operations avx2_operations = make_operations(isa_level::avx2);

} // namespace weir::kernels::detail
