#include "actors/runtime/fail_run.hpp"

#include "actors/runtime/detail/graph_core.hpp"

#include <utility>

namespace weir {

void fail_run(const context& failing, error reason) {
  failing.graph()->failed(failing.name(), std::move(reason));
}

} // namespace weir
