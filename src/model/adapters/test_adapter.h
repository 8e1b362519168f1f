#pragma once
// Small random adapters for the tests of model/ and engine/, and models with an adapter merged into
// their weights, which are the expected results.

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "io/adapter/adapter_file.h"
#include "io/file/test_images.h"
#include "model/adapters/adapter.h"
#include "model/core/test_model.h"

namespace kvick::model {

struct MadeAdapter {
  std::vector<std::string> matrices = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                       "ffn_gate", "ffn_up", "ffn_down"};
  uint32_t rank = 4;
  float alpha = 8;
  float size = 0.1F;   // standard deviation of B's elements
  bool halves = true;  // elements are representable in float16, as in most adapters
  uint32_t seed = 1;
};

inline std::string random_floats(size_t count, float size, bool halves, std::mt19937& random) {
  std::normal_distribution<float> normal(0, size);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    const float x = normal(random);
    bytes += io::le(halves ? kernels::f16_to_f32(kernels::f32_to_f16(x)) : x);
  }
  return bytes;
}

// Returns [outputs, inputs] of a matrix of tiny_spec's models.
inline std::pair<uint64_t, uint64_t> sizes_of(const tools::Spec& spec, const std::string& matrix) {
  const uint64_t head = spec.dim / spec.heads, q = spec.dim, kv = spec.kv_heads * head;
  if (matrix == "attn_q") return {q, spec.dim};
  if (matrix == "attn_k" || matrix == "attn_v") return {kv, spec.dim};
  if (matrix == "attn_output") return {spec.dim, q};
  if (matrix == "ffn_down") return {spec.dim, spec.ffn};
  return {spec.ffn, spec.dim};
}

// Writes an adapter for all layers of a model of this spec; returns its path.
inline std::string write_adapter(const std::string& name, const tools::Spec& spec,
                                 const MadeAdapter& made) {
  std::mt19937 random(made.seed);
  io::GgufImage image;
  image.text("general.type", "adapter").text("adapter.type", "lora");
  image.text("general.architecture", tools::arch_name(spec.arch));
  image.key("adapter.lora.alpha", 6, io::le(made.alpha));
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    for (const std::string& matrix : made.matrices) {
      const auto [outputs, inputs] = sizes_of(spec, matrix);
      const std::string tensor = fmt::format("blk.{}.{}.weight", layer, matrix);
      image.tensor(tensor + ".lora_a", {inputs, made.rank}, 0,
                   random_floats(inputs * made.rank, 0.2F, made.halves, random));
      image.tensor(tensor + ".lora_b", {made.rank, outputs}, 0,
                   random_floats(outputs * made.rank, made.size, made.halves, random));
    }
  const std::string path = test_path(name + ".gguf");
  std::ofstream(path, std::ios::binary) << image.build();
  return path;
}

// Copies the GGUF model of F32 weights at `path` with W + scale * factor * B A in place of each W
// that the adapter changes. Returns the path of the copy.
inline std::string merge_adapter(const std::string& path, const std::string& adapter_path,
                                 float scale) {
  std::ifstream in(path, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto model = io::ModelFile::parse_gguf(io::bytes_of(image), path);
  const auto adapter = io::open_adapter(adapter_path);
  EXPECT_TRUE(model.ok() && adapter.ok());
  for (const io::AdapterPair& pair : adapter->pairs) {
    const io::Tensor& w = *model->find(pair.matrix);
    std::vector<float> weights(w.elements()), a(pair.a.elements()), b(pair.b.elements());
    w.read_floats(weights.data());
    pair.a.read_floats(a.data());
    pair.b.read_floats(b.data());
    const size_t inputs = w.shape[1], rank = pair.a.shape[0];
    for (size_t o = 0; o < w.shape[0]; ++o)
      for (size_t i = 0; i < inputs; ++i)
        for (size_t r = 0; r < rank; ++r)
          weights[o * inputs + i] += scale * pair.factor * b[o * rank + r] * a[r * inputs + i];
    const size_t at = static_cast<size_t>(w.data.data() - io::bytes_of(image).data());
    std::memcpy(image.data() + at, weights.data(), weights.size() * sizeof(float));
  }
  const std::string merged = path + ".merged.gguf";
  std::ofstream(merged, std::ios::binary) << image;
  return merged;
}

inline Adapter read_adapter(const std::string& path, const Model& model) {
  const auto file = io::open_adapter(path);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  auto adapter = Adapter::read(*file, model);
  EXPECT_TRUE(adapter.ok()) << (adapter.ok() ? "" : adapter.error().message);
  return std::move(adapter).value();
}

}  // namespace kvick::model
