/// Keys that are understood and checked, and that this build cannot act on.
#pragma once

#include "examples/weir/config.hpp"

namespace weir {

/// One line per key whose value asks for what is not built in, naming the value that is. A run
/// refuses these: a key that is accepted and does nothing would be worse than an error.
[[nodiscard]] std::vector<std::string> unavailable(const run_config& config);

} // namespace weir
