#include "kernels/detail/lanes_generic.hpp"
#include "kernels/detail/operations_table.hpp"

namespace weir::kernels::detail {

constinit const operations generic_operations = make_operations(isa_level::generic);

} // namespace weir::kernels::detail
