// Latent attention: the keys of files, and the special cases of the families that have it.

#include <cmath>

#include "model/families/family.h"
#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using base::fail;

constexpr uint32_t kMostSize = 1 << 16;
constexpr uint32_t kMostRow = 640, kMostHeads = 128;  // limits of the attention kernels

base::Status<> check_latent(const io::ModelFile& file, const LatentConfig& latent, uint32_t k_dim) {
  if (k_dim <= latent.rotated || latent.rotated % 2 != 0)
    return fail(
        "{}: {} of the {} elements of a key head turn: it must be an even number, and some "
        "must not",
        file.path(), latent.rotated, k_dim);
  if (latent.row() % 8 != 0 || latent.rank % 8 != 0 || latent.row() > kMostRow)
    return fail("{}: latent rows of {} and {} elements; kvick takes multiples of 8 up to {}",
                file.path(), latent.rank, latent.rotated, kMostRow);
  return base::Done{};
}

}  // namespace

// In files of 2024, key_length and value_length are sizes of heads; in newer files they are sizes
// of the rows that attention reads, and the keys with "_mla" have those of heads.
base::Result<bool> read_latent(const io::ModelFile& file, Config& config) {
  const std::string prefix = config.arch + ".attention.";
  if (!file.metadata().contains(prefix + "kv_lora_rank")) return false;
  const char* const behind = file.metadata().contains(prefix + "key_length_mla") ? "_mla" : "";
  LatentConfig latent;
  KVICK_TRY(latent.rank, bounded_number(file, prefix + "kv_lora_rank", kMostSize));
  if (file.metadata().contains(prefix + "q_lora_rank")) {
    KVICK_TRY(latent.q_rank, bounded_number(file, prefix + "q_lora_rank", kMostSize));
  }
  KVICK_TRY(latent.rotated, bounded_number(file, config.arch + ".rope.dimension_count", kMostSize));
  KVICK_TRY(const uint32_t k_dim, bounded_number(file, prefix + "key_length" + behind, kMostSize));
  KVICK_TRY_VOID(check_latent(file, latent, k_dim));
  latent.plain = k_dim - latent.rotated;
  for (LayerConfig& layer : config.layers) {
    KVICK_TRY(latent.v_dim, bounded_number(file, prefix + "value_length" + behind, kMostSize,
                                           config.dim / layer.heads));
    if (layer.heads > kMostHeads)
      return fail("{}: {} heads share a latent row; kvick takes up to {}", file.path(), layer.heads,
                  kMostHeads);
    layer.latent = latent;
    layer.kv_heads = 1, layer.k_dim = latent.row(), layer.v_dim = latent.rank;
    layer.scale = 1 / std::sqrt(static_cast<float>(k_dim));
  }
  return true;
}

namespace {

// Scales attention logits for a stretched context. GGUF's yarn_log_multiplier is a tenth of
// DeepSeek's mscale_all_dim in files of this architecture. Cosines and sines are not scaled,
// because mscale equals mscale_all_dim in all models.
base::Status<> scale_stretched(const io::ModelFile& file, Config& config) {
  const std::string prefix = config.arch + ".rope.scaling.";
  KVICK_TRY(const std::string type, file.get_string(prefix + "type", std::string("none")));
  KVICK_TRY(const double tenth, file.get_float(prefix + "yarn_log_multiplier", 0));
  if (type != "yarn" || tenth == 0) return base::Done{};
  KVICK_TRY(const double factor, positive_number(file, prefix + "factor", 1));
  KVICK_TRY(const double magnitude, positive_number(file, prefix + "attn_factor", 1));
  const double grown = 1 + tenth * std::log(factor);
  for (LayerConfig& layer : config.layers) layer.scale *= static_cast<float>(grown * grown);
  for (Rope& rope : config.ropes) rope.magnitude = static_cast<float>(magnitude);
  return base::Done{};
}

// The first files of GLM-4.7-Flash name no router, and it differs from the architecture's default.
base::Status<> set_router_of_glm(const io::ModelFile& file, Config& config) {
  constexpr uint32_t kVocab = 154880, kLayers = 47;
  KVICK_TRY(const uint64_t told, file.get_uint(config.arch + ".expert_gating_func", 0));
  if (told != 0 || config.vocab != kVocab || config.layer_count() != kLayers) return base::Done{};
  for (LayerConfig& layer : config.layers) layer.experts.router = ExpertsConfig::Router::kSigmoid;
  return base::Done{};
}

}  // namespace

base::Status<> configure_deepseek2(const io::ModelFile& file, Config& config) {
  if (!config.layers.front().is_latent())
    return fail("{}: {}.attention.kv_lora_rank is missing", file.path(), config.arch);
  KVICK_TRY_VOID(set_router_of_glm(file, config));
  KVICK_TRY_VOID(scale_stretched(file, config));
  // Mistral Large 3 scales queries as mistral3 does.
  const std::string key = config.arch + ".attention.temperature_";
  if (!file.metadata().contains(key + "scale")) return base::Done{};
  KVICK_TRY(const double scale, positive_number(file, key + "scale", 1));
  KVICK_TRY(const double floor, positive_number(file, key + "length", config.context));
  config.temperature = {.scale = static_cast<float>(scale), .floor = static_cast<float>(floor)};
  for (LayerConfig& layer : config.layers) layer.tempered = true;
  return base::Done{};
}

// Sets factors that files lack (openbmb's configuration_minicpm.py has them).
base::Status<> configure_minicpm3(const io::ModelFile& file, Config& config) {
  if (!config.layers.front().is_latent())
    return fail("{}: {}.attention.kv_lora_rank is missing", file.path(), config.arch);
  config.embedding_scale = 12;
  config.residual_scale = 1.4F / std::sqrt(static_cast<float>(config.layer_count()));
  config.logit_scale = 256.0F / static_cast<float>(config.dim);
  return base::Done{};
}

}  // namespace kvick::model
