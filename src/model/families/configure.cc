#include <algorithm>
#include <cmath>

#include "model/families/family.h"
#include "model/families/read_config.h"
#include "model/states/state_block.h"

namespace kvick::model {

base::Status<> scale_embedding_by_width(const io::ModelFile&, Config& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.dim));
  return base::Done{};
}

// Gemma 2 and 3. The largest model of each scales logits by the head width embedding / heads, which
// is not its real head width. Files do not contain that; google's gemma_pytorch has
// query_pre_attn_scalar for it.
base::Status<> configure_gemma(const io::ModelFile& file, Config& config) {
  KVICK_TRY_VOID(scale_embedding_by_width(file, config));
  const uint32_t largest = config.arch == "gemma2" ? 46 : 62;
  const bool told = file.metadata().contains(config.arch + ".attention.scale");
  if (told || config.layer_count() != largest) return base::Done{};
  for (LayerConfig& layer : config.layers)
    layer.scale = 1 / std::sqrt(static_cast<float>(config.dim / layer.heads));
  return base::Done{};
}

// Every fourth layer does not rotate (SmolLM3; Yang et al. 2025, "Rope to Nope and Back Again").
base::Status<> configure_smollm3(const io::ModelFile&, Config& config) {
  for (uint32_t i = 3; i < config.layer_count(); i += 4) config.layers[i].rope = LayerConfig::kNone;
  return base::Done{};
}

namespace {

// Reads factors on embeddings, residuals and logits. Those in `config` are the defaults; GGUF's
// logit_scale divides.
base::Status<> read_factors(const io::ModelFile& file, Config& config) {
  const auto factor = [&](const char* key, float& out) -> base::Status<> {
    KVICK_TRY(const double value, positive_number(file, config.arch + "." + key, out));
    out = static_cast<float>(value);
    return base::Done{};
  };
  KVICK_TRY_VOID(factor("embedding_scale", config.embedding_scale));
  KVICK_TRY_VOID(factor("residual_scale", config.residual_scale));
  float divisor = 1 / config.logit_scale;
  KVICK_TRY_VOID(factor("logit_scale", divisor));
  config.logit_scale = 1 / divisor;
  return base::Done{};
}

// Only layers with a window rotate, if there are any.
void rotate_windows_only(Config& config) {
  const auto windowed = [](const LayerConfig& layer) { return layer.window != 0; };
  if (std::ranges::none_of(config.layers, windowed)) return;
  for (LayerConfig& layer : config.layers)
    if (!windowed(layer)) layer.rope = LayerConfig::kNone;
}

}  // namespace

// Files of 2024 lack the factors (openbmb's configuration_minicpm.py has them).
base::Status<> configure_minicpm(const io::ModelFile& file, Config& config) {
  config.embedding_scale = 12;
  config.residual_scale = 1.4F / std::sqrt(static_cast<float>(config.layer_count()));
  config.logit_scale = 256.0F / static_cast<float>(config.dim);
  return read_factors(file, config);
}

base::Status<> configure_exaone4(const io::ModelFile&, Config& config) {
  rotate_windows_only(config);
  return base::Done{};
}

// In these files logit_scale multiplies.
base::Status<> configure_cohere(const io::ModelFile& file, Config& config) {
  if (file.find("blk.0.attn_q_norm.weight") != nullptr)
    return base::fail(
        "{}: its heads have norms with weights of their own, as in Command R+, which kvick does "
        "not "
        "run",
        file.path());
  KVICK_TRY(const double scale, positive_number(file, config.arch + ".logit_scale", 1));
  config.logit_scale = static_cast<float>(scale);
  rotate_windows_only(config);
  return base::Done{};
}

// Both blocks read the same norm, and their sum is added to the residual stream.
base::Result<Layer> read_cohere_layer(const BlockReader& reader, const Family& family, Parts&) {
  KVICK_TRY(std::unique_ptr<Block> attention, SelfAttention::read(reader, family.attention));
  KVICK_TRY(std::unique_ptr<Block> wide, read_feed_forward(reader, family.feed_forward));
  Layer layer(1);
  layer[0] = side_by_side(std::move(attention), std::move(wide));
  return layer;
}

// Factors on embeddings, residuals and logits (Granite 3.0 technical report 2024). Granite models
// that keep states have no rotation at all.
base::Status<> configure_granite(const io::ModelFile& file, Config& config) {
  KVICK_TRY_VOID(read_factors(file, config));
  KVICK_TRY(const bool rotates, file.get_bool(config.arch + ".rope.scaling.finetuned", true));
  if (!rotates)
    for (LayerConfig& layer : config.layers) layer.rope = LayerConfig::kNone;
  return base::Done{};
}

// The models with a context of 4096 tokens have a window of 2047 tokens (config.json of
// Phi-3-mini-4k and Phi-3-medium-4k). Files of the first months lack that key.
base::Status<> configure_phi3(const io::ModelFile& file, Config& config) {
  if (file.metadata().contains(config.arch + ".attention.sliding_window")) return base::Done{};
  if (config.context == 4096)
    for (LayerConfig& layer : config.layers) layer.window = 2047;
  return base::Done{};
}

// Queries are multiplied by a factor that grows with the number of original contexts before them.
base::Status<> configure_mistral3(const io::ModelFile& file, Config& config) {
  const std::string key = config.arch + ".attention.temperature_scale";
  if (!file.metadata().contains(key)) return base::Done{};
  KVICK_TRY(const double scale, positive_number(file, key, 1));
  KVICK_TRY(
      const double floor,
      positive_number(file, config.arch + ".rope.scaling.original_context_length", config.context));
  config.temperature = {.scale = static_cast<float>(scale), .floor = static_cast<float>(floor)};
  for (LayerConfig& layer : config.layers) layer.tempered = true;
  return base::Done{};
}

// Some models of this family have norms of heads and some have not.
base::Status<> configure_glm4moe(const io::ModelFile& file, Config& config) {
  config.head_norms = file.find("blk.0.attn_q_norm.weight") != nullptr;
  return base::Done{};
}

// Layers that see all rows do not rotate; their queries are scaled up every 8192 tokens (Llama 4,
// iRoPE).
base::Status<> configure_llama4(const io::ModelFile& file, Config& config) {
  constexpr uint64_t kMaverick =
      128;  // number of experts of the model that does not normalise heads
  KVICK_TRY(const uint64_t experts, file.get_uint(config.arch + ".expert_count", 0));
  config.head_norms = experts != kMaverick;
  // MobileLLM's files have a window of 0: its models rotate in all layers and see all rows.
  KVICK_TRY(const uint64_t window, file.get_uint(config.arch + ".attention.sliding_window", 1));
  if (window == 0) return base::Done{};
  config.temperature = {.scale = 0.1F, .floor = 8192, .offset = 1};
  for (LayerConfig& layer : config.layers) {
    if (layer.window != 0) continue;
    layer.rope = LayerConfig::kNone;
    layer.tempered = true;
  }
  return base::Done{};
}

}  // namespace kvick::model
