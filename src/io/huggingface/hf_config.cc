#include "io/huggingface/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

// More than any model has; what is sized by them stays small.
constexpr uint64_t kMaxLayers = 100'000, kMaxSize = uint64_t{1} << 31;

struct Family {
  std::string_view model_type, architecture;
  bool tied_by_default;  // transformers' default for the family's tie_word_embeddings
};
constexpr std::array<Family, 5> kFamilies = {{{"llama", "llama", false},
                                              {"mistral", "llama", false},
                                              {"qwen2", "qwen2", false},
                                              {"qwen3", "qwen3", false},
                                              {"opt", "opt", true}}};

base::Result<Family> find_family(const JsonObject& config) {
  KVICK_TRY(const std::string type, config.get_string("model_type"));
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return base::fail("{} is {}, which kvick does not know; it knows {}", config.label("model_type"),
                    in_quotes(type), known);
}

// Writes <arch>.* keys from fields of one config.
class Mapper {
 public:
  Mapper(const JsonObject& config, std::string architecture, Metadata& out)
      : config_(config), prefix_(std::move(architecture) + "."), out_(out) {}

  template <typename T>
  void set(std::string_view key, T value) {
    out_[prefix_ + std::string(key)].data = std::move(value);
  }

  // A size: 1 to 2^31.
  base::Result<uint64_t> size(std::string_view field, std::optional<uint64_t> fallback = {}) const {
    KVICK_TRY(const uint64_t value, config_.get_uint(field, fallback));
    if (value < 1 || value > kMaxSize)
      return base::fail("{} is {}; 1 to {} are allowed", config_.label(field), value, kMaxSize);
    return value;
  }

  base::Status<> copy_size(std::string_view field, std::string_view key) {
    KVICK_TRY(const uint64_t value, size(field));
    set(key, value);
    return base::Done{};
  }

  // For settings that must have the one value that kvick computes with.
  base::Status<> require_flag(std::string_view field, bool wanted) const {
    KVICK_TRY(const bool value, config_.get_bool(field, wanted));
    if (value == wanted) return base::Done{};
    return base::fail("{} is {}, which kvick does not support", config_.label(field), value);
  }
  base::Status<> require_name(std::string_view field, std::string_view wanted) const {
    KVICK_TRY(const std::string value, config_.get_string(field, std::string(wanted)));
    if (value == wanted) return base::Done{};
    return base::fail("{} is {}; kvick supports only {} there", config_.label(field),
                      in_quotes(value), in_quotes(wanted));
  }

  const JsonObject& config() const { return config_; }

 private:
  const JsonObject& config_;
  std::string prefix_;
  Metadata& out_;
};

struct Heads {
  uint64_t embedding = 0, heads = 0, head_dim = 0;
};

// The sizes that every family has under the same names.
base::Result<Heads> map_sizes(Mapper& map) {
  Heads out;
  KVICK_TRY(out.embedding, map.size("hidden_size"));
  KVICK_TRY(out.heads, map.size("num_attention_heads"));
  map.set("embedding_length", out.embedding);
  map.set("attention.head_count", out.heads);
  KVICK_TRY_VOID(map.copy_size("max_position_embeddings", "context_length"));
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  if (layers > kMaxLayers)
    return base::fail("{} is {}; at most {} are allowed", map.config().label("num_hidden_layers"),
                      layers, kMaxLayers);
  map.set("block_count", layers);
  return out;
}

base::Result<uint64_t> even_head_dim(const Mapper& map, const Heads& sizes) {
  if (sizes.embedding % sizes.heads != 0)
    return base::fail("{} is {}, no multiple of the {} of 'num_attention_heads'",
                      map.config().label("hidden_size"), sizes.embedding, sizes.heads);
  return sizes.embedding / sizes.heads;
}

base::Status<> map_heads(Mapper& map, Heads& sizes) {
  KVICK_TRY(const uint64_t kv_heads, map.size("num_key_value_heads", sizes.heads));
  if (sizes.heads % kv_heads != 0)
    return base::fail("{} is {}, of which the {} of 'num_attention_heads' are no multiple",
                      map.config().label("num_key_value_heads"), kv_heads, sizes.heads);
  map.set("attention.head_count_kv", kv_heads);
  if (map.config().find("head_dim")) {
    KVICK_TRY(sizes.head_dim, map.size("head_dim"));
    map.set("attention.key_length", sizes.head_dim);
    map.set("attention.value_length", sizes.head_dim);
  } else {
    KVICK_TRY(sizes.head_dim, even_head_dim(map, sizes));
  }
  return base::Done{};
}

