#pragma once
// Adds the low-rank adapters' terms to linear layers.

#include <span>
#include <vector>

#include "model/adapters/adapter.h"
#include "model/blocks/linear.h"

namespace kvick::model {

// Returns the tokens of the range that have an adapter, as runs of adjacent tokens with the same
// one. Indices count from the first token of the range.
std::vector<AdapterRun> adapter_runs(const Batch& batch, TokenRange range);

// y += scale * B (A x) for the tokens of Workspace::adapters and the layers that their adapter
// changes. Does nothing for all others. x: [tokens][inputs], in float32 whatever type the layer
// itself reads. A token's bits depend only on its own inputs.
void add_low_rank(Workspace& workspace, const float* x, std::span<const Output> outputs);

}  // namespace kvick::model
