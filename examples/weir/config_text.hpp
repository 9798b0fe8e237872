/// The table as text: the resolved configuration, and the reference of all keys.
#pragma once

#include "examples/weir/config.hpp"

namespace weir {

/// CONFIG.md: every key with type, default, range, what a resumed run allows, and its meaning.
[[nodiscard]] std::string config_reference();

} // namespace weir