// Which layers see a window only.
base::Status<> read_layer_types(const Mapper& map, std::vector<bool>& slides) {
  if (!map.config().find("layer_types")) return base::Done{};
  KVICK_TRY(const simdjson::dom::array types, map.config().get_array("layer_types"));
  if (types.size() != slides.size())
    return base::fail("{} names {} layers, but there are {}", map.config().label("layer_types"),
                      types.size(), slides.size());
  size_t layer = 0;
  for (const Json type : types) {
    std::string_view name;
    if (type.get(name) != simdjson::SUCCESS ||
        (name != "full_attention" && name != "sliding_attention"))
      return base::fail("{} must hold 'full_attention' or 'sliding_attention'",
                        map.config().label("layer_types"));
    slides[layer++] = name == "sliding_attention";
  }
  return base::Done{};
}

base::Status<> map_window(Mapper& map, const std::string& architecture) {
  if (!map.config().find("sliding_window")) return base::Done{};
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  std::vector<bool> slides(layers, true);
  if (architecture != "llama") {  // the qwen families switch it, and by default it is off
    KVICK_TRY(const bool on, map.config().get_bool("use_sliding_window", false));
    KVICK_TRY(const uint64_t full_layers, map.config().get_uint("max_window_layers", 28));
    for (uint64_t i = 0; i < layers; ++i) slides[i] = on && i >= full_layers;
  }
  KVICK_TRY_VOID(read_layer_types(map, slides));
  const auto sliding = std::count(slides.begin(), slides.end(), true);
  if (sliding == 0) return base::Done{};
  if (static_cast<uint64_t>(sliding) < layers) map.set("attention.sliding_window_pattern", slides);
  return map.copy_size("sliding_window", "attention.sliding_window");
}

base::Result<double> positive(const JsonObject& fields, std::string_view field,
                              std::optional<double> fallback = {}) {
  KVICK_TRY(const double value, fields.get_float(field, fallback));
  if (std::isfinite(value) && value > 0) return value;
  return base::fail("{} is {}, which must be above 0", fields.label(field), value);
}

base::Status<> map_original_context(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const uint64_t context, map.size("max_position_embeddings"));
  KVICK_TRY(const uint64_t original, rope.get_uint("original_max_position_embeddings", context));
  if (original < 1 || original > kMaxSize)
    return base::fail("{} is {}; 1 to {} are allowed",
                      rope.label("original_max_position_embeddings"), original, kMaxSize);
  map.set("rope.scaling.original_context_length", original);
  return base::Done{};
}

base::Status<> map_llama3(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const double low, positive(rope, "low_freq_factor"));
  KVICK_TRY(const double high, positive(rope, "high_freq_factor"));
  if (low >= high)
    return base::fail("{} is {}, which must be above 'low_freq_factor', {}",
                      rope.label("high_freq_factor"), high, low);
  map.set("rope.scaling.low_freq_factor", low);
  map.set("rope.scaling.high_freq_factor", high);
  return map_original_context(map, rope);
}

base::Status<> map_yarn(Mapper& map, const JsonObject& rope, double factor) {
  for (const std::string_view field : {"mscale", "mscale_all_dim"})
    if (rope.find(field)) return base::fail("{} is not supported", rope.label(field));
  KVICK_TRY(const double fast, positive(rope, "beta_fast", 32));
  KVICK_TRY(const double slow, positive(rope, "beta_slow", 1));
  map.set("rope.scaling.yarn_beta_fast", fast);
  map.set("rope.scaling.yarn_beta_slow", slow);
  // transformers gives the whole factor on cos and sin; GGUF what multiplies the usual one.
  const double usual = factor > 1 ? 0.1 * std::log(factor) + 1 : 1;
  KVICK_TRY(const double whole, positive(rope, "attention_factor", usual));
  map.set("rope.scaling.attn_factor", whole / usual);
  return map_original_context(map, rope);
}

base::Status<> map_scaling(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(std::string type, rope.get_string("type", "default"));
  KVICK_TRY(type, rope.get_string("rope_type", type));
  if (type == "default") return base::Done{};
  if (type != "linear" && type != "yarn" && type != "llama3")
    return base::fail("{} is {}; kvick knows default, linear, llama3 and yarn",
                      rope.label("rope_type"), in_quotes(type));
  KVICK_TRY(const double factor, positive(rope, "factor"));
  map.set("rope.scaling.type", type);
  map.set("rope.scaling.factor", factor);
  if (type == "llama3") return map_llama3(map, rope);
  if (type == "yarn") return map_yarn(map, rope, factor);
  return base::Done{};
}

struct RopeNumbers {
  double theta = 10000, part = 1;
};

base::Status<> read_rope_numbers(const JsonObject& fields, RopeNumbers& numbers) {
  KVICK_TRY(numbers.theta, positive(fields, "rope_theta", numbers.theta));
  KVICK_TRY(numbers.part, positive(fields, "partial_rotary_factor", numbers.part));
  return base::Done{};
}

