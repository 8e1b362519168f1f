#pragma once
// Attention of encoders: the tokens of each slot see each other in both directions, those of no
// other slot, and nothing that a store keeps.

#include "model/attend/attend.h"

namespace kvick::model {

// softmax(scale q k^T) v over each slot's own keys and values; with a window over those around the
// query. By the kernels that read a store's views, which here are of the keys and values as they
// were computed: a token's result is the same bits whatever else is in the batch.
void attend_text(const LayerConfig& layer, const Batch& batch, const Attended& attended,
                 Workspace& workspace);

}  // namespace kvick::model
