#pragma once
// The element type of states between steps. Blocks compute with float32. A store may keep bfloat16,
// which takes half the memory and rounds a state once per step (layer_states.h).

#include "kernels/formats/dtype.h"
#include "kv/strategy/setup.h"

namespace kvick::model {

// Makes a store of `setup` keep states as `type`, kF32 or kBF16. Called once, after set_layers,
// which gives states the size of float32.
void set_state_type(kernels::DType type, kv::Setup& setup);

}  // namespace kvick::model
