#pragma once
// What of a model its speed and memory follow from, without reading its weights: the numbers of its
// layers, and how many weights there are of each type.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"
#include "model/core/config.h"

namespace kvick::plan {

struct TypedWeights {
  kernels::DType type = kernels::DType::kF32;
  uint64_t weights = 0;  // of linear layers
};

struct ModelSize {
  model::Config config;
  std::vector<TypedWeights> layers;   // what every token multiplies, all layers together
  std::vector<TypedWeights> output;   // the output layer
  std::vector<TypedWeights> experts;  // of `layers`, those of mixtures of experts
  // What a model file of these numbers says, but for the weights themselves.
  io::Metadata metadata;
  std::vector<io::Tensor> tensors;
};

// Bytes of these weights as the kernels pack them, for matrices with many inputs.
uint64_t packed_bytes(const TypedWeights& weights);
uint64_t packed_bytes(const ModelSize& size);
// Packed bytes of its experts only.
uint64_t packed_expert_bytes(const ModelSize& size);

// Errors: whatever is wrong with the metadata, as model::read_config says it.
base::Result<ModelSize> size_of(const io::ModelFile& file);
// "layers=32,heads=32,kv_heads=8,head_dim=128" and, each with the value of a Llama of that width if
// it is missing, dim (heads * head_dim), ffn (8/3 of dim, in steps of 256), vocab (32000), context
// (131072), type (Q8_0). Errors name the key.
base::Result<ModelSize> parse_shape(std::string_view text);

}  // namespace kvick::plan
