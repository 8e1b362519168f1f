#include "model/families/read_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/families/family.h"

namespace kvick::model {
namespace {

using base::fail;
using base::Result;

// Far beyond any existing model, yet small enough that products of three of them fit 64 bits.
constexpr uint64_t kMostLayers = 1024, kMostWidth = 1 << 20, kMostVocab = 1 << 24,
                   kMostContext = 1 << 27;
constexpr uint64_t kMostHeadDim = 640, kMostGroup = 128;  // limits of the attention kernels

Result<uint32_t> bounded(const io::ModelFile& file, const std::string& key, uint64_t value,
                         uint64_t most, uint64_t least = 1) {
  if (value < least || value > most)
    return fail("{}: {} is {}, outside {} to {}", file.path(), key, value, least, most);
  return static_cast<uint32_t>(value);
}

// Reads one number per layer, from one number for all layers or an array.
Result<std::vector<uint32_t>> per_layer(const io::ModelFile& file, const std::string& key,
                                        uint32_t layers, uint64_t least) {
  KVICK_TRY(const std::vector<uint64_t> values, file.get_uint_each(key, layers));
  std::vector<uint32_t> out;
  for (size_t i = 0; i < values.size(); ++i) {
    KVICK_TRY(const uint32_t value,
              bounded(file, fmt::format("{} of layer {}", key, i), values[i], kMostWidth, least));
    out.push_back(value);
  }
  return out;
}

// Returns which layers have the file's window. With a period p, all but the last (or first) of each
// p layers have it.
Result<std::vector<bool>> windowed_layers(const io::ModelFile& file, const std::string& prefix,
                                          uint32_t layers, const Family::Windows& windows) {
  uint32_t period = windows.period;
  const std::string key = prefix + "attention.sliding_window_pattern";
  std::vector<bool> windowed(layers, true);
  if (file.metadata().contains(key)) {
    if (file.is_array(key)) {
      KVICK_TRY(const std::vector<uint64_t> flags, file.get_uint_each(key, layers));
      for (uint32_t i = 0; i < layers; ++i) windowed[i] = flags[i] != 0;
      return windowed;
    }
    KVICK_TRY(period, bounded_number(file, key, kMostLayers));
  }
  if (period > 0)
    for (uint32_t i = 0; i < layers; ++i)
      windowed[i] = i % period != (windows.full_first ? 0 : period - 1);
  return windowed;
}

base::Status<> read_windows(const io::ModelFile& file, const Family* family, Config& config) {
  const std::string prefix = config.arch + ".";
  const Family::Windows windows = family != nullptr ? family->windows : Family::Windows{};
  KVICK_TRY(uint64_t window, file.get_uint(prefix + "attention.sliding_window", windows.size));
  if (window == 0) return base::Done{};
  // A window as long as the context hides nothing, but it still marks the layers that use the
  // rotary keys of windows. With both_ways, half of the window lies on each side of the query, and
  // the query's own token adds one.
  const uint64_t sides = config.both_ways() ? 2 : 1;
  window = std::min<uint64_t>(window, sides * config.context);
  if (config.both_ways()) window = window / 2 * 2 + 1;
  KVICK_TRY(const std::vector<bool> windowed,
            windowed_layers(file, prefix, config.layer_count(), windows));
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    if (!windowed[i] || !config.layers[i].attends()) continue;
    config.layers[i].window = static_cast<uint32_t>(window);
    config.layers[i].chunked = windows.chunked;
  }
  return base::Done{};
}

// Removes windows that hide nothing. Call it last, because other numbers depend on which layers
// have a window.
void drop_idle_windows(Config& config) {
  for (LayerConfig& layer : config.layers) {
    const uint32_t one_side = layer.both_ways ? layer.window / 2 + 1 : layer.window;
    if (layer.window != 0 && one_side >= config.context) layer.window = 0, layer.chunked = false;
  }
}

base::Status<> read_head_sizes(const io::ModelFile& file, Config& config) {
  const std::string prefix = config.arch + ".attention.";
  for (LayerConfig& layer : config.layers) {
    if (!layer.attends()) continue;
    KVICK_TRY(uint64_t k_dim, file.get_uint(prefix + "key_length", config.dim / layer.heads));
    KVICK_TRY(uint64_t v_dim, file.get_uint(prefix + "value_length", k_dim));
    if (layer.window != 0) {
      KVICK_TRY(k_dim, file.get_uint(prefix + "key_length_swa", k_dim));
      KVICK_TRY(v_dim, file.get_uint(prefix + "value_length_swa", v_dim));
    }
    for (const uint64_t dim : {k_dim, v_dim})
      if (dim == 0 || dim % 8 != 0 || dim > kMostHeadDim)
        return fail(
            "{}: heads of {} key and {} value elements; kvick takes multiples of 8 up to {}",
            file.path(), k_dim, v_dim, kMostHeadDim);
    LayerConfig made =
        LayerConfig::attention(layer.heads, layer.kv_heads, static_cast<uint32_t>(k_dim));
    made.v_dim = static_cast<uint32_t>(v_dim);
    made.ffn = layer.ffn, made.window = layer.window, made.chunked = layer.chunked;
    made.both_ways = layer.both_ways;
    layer = made;
  }
  return base::Done{};
}

// The last layers may read the rows of an earlier layer: the last one of the same shape that has
// its own rows.
base::Status<> share_rows(const io::ModelFile& file, Config& config) {
  const std::string key = config.arch + ".attention.shared_kv_layers";
  KVICK_TRY(const uint64_t shared, file.get_uint(key, 0));
  const uint32_t layers = config.layer_count();
  if (shared >= layers)
    return fail("{}: {} is {}, but must leave some of the {} layers their rows", file.path(), key,
                shared, layers);
  const uint32_t own = layers - static_cast<uint32_t>(shared);
  for (uint32_t i = own; i < layers; ++i) {
    LayerConfig& layer = config.layers[i];
    for (uint32_t from = own; from-- > 0 && layer.owns_rows();) {
      const LayerConfig& other = config.layers[from];
      if (other.window == layer.window && other.kv_heads == layer.kv_heads &&
          other.k_dim == layer.k_dim && other.v_dim == layer.v_dim)
        layer.rows_of = from;
    }
    if (layer.owns_rows())
      return fail("{}: {} is {}, but none of the first {} layers has the shape of layer {}",
                  file.path(), key, shared, own, i);
  }
  return base::Done{};
}

// Drops the draft blocks that a file may have after the model's layers, unless a draft model is
// read.
base::Status<> choose_blocks(const io::ModelFile& file, Blocks blocks, Config& config) {
  KVICK_TRY(const uint32_t drafting, drafting_blocks(file, config));
  const size_t layers = config.layers.size() - drafting;
  if (blocks == Blocks::kDrafter && drafting == 0)
    return fail(
        "{}: the file has no layer that predicts further tokens (nextn); draft by lookup, or by a "
        "smaller model",
        file.path());
  // Draft models keep all layers for now: numbers are still read by a layer's index.
  if (blocks == Blocks::kLayers) config.layers.resize(layers);
  return base::Done{};
}

// Checks the heads of the layers that attend.
base::Status<> check_heads(const io::ModelFile& file, const Config& config) {
  const std::string prefix = config.arch + ".attention.";
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const LayerConfig& layer = config.layers[i];
    if (!layer.attends()) continue;
    for (const auto& [key, heads] :
         {std::pair{"head_count", layer.heads}, std::pair{"head_count_kv", layer.kv_heads}})
      KVICK_TRY_VOID(
          bounded(file, fmt::format("{}{} of layer {}", prefix, key, i), heads, kMostWidth));
    if (layer.heads % layer.kv_heads != 0)
      return fail("{}: {}head_count {} is not a multiple of head_count_kv {}", file.path(), prefix,
                  layer.heads, layer.kv_heads);
    if (layer.group() > kMostGroup)
      return fail("{}: {} heads share a KV head in layer {}; kvick takes up to {}", file.path(),
                  layer.group(), i, kMostGroup);
  }
  return base::Done{};
}

