#pragma once

#include "lab/core/test_bench.h"

namespace kvick::lab {

// A bench with a small random model of `layers` layers and a context of 1,024 tokens, "deep".
struct DeepBench : TestBench {
  explicit DeepBench(uint32_t layers) {
    tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
    spec.layers = layers;
    spec.context = 1024;
    engine = engine::engine_of(spec);
    bench.model_path = "models/deep.gguf";
    bench.model = [this](engine::Attention) -> base::Result<engine::Engine*> {
      return engine.get();
    };
  }
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace kvick::lab
