/// What most units of the role actors and of their tests read first.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