base::Status<> read_layers(const io::ModelFile& file, const Family* family, Blocks blocks,
                           Config& config) {
  const std::string prefix = config.arch + ".";
  KVICK_TRY(const uint32_t layers, bounded_number(file, prefix + "block_count", kMostLayers));
  // Layers that keep a state have no heads, and layers without a feed-forward block have no width.
  const bool states = family != nullptr && family->read_states != nullptr;
  const auto each = [&](const char* key) {
    return per_layer(file, prefix + key, layers, states ? 0 : 1);
  };
  // Files where all layers have experts may have only the experts' width.
  const bool dense = file.metadata().contains(prefix + "feed_forward_length") ||
                     !file.metadata().contains(prefix + "expert_feed_forward_length");
  KVICK_TRY(const std::vector<uint32_t> ffn,
            each(dense ? "feed_forward_length" : "expert_feed_forward_length"));
  KVICK_TRY(const std::vector<uint32_t> heads, each("attention.head_count"));
  std::vector<uint32_t> kv_heads = heads;
  if (file.metadata().contains(prefix + "attention.head_count_kv")) {
    KVICK_TRY(kv_heads, each("attention.head_count_kv"));
  }
  config.layers.resize(layers);
  for (uint32_t i = 0; i < layers; ++i) {
    config.layers[i].heads = heads[i];
    config.layers[i].kv_heads = kv_heads[i];
    config.layers[i].ffn = ffn[i];
  }
  if (states) KVICK_TRY_VOID(family->read_states(file, config));
  KVICK_TRY_VOID(choose_blocks(file, blocks, config));
  KVICK_TRY_VOID(check_heads(file, config));
  const bool causal = family == nullptr || !family->both_ways;
  KVICK_TRY(const bool one_way, file.get_bool(prefix + "attention.causal", causal));
  if (states && !one_way)
    return fail("{}: {}attention.causal is false, but kvick reads {} one way only", file.path(),
                prefix, config.arch);
  for (LayerConfig& layer : config.layers) layer.both_ways = !causal || !one_way;
  KVICK_TRY_VOID(read_windows(file, family, config));
  KVICK_TRY(const bool latent, read_latent(file, config));
  if (!latent) KVICK_TRY_VOID(read_head_sizes(file, config));
  return share_rows(file, config);
}

