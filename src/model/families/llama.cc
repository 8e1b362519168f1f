// Llama 1 to 3, Mistral, SmolLM, TinyLlama. Long contexts differ only in the Rope that the file
// describes; biases are absent from all published ones but allowed by the format.

#include "model/families/architectures.h"
#include "model/families/decoder.h"

namespace kvick::model {

base::Result<std::unique_ptr<Model>> load_llama(io::ModelFile file, Config config,
                                                const LoadOptions& options) {
  return load_decoder(std::move(file), std::move(config), options,
                      {.qkv_bias = WeightReader::Bias::kOptional, .head_norm = false});
}

}  // namespace kvick::model
