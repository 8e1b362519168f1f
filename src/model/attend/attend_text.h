#pragma once
// Attention of encoders: the tokens of each slot see each other in both directions. They see
// neither other slots' tokens nor rows of a store.

#include "model/attend/attend.h"

namespace kvick::model {

// Computes softmax(scale q k^T) v over each slot's own keys and values, or over those in a window
// around the query. Uses the kernels that read a store's views, here over the computed keys and
// values. A token's result has the same bits whatever else is in the batch.
void attend_text(const LayerConfig& layer, const Batch& batch, const Attended& attended,
                 Workspace& workspace);

}  // namespace kvick::model