// Files converted before the key was known lack it, although the model was trained with a softcap.
base::Status<> read_softcaps(const io::ModelFile& file, const Family& family, Config& config) {
  const auto cap = [&](const char* key, float fallback) -> Result<float> {
    const std::string full = config.arch + "." + key;
    KVICK_TRY(const double value, file.get_float(full, fallback));
    if (!(value >= 0) || !std::isfinite(value))
      return fail("{}: {} is {}, but must not be negative", file.path(), full, value);
    return static_cast<float>(value);
  };
  KVICK_TRY(config.logit_softcap, cap("final_logit_softcapping", family.softcaps.logits));
  KVICK_TRY(const float logits, cap("attn_logit_softcapping", family.softcaps.attention));
  for (LayerConfig& layer : config.layers) layer.softcap = logits;
  return base::Done{};
}

base::Status<> read_scale(const io::ModelFile& file, Config& config) {
  const std::string key = config.arch + ".attention.scale";
  if (!file.metadata().contains(key)) return base::Done{};
  KVICK_TRY(const double scale, positive_number(file, key, 1));
  for (LayerConfig& layer : config.layers) layer.scale = static_cast<float>(scale);
  return base::Done{};
}

// Layers with a window use their own rotary keys if the file has them. Equal tables are stored
// once.
base::Status<> read_ropes(const io::ModelFile& file, const Family& family, uint32_t sequence,
                          Config& config) {
  using Scaled = Family::Windows::Scaled;
  const std::string prefix = config.arch + ".";
  const auto has = [&](const char* key) { return file.metadata().contains(prefix + key); };
  const Family::Windows& windows = family.windows;
  const bool own = has("rope.freq_base_swa") || has("rope.dimension_count_swa") ||
                   has("attention.key_length_swa");
  for (LayerConfig& layer : config.layers) {
    if (!layer.attends()) continue;
    RopeKeys keys = {.interleaved = family.interleaved, .sequence = sequence};
    if (layer.window != 0) {
      if (own || windows.rope_base != 0) keys.suffix = "_swa";
      keys.base = windows.rope_base;
      keys.scaled =
          windows.scaled == Scaled::kUnlessOwnKeys ? !own : windows.scaled == Scaled::kAlways;
    }
    KVICK_TRY(Rope rope, read_rope(file, config, keys, layer.k_dim));
    const auto found = std::find(config.ropes.begin(), config.ropes.end(), rope);
    layer.rope = static_cast<uint32_t>(found - config.ropes.begin());
    if (found == config.ropes.end()) config.ropes.push_back(std::move(rope));
  }
  return base::Done{};
}

