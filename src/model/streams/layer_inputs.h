#pragma once
// A layer's own input besides the residual stream: the token's row of a table that only this layer
// has, and a projection of the token's embedding (Gemma 3n, 2025). The tables are as large as the
// rest of the model, and a token reads one row of each.

#include "model/blocks/block.h"

namespace kvick::model {

// Before the first layer: fills Pass::layer_inputs from the embeddings. Needs
// Config::layer_inputs.
base::Result<std::unique_ptr<Block>> read_layer_inputs(WeightReader& weights, const Config& config);

// How a layer uses its own input.
class LayerInput {
 public:
  static base::Result<LayerInput> read(const BlockReader& reader);
  // back(gelu(gate(x)) * inputs), [tokens][dim]; the caller adds its norm(). x: [tokens][dim];
  // prepare(token) is called before that row of x is read.
  const float* run(const Pass& pass, const float* x, Workspace::TokenBody prepare) const;
  const Norm& norm() const { return norm_; }

 private:
  uint32_t layer_ = 0;
  Linear gate_, back_;
  Norm norm_;
};

// A layer's last block: hidden += norm(run(hidden)).
base::Result<std::unique_ptr<Block>> read_layer_input(const BlockReader& reader);

// Behind all of a layer's blocks: its residual stream is multiplied by layer_output_scale.
base::Result<std::unique_ptr<Block>> read_output_scale(const BlockReader& reader);

}  // namespace kvick::model
