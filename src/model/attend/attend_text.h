#pragma once
// Attention of encoders: the tokens of each slot see each other in both directions, but neither
// other slots' tokens nor anything that a store keeps.

#include "model/attend/attend.h"

namespace kvick::model {

// softmax(scale q k^T) v over each slot's own keys and values, or over those in a window around the
// query. Uses the kernels that read a store's views, here made of the computed keys and values: a
// token's result is the same bits whatever else is in the batch.
void attend_text(const LayerConfig& layer, const Batch& batch, const Attended& attended,
                 Workspace& workspace);

}  // namespace kvick::model