// GGUF's numbers; 0 means none.
base::Status<> read_pooling(const io::ModelFile& file, Config& config) {
  constexpr std::array kKinds = {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kRank};
  const std::string key = config.arch + ".pooling_type";
  KVICK_TRY(const uint64_t kind, file.get_uint(key, 0));
  if (kind > kKinds.size())
    return fail("{}: {} is {}; 0 to {} are known", file.path(), key, kind, kKinds.size());
  if (kind > 0) config.pooling = kKinds[kind - 1];
  return base::Done{};
}

base::Status<> read_embedding_size(const io::ModelFile& file, Config& config) {
  const io::Tensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    return fail("{}: tensor token_embd.weight is missing or not a matrix", file.path());
  KVICK_TRY(config.vocab, bounded(file, "the first dimension of token_embd.weight",
                                  embedding->shape[0], kMostVocab));
  return base::Done{};
}

}  // namespace

Result<uint32_t> bounded_number(const io::ModelFile& file, const std::string& key, uint64_t most,
                                std::optional<uint64_t> fallback) {
  if (fallback) {
    KVICK_TRY(const uint64_t value, file.get_uint(key, *fallback));
    return bounded(file, key, value, most);
  }
  KVICK_TRY(const uint64_t value, file.get_uint(key));
  return bounded(file, key, value, most);
}

Result<double> positive_number(const io::ModelFile& file, const std::string& key, double fallback) {
  KVICK_TRY(const double value, file.get_float(key, fallback));
  if (!(value > 0) || !std::isfinite(value))
    return fail("{}: {} is {}, but must be a positive number", file.path(), key, value);
  return value;
}

Result<uint32_t> drafting_blocks(const io::ModelFile& file, const Config& config) {
  const std::string key = config.arch + ".nextn_predict_layers";
  KVICK_TRY(const uint64_t blocks, file.get_uint(key, 0));
  if (blocks >= config.layers.size())
    return fail("{}: {} is {}, but must leave some of the {} blocks", file.path(), key, blocks,
                config.layers.size());
  return static_cast<uint32_t>(blocks);
}

Result<Config> read_config(const io::ModelFile& file, const Family* family, uint32_t sequence,
                           Blocks blocks) {
  Config config;
  KVICK_TRY(config.arch, file.get_string("general.architecture"));
  KVICK_TRY(config.name, file.get_string("general.name", config.arch));
  const std::string prefix = config.arch + ".";
  KVICK_TRY(config.dim, bounded_number(file, prefix + "embedding_length", kMostWidth));
  KVICK_TRY(config.context, bounded_number(file, prefix + "context_length", kMostContext));
  KVICK_TRY_VOID(read_layers(file, family, blocks, config));
  KVICK_TRY_VOID(read_embedding_size(file, config));
  KVICK_TRY_VOID(read_pooling(file, config));
  if (family == nullptr) {
    drop_idle_windows(config);
    return config;
  }
  KVICK_TRY_VOID(read_experts(file, *family, config));
  // Files of Nemotron-H may have only this key.
  KVICK_TRY(const double eps_of_layer_norm,
            positive_number(file, prefix + "attention.layer_norm_epsilon", 1e-5));
  KVICK_TRY(const double eps,
            positive_number(file, prefix + std::string(family->eps_key), eps_of_layer_norm));
  config.norm_eps = static_cast<float>(eps);
  if (family->rotates)
    KVICK_TRY_VOID(read_ropes(file, *family, sequence != 0 ? sequence : config.context, config));
  KVICK_TRY_VOID(read_softcaps(file, *family, config));
  KVICK_TRY_VOID(read_scale(file, config));
  for (uint32_t i = 0; i < config.layer_count(); ++i)
    config.layers[i].sinks = file.find(fmt::format("blk.{}.attn_sinks.weight", i)) != nullptr;
  if (family->configure != nullptr) KVICK_TRY_VOID(family->configure(file, config));
  const QkNorm heads = family->attention.qk_norm;
  config.norm_behind_rope =
      config.head_norms && (heads == QkNorm::kRotated || heads == QkNorm::kBehindRope);
  if (blocks == Blocks::kDrafter) {
    KVICK_TRY(const uint32_t drafting, drafting_blocks(file, config));
    config.layers = {config.layers[config.layers.size() - drafting]};
  }
  drop_idle_windows(config);
  return config;
}

Result<Config> read_config(const io::ModelFile& file) {
  KVICK_TRY(const std::string arch, file.get_string("general.architecture"));
  return read_config(file, find_family(arch));
}

}  // namespace kvick::model
