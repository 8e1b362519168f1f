#pragma once
// Captures what the layers of a model compute on a text, layer by layer, by the engine itself.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/core/engine.h"

namespace kvick::distil {

// One layer's activations on one sequence, valid during the call.
struct LayerActivations {
  uint32_t layer = 0, tokens = 0;
  float scale = 0;           // of attention logits; 0: 1 / sqrt(head_dim)
  const float* x = nullptr;  // input of the layer's projections, [tokens][dim]
  const float* q = nullptr;  // after rotary position, [tokens][heads][head_dim]
  const float* k = nullptr;  // after rotary position, [tokens][kv_heads][head_dim]
  const float* v = nullptr;  // [tokens][kv_heads][v_dim]
};
using LayerVisitor = base::FunctionRef<void(const LayerActivations&)>;

class Capture {
 public:
  // For sequences of up to `window` tokens. Errors: those of make_store.
  static base::Result<Capture> make(engine::Engine& engine, uint32_t window);

  // Computes one sequence and visits its layers in order, each as soon as it is complete, so that
  // only one is in memory. The visitor may use the engine's threads. Error: no room.
  base::Status<> read(std::span<const engine::Token> tokens, LayerVisitor visit);

 private:
  Capture(engine::Engine& engine, std::unique_ptr<kv::Store> store)
      : store_(std::move(store)), executor_(engine.make_executor()) {}

  std::unique_ptr<kv::Store> store_;
  model::Executor executor_;
  std::vector<float> x_, q_, k_, v_;
};

}  // namespace kvick::distil
