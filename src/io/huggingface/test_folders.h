#pragma once
// Small Hugging Face folders for tests.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/file/test_images.h"

namespace kvick::io {

using nlohmann::json;

// Returns a safetensors file of F32 tensors with these names and shapes; element i of each is i.
inline std::string weights(
    const std::vector<std::pair<std::string, std::vector<uint64_t>>>& tensors) {
  json header = json::object();
  std::string data;
  for (const auto& [name, shape] : tensors) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    const size_t begin = data.size();
    for (uint64_t i = 0; i < elements; ++i) data += le(static_cast<float>(i));
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_image(header.dump(), data);
}

inline json llama_config() {
  return {{"model_type", "llama"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", false},
          {"hidden_act", "silu"}};
}

inline json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

}  // namespace kvick::io
