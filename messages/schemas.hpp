/// All generated message types, as system headers: their warnings are flatc's, not ours.
#pragma once
#pragma GCC system_header

#include "messages/border_generated.h"
#include "messages/checkpoint_generated.h"
#include "messages/environment_generated.h"
#include "messages/generation_generated.h"
#include "messages/health_generated.h"
#include "messages/prompt_generated.h"
#include "messages/replay_generated.h"
#include "messages/rollout_generated.h"
#include "messages/sampler_generated.h"
#include "messages/tensor_generated.h"
#include "messages/training_generated.h"
#include "messages/validation_generated.h"
