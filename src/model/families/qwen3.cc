// Qwen3: no biases; every query and key head is normalised before it is rotated, and heads may be
// wider than embedding / heads (Qwen3 technical report 2025, section 2).

#include "model/families/architectures.h"
#include "model/families/decoder.h"

namespace kvick::model {

base::Result<std::unique_ptr<Model>> load_qwen3(io::ModelFile file, Config config,
                                                const LoadOptions& options) {
  return load_decoder(std::move(file), std::move(config), options,
                      {.qkv_bias = WeightReader::Bias::kOptional, .head_norm = true});
}

}  // namespace kvick::model
