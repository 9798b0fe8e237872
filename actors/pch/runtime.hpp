/// What most units of the runtime and of its tests read first.
#pragma once

#include "actors/graph.hpp"
#include "actors/runtime/actor.hpp"
