// Qwen2 and 2.5: the llama block with biases on queries, keys and values (Yang et al. 2024,
// section 2.2).

#include "model/families/architectures.h"
#include "model/families/decoder.h"

namespace kvick::model {

base::Result<std::unique_ptr<Model>> load_qwen2(io::ModelFile file, Config config,
                                                const LoadOptions& options) {
  return load_decoder(std::move(file), std::move(config), options,
                      {.qkv_bias = WeightReader::Bias::kRequired, .head_norm = false});
}

}  // namespace kvick::model
