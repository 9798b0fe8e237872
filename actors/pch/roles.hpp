/// What most units of the role actors and their tests read first; see runtime.hpp.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
