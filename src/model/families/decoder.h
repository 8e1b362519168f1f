#pragma once

#include <memory>

#include "model/core/model.h"
#include "model/core/weights.h"

namespace kvick::model {

// What the members of the llama family disagree on.
struct DecoderTraits {
  WeightReader::Bias qkv_bias = WeightReader::Bias::kOptional;
  bool head_norm = false;  // RMSNorm of each query and key head before rotation
};

// The llama family: pre-norm layers of grouped-query attention with rotary embedding and a gated
// feed-forward block, RMSNorm throughout (Touvron et al. 2023).
base::Result<std::unique_ptr<Model>> load_decoder(io::ModelFile file, Config config,
                                                  const LoadOptions& options,
                                                  const DecoderTraits& traits);

}  // namespace kvick::model
