/// What most units of the runtime and its tests read first, compiled once for each target by the
/// builds that say so (`b_pch`: the sanitizers, tests/profiles). Nothing may rely on it: the release
/// build goes without, and finds an include that is missing.
#pragma once

#include "actors/graph.hpp"
#include "actors/runtime/actor.hpp"