void set_rope(Mapper& map, const Heads& sizes, const RopeNumbers& numbers,
              const std::string& suffix) {
  const double dims = static_cast<double>(sizes.head_dim) * std::min(numbers.part, 1.0);
  map.set("rope.freq_base" + suffix, numbers.theta);
  map.set("rope.dimension_count" + suffix, static_cast<uint64_t>(dims));
}

// Parameters of the layers with a window, which none scales.
base::Status<> map_window_rope(Mapper& map, const Heads& sizes, const JsonObject& rope,
                               RopeNumbers numbers) {
  KVICK_TRY_VOID(read_rope_numbers(rope, numbers));
  KVICK_TRY(const std::string type, rope.get_string("rope_type", std::string("default")));
  if (type != "default")
    return base::fail("{} is {}; kvick scales the rotation of no layer with a window",
                      rope.label("rope_type"), in_quotes(type));
  set_rope(map, sizes, numbers, "_swa");
  return base::Done{};
}

// Older files: rope_theta beside an optional rope_scaling. Newer ones: both in rope_parameters, or
// in one object there for each kind of layer.
base::Status<> map_rope(Mapper& map, const Heads& sizes) {
  const JsonObject& config = map.config();
  std::optional<JsonObject> rope;
  RopeNumbers numbers;
  KVICK_TRY_VOID(read_rope_numbers(config, numbers));
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!config.find(field)) continue;
    KVICK_TRY(rope, config.get_object(field));
    if (rope->find("sliding_attention")) {
      KVICK_TRY(const JsonObject window, rope->get_object("sliding_attention"));
      KVICK_TRY_VOID(map_window_rope(map, sizes, window, numbers));
    }
    if (rope->find("full_attention")) {
      KVICK_TRY(rope, rope->get_object("full_attention"));
    }
    KVICK_TRY_VOID(read_rope_numbers(*rope, numbers));
  }
  set_rope(map, sizes, numbers, "");
  if (rope) KVICK_TRY_VOID(map_scaling(map, *rope));
  return base::Done{};
}

base::Status<> map_rotary_family(Mapper& map, const std::string& architecture) {
  KVICK_TRY(Heads sizes, map_sizes(map));
  KVICK_TRY_VOID(map_heads(map, sizes));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "feed_forward_length"));
  KVICK_TRY_VOID(map.require_name("hidden_act", "silu"));
  KVICK_TRY(const double epsilon, positive(map.config(), "rms_norm_eps", 1e-6));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  KVICK_TRY_VOID(map_rope(map, sizes));
  return map_window(map, architecture);
}

base::Status<> map_opt(Mapper& map) {
  KVICK_TRY(const Heads sizes, map_sizes(map));
  KVICK_TRY_VOID(even_head_dim(map, sizes));
  KVICK_TRY_VOID(map.copy_size("ffn_dim", "feed_forward_length"));
  KVICK_TRY_VOID(map.require_name("activation_function", "relu"));
  KVICK_TRY_VOID(map.require_flag("do_layer_norm_before", true));
  KVICK_TRY_VOID(map.require_flag("layer_norm_elementwise_affine", true));
  KVICK_TRY_VOID(map.require_flag("_remove_final_layer_norm", false));
  KVICK_TRY(const uint64_t projected, map.size("word_embed_proj_dim", sizes.embedding));
  if (projected != sizes.embedding)
    return base::fail("{} is {} and 'hidden_size' {}: projected embeddings are not supported",
                      map.config().label("word_embed_proj_dim"), projected, sizes.embedding);
  map.set("attention.head_count_kv", sizes.heads);
  map.set("attention.layer_norm_epsilon", 1e-5);  // fixed in the published code
  // Rows 0 and 1 of the position table belong to padding: position p is row p + 2.
  map.set("position_offset", uint64_t{2});
  return base::Done{};
}

}  // namespace

base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out) {
  KVICK_TRY(const Family family, find_family(config));
  HfConfig result;
  result.architecture = family.architecture;
  Mapper map(config, result.architecture, out);
  out["general.architecture"].data = result.architecture;
  out["kvick.rope.interleaved"].data = false;
  KVICK_TRY(result.vocabulary, map.size("vocab_size"));
  map.set("vocab_size", result.vocabulary);
  KVICK_TRY(result.tied, config.get_bool("tie_word_embeddings", family.tied_by_default));
  if (result.architecture == "opt") {
    KVICK_TRY_VOID(map_opt(map));
  } else {
    KVICK_TRY_VOID(map_rotary_family(map, result.architecture));
  }
  KVICK_TRY(result.layers, config.get_uint("num_hidden_layers"));
  return result;
}

}  // namespace kvick::io
