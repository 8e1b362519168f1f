#pragma once
// Adds the low-rank adapters' terms to linear layers.

#include <span>
#include <vector>

#include "model/adapters/adapter.h"
#include "model/blocks/linear.h"

namespace kvick::model {

// The range's tokens that have an adapter, as runs of neighbours with the same one, counted from
// the range's first token.
std::vector<AdapterRun> adapter_runs(const Batch& batch, TokenRange range);

// y += scale * B (A x) for the tokens of Workspace::adapters and the layers that their adapter
// changes; nothing for all others. x: [tokens][inputs], in float32 whatever the layer itself reads.
// A token's bits depend on its own inputs alone.
void add_low_rank(Workspace& workspace, const float* x, std::span<const Output> outputs);

}  // namespace kvick::model
