#pragma once
// The size of a model, which determines its speed and memory, without reading its weights: the
// numbers of its layers, and how many weights there are of each type.

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
  std::vector<TypedWeights> layers;   // of all layers together, experts included
  std::vector<TypedWeights> output;   // the output layer
  std::vector<TypedWeights> experts;  // the part of `layers` that belongs to experts
  // What a model file with these numbers contains, except the weights themselves.
  io::Metadata metadata;
  std::vector<io::Tensor> tensors;
};

// Returns the bytes of these weights as the kernels pack them, for matrices with many inputs.
uint64_t packed_bytes(const TypedWeights& weights);
uint64_t packed_bytes(const ModelSize& size);
// Returns the packed bytes of its experts only.
uint64_t packed_expert_bytes(const ModelSize& size);

// Errors: those of model::read_config.
base::Result<ModelSize> size_of(const io::ModelFile& file);
// Parses "layers=32,heads=32,kv_heads=8,head_dim=128". Optional keys, which default to those of a
// Llama of that width: dim (heads * head_dim), ffn (8/3 of dim, in steps of 256), vocab (32000),
// context (131072), type (Q8_0). Errors name the key.
base::Result<ModelSize> parse_shape(std::string_view text);

}  // namespace kvick::plan
