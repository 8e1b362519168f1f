#pragma once
// Inputs of the tests in distil/.

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/core/engine.h"
#include "model/core/config.h"

namespace kvick::distil {

// A text of n tokens that repeats itself only in part. All tokens are below 500.
inline std::vector<engine::Token> text_of(size_t n) {
  std::vector<engine::Token> text;
  for (size_t i = 0; i < n; ++i)
    text.push_back(static_cast<engine::Token>((i * i * 7 + i * 3) % 500));
  return text;
}

// Returns n normally distributed floats with a mean of 0.
inline std::vector<float> normal_floats(std::mt19937& random, size_t n, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> all(n);
  for (float& x : all) x = normal(random);
  return all;
}

// A layer whose values are of another size than its keys.
inline model::LayerConfig layer_of(uint32_t heads, uint32_t kv_heads, uint32_t k_dim,
                                   uint32_t v_dim) {
  model::LayerConfig layer;
  layer.heads = heads;
  layer.kv_heads = kv_heads;
  layer.k_dim = k_dim;
  layer.v_dim = v_dim;
  return layer;
}

}  // namespace kvick::distil
