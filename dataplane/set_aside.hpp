/// Taking a bundle out of sight under a name that nothing else has.
#pragma once

#include "dataplane/bundle_name.hpp"
#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <string>
#include <string_view>

namespace weir::dataplane {

/// Renames the bundle `name` to "<prefix>step_12", or "<prefix>step_12-2", "-3", ... where that is
/// taken, and returns the name. Volatile until `sync_directory`. `not_found` if it is gone.
[[nodiscard]] result<std::string> set_aside(disk& storage, const std::string& checkpoint_directory,
                                            std::string_view prefix, bundle_name name);

} // namespace weir::dataplane
