#pragma once
// Small models with layers of different kinds, for the tests of engine/.

#include "make_model/families.h"

#include "engine/core/test_engine.h"
#include "model/families/family.h"

namespace kvick::engine {

// Makes windows restart at multiples of their size, as in Llama 4.
inline base::Status<> configure_chunks(const io::ModelFile&, model::Config& config) {
  for (model::LayerConfig& layer : config.layers) layer.chunked = layer.window != 0;
  return base::Done{};
}
// A family that kvick does not have.
inline constexpr model::Family kChunkedFamily = {.name = "chunked", .configure = configure_chunks};

struct MixedCase {
  const char* name;
  tools::Features features;
  bool windows;  // whether a group of layers has a window
};

// Features of a family's models: experts, sinks, norms and, in families with windows, every other
// layer with a window of `window` tokens.
inline tools::Features family_features(std::string_view name, uint32_t window) {
  tools::Features features = tools::made_family(name)->features;
  if (features.window != 0) features.window = window, features.window_period = 2;
  return features;
}

// Models of four layers with four heads each. Sanitizers make programs ten times slower, so they
// get only models that together use all the code that the others use.
inline const std::vector<MixedCase>& mixed_cases() {
  static const std::vector<MixedCase> cases = {
#if !defined(KVICK_SANITIZED)
    {"Windows", {.window = 12, .window_period = 2}, true},
    {"Sizes", {.heads = {4, 8, 4, 2}, .kv_heads = {2, 4, 2, 1}}, false},
    {"SharedRows", {.shared_layers = 1}, false},
    {"Gemma3", family_features("gemma3", 12), true},
#endif
    {"AllAtOnce",
     {.heads = {4, 8, 4, 2},
      .kv_heads = {2, 2, 2, 2},
      .ffn = {96, 64, 32, 128},
      .window = 9,
      .window_period = 2,
      .window_head_dim = 32,
      .window_rope_base = 300,
      .shared_layers = 2,
      .softcap = 5,
      .sinks = true},
     true},
    {"Chunks", {.family = "chunked", .window = 8, .window_period = 2}, true},
    {"GptOss", family_features("gpt-oss", 12), true},
    {"Qwen3Moe", family_features("qwen3moe", 0), false}
  };
  return cases;
}

inline tools::Spec mixed_spec(const tools::Features& features, uint32_t context = 128) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.layers = 4;
  spec.context = context;
  spec.features = features;
  return spec;
}

inline std::unique_ptr<Engine> mixed_engine(const tools::Features& features,
                                            uint32_t context = 128) {
  return engine_of(mixed_spec(features, context), Attention::kFused, PromptArithmetic::kExact,
                   {&kChunkedFamily, 1});
}

}  // namespace kvick::engine
