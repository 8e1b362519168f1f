#pragma once
// Helpers of this folder's tests that run attention.

#include <algorithm>

#include "io/file/builder.h"
#include "kv/registry/registry.h"
#include "model/attend/attend.h"
#include "plan/forecast/model_size.h"

namespace kvick::plan {

// Nine layers: the third, sixth and ninth see all tokens, the others a window of eight; the last
// three read the rows of earlier layers.
inline ModelSize mixed_size() {
  ModelSize size = parse_shape(
                       "layers=9,heads=4,kv_heads=2,head_dim=32,dim=64,ffn=96,vocab=40,"
                       "context=1000000")
                       .value();
  size.metadata["llama.attention.sliding_window"] = {uint64_t{8}};
  size.metadata["llama.attention.sliding_window_pattern"] = {uint64_t{3}};
  size.metadata["llama.attention.shared_kv_layers"] = {uint64_t{3}};
  std::erase_if(size.tensors, [](const io::Tensor& tensor) {
    return tensor.name.starts_with("blk.") && tensor.name[4] >= '6' &&
           (tensor.name.ends_with("attn_k.weight") || tensor.name.ends_with("attn_v.weight"));
  });
  io::ModelFileBuilder builder(io::Container::kGguf, "nine layers");
  builder.metadata() = size.metadata;
  for (const io::Tensor& tensor : size.tensors) (void)builder.add_tensor(tensor);
  size.config = model::read_config(builder.finish()).value();
  return size;
}

struct Machinery {
  static constexpr uint32_t kMaxTokens = 64;

  Machinery(const std::string& spec, unsigned threads)
      : pool(threads), workspace(pool, kernels::table(base::best_isa())) {
    config.layers.assign(2, model::LayerConfig::attention(4, 2, 32));
    setup.shape = {.layers = 2,
                   .kv_heads = 2,
                   .head_dim = 32,
                   .max_tokens = kMaxTokens,
                   .k_type = kernels::DType::kF32,
                   .v_type = kernels::DType::kF32};
    store = std::move(kv::make_store(*kv::parse_spec(spec), setup)).value();
  }

  base::ThreadPool pool;
  model::Config config;
  model::Workspace workspace;
  kv::Setup setup;
  std::unique_ptr<kv::Store> store;
};

}  // namespace kvick::plan
