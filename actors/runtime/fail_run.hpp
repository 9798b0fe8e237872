/// The end of the run by an actor that is supervised.
#pragma once

#include "actors/runtime/context.hpp"
#include "messages/error.hpp"

namespace weir {

/// Ends the run with this error, as `actor::fail` of an actor does that nobody restarts. For what
/// another life of the actor would find again: a supervisor could only repeat it.
void fail_run(const context& failing, error reason);

} // namespace weir
