#pragma once
// Per-layer inputs besides the residual stream: the token's row in a table of the layer, and a
// projection of the token's embedding (Gemma 3n, 2025). The tables are as large as the rest of the
// model, and a token reads one row of each.

#include "model/blocks/block.h"

namespace kvick::model {

// Runs before the first layer: fills Pass::layer_inputs from the embeddings. Needs
// Config::layer_inputs.
base::Result<std::unique_ptr<Block>> read_layer_inputs(WeightReader& weights, const Config& config);

// A layer's use of its per-layer input.
class LayerInput {
 public:
  static base::Result<LayerInput> read(const BlockReader& reader);
  // Computes back(gelu(gate(x)) * inputs), [tokens][dim]; the caller applies norm() to it. x:
  // [tokens][dim]. Calls prepare(token) before it reads that row of x.
  const float* run(const Pass& pass, const float* x, Workspace::TokenBody prepare) const;
  const Norm& norm() const { return norm_; }

 private:
  uint32_t layer_ = 0;
  Linear gate_, back_;
  Norm norm_;
};

// A layer's last block: hidden += norm(run(hidden)).
base::Result<std::unique_ptr<Block>> read_layer_input(const BlockReader& reader);

// Runs after all blocks of a layer: multiplies the residual stream by layer_output_scale.
base::Result<std::unique_ptr<Block>> read_output_scale(const BlockReader& reader);

}  // namespace kvick::model
