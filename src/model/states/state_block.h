#pragma once
// The blocks of layers that keep a state (LayerConfig::Kind::kState).

#include "model/blocks/block.h"

namespace kvick::model {

// Reads the block for StateConfig::kind. Its norm is attn_norm, as for attention.
base::Result<std::unique_ptr<Block>> read_state_block(const BlockReader& reader);

// y = out(c * conv(b * x)), where b, c and x are thirds of one linear layer (LFM2 report 2025,
// section 2).
base::Result<std::unique_ptr<Block>> read_short_conv(const BlockReader& reader);
// State spaces with one decay per head and token (Dao and Gu 2024, Mamba-2), computed token by
// token: docs/adr/0054-layers-that-keep-a-state.md.
base::Result<std::unique_ptr<Block>> read_mamba2(const BlockReader& reader);
// Combines two blocks that read the same residual stream, to which their sum is added (Falcon-H1
// report 2025: attention and Mamba-2).
std::unique_ptr<Block> side_by_side(std::unique_ptr<Block> first, std::unique_ptr<Block> second);
// The gated delta rule (Yang et al. 2025, "Gated Delta Networks"; Qwen3-Next) on convolved queries,
// keys and values, followed by a norm of each head and a gate: docs/adr/0055-gated-delta-net.md.
base::Result<std::unique_ptr<Block>> read_gated_delta(const BlockReader& reader);

}  // namespace kvick::model
