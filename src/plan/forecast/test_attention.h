#pragma once
// What the tests of this folder run attention with.

#include "kv/registry/registry.h"
#include "model/attend/attend.h"

namespace kvick::plan {

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
