#include "io/huggingface/hf_config.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "io/families/hf_families.h"
#include "io/families/hf_mapper.h"

namespace kvick::io {
namespace {

base::Result<const HfFamily*> family_of(const JsonObject& config) {
  KVICK_TRY(const std::string type, row_type(config));
  if (const HfFamily* family = find_hf_family(type)) return family;
  std::string known;
  for (const HfFamily& family : hf_families())
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  return base::fail("{} is {}, which kvick does not know; it knows {}", config.label("model_type"),
                    in_quotes(type), known);
}

// Maps the sizes that all families name alike.
base::Result<HfHeads> map_sizes(Mapper& map) {
  HfHeads out;
  KVICK_TRY(out.embedding, map.size("hidden_size"));
  KVICK_TRY(out.heads, map.size("num_attention_heads"));
  map.set("embedding_length", out.embedding);
  map.set("attention.head_count", out.heads);
  KVICK_TRY_VOID(map.copy_size("max_position_embeddings", "context_length"));
  KVICK_TRY_VOID(map_layer_count(map));
  return out;
}

base::Result<uint64_t> even_head_dim(const Mapper& map, const HfHeads& sizes) {
  if (sizes.embedding % sizes.heads != 0)
    return base::fail("{} is {}, but must be a multiple of 'num_attention_heads', which is {}",
                      map.config().label("hidden_size"), sizes.embedding, sizes.heads);
  return sizes.embedding / sizes.heads;
}

base::Status<> map_heads(Mapper& map, HfHeads& sizes) {
  KVICK_TRY(const uint64_t kv_heads, map.size("num_key_value_heads", sizes.heads));
  if (sizes.heads % kv_heads != 0)
    return base::fail("{} is {}, but must divide 'num_attention_heads', which is {}",
                      map.config().label("num_key_value_heads"), kv_heads, sizes.heads);
  map.set("attention.head_count_kv", kv_heads);
  if (map.config().find("qk_rope_head_dim")) {
    // The part of a latent head that rotates.
    KVICK_TRY(sizes.head_dim, map.size("qk_rope_head_dim"));
  } else if (map.config().find("head_dim")) {
    KVICK_TRY(sizes.head_dim, map.size("head_dim"));
    map.set("attention.key_length", sizes.head_dim);
    map.set("attention.value_length", sizes.head_dim);
  } else {
    KVICK_TRY(sizes.head_dim, even_head_dim(map, sizes));
  }
  return base::Done{};
}

// Reads which layers have a window.
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

// Returns the default without layer_types: in each period, all layers but the last have the window.
// 0: all layers have it.
uint64_t window_period(const Mapper& map, std::string_view architecture) {
  if (architecture == "gemma2" || architecture == "gpt-oss") return 2;
  if (architecture == "olmo2" || architecture == "exaone4" || architecture == "cohere2") return 4;
  if (architecture != "gemma3") return 0;
  const auto told = map.config().get_uint("sliding_window_pattern", 6);
  return told.ok() ? *told : 6;
}

base::Status<> map_window(Mapper& map, const std::string& architecture) {
  if (!map.config().find("sliding_window")) return base::Done{};
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  std::vector<bool> slides(layers, true);
  // Qwen's and dots1's configs have a switch, which is off by default.
  if (architecture.starts_with("qwen") || architecture == "dots1") {
    KVICK_TRY(const bool on, map.config().get_bool("use_sliding_window", false));
    KVICK_TRY(const uint64_t full_layers, map.config().get_uint("max_window_layers", 28));
    for (uint64_t i = 0; i < layers; ++i) slides[i] = on && i >= full_layers;
  }
  if (const uint64_t period = window_period(map, architecture); period > 0)
    for (uint64_t i = 0; i < layers; ++i) slides[i] = i % period < period - 1;
  KVICK_TRY_VOID(read_layer_types(map, slides));
  const auto sliding = std::count(slides.begin(), slides.end(), true);
  if (sliding == 0) return base::Done{};
  if (static_cast<uint64_t>(sliding) < layers) map.set("attention.sliding_window_pattern", slides);
  return map.copy_size("sliding_window", "attention.sliding_window");
}

// Two fields may name the activation. Gemma's first files have another name for the same function.
base::Status<> check_activation(const Mapper& map, std::string_view wanted) {
  for (const std::string_view field : {"hidden_activation", "hidden_act"}) {
    if (!map.config().find(field)) continue;
    KVICK_TRY(const std::string name, map.config().get_string(field));
    if (name == "gelu" && wanted != "silu" && field == "hidden_act") return base::Done{};
    return map.require_name(field, wanted);
  }
  return base::Done{};
}

// Maps the widths of the feed-forward blocks: one number, or a list of one per layer.
base::Status<> map_widths(Mapper& map, std::string_view field) {
  const auto told = map.config().find(field);
  if (!told || !told->is_array()) return map.copy_size(field, "feed_forward_length");
  KVICK_TRY(const simdjson::dom::array list, map.config().get_array(field));
  std::vector<uint64_t> widths;
  for (const Json width : list) {
    uint64_t number = 0;
    if (width.get(number) != simdjson::SUCCESS || number < 1 || number > kMaxSize)
      return base::fail("{} must hold numbers from 1 to {}", map.config().label(field), kMaxSize);
    widths.push_back(number);
  }
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  if (widths.size() != layers)
    return base::fail("{} has {} numbers, but there are {} layers", map.config().label(field),
                      widths.size(), layers);
  map.set("feed_forward_length", std::move(widths));
  return base::Done{};
}

// Returns true for true and "all". With "vision" only an image's tokens attend to later ones.
bool sees_later_tokens(const JsonObject& config) {
  const auto told = config.find("use_bidirectional_attention");
  if (!told) return false;
  bool flag = false;
  if (told->get(flag) == simdjson::SUCCESS) return flag;
  std::string_view name;
  return told->get(name) != simdjson::SUCCESS || name != "vision";
}

// Refuses decoders made into encoders, but for EmbeddingGemma, an architecture of its own.
base::Status<> require_causal(const JsonObject& config) {
  KVICK_TRY(const bool causal, config.get_bool("is_causal", true));
  if (causal && !sees_later_tokens(config)) return base::Done{};
  return base::fail(
      "{} says that tokens attend to later ones, as in models that embed texts; kvick reads these "
      "from GGUF files only",
      config.label(causal ? "use_bidirectional_attention" : "is_causal"));
}

// Returns the field of the feed-forward width. LFM2's first files have another name for it. If all
// layers have experts, their width is the only one.
std::string_view width_field(const JsonObject& config) {
  constexpr std::string_view kUsual = "intermediate_size";
  for (const std::string_view field :
       {kUsual, std::string_view("block_ff_dim"), std::string_view("moe_intermediate_size")})
    if (config.find(field)) return field;
  return kUsual;
}

base::Status<> map_rotary_family(Mapper& map, const HfFamily& family) {
  KVICK_TRY(HfHeads sizes, map_sizes(map));
  KVICK_TRY_VOID(map_heads(map, sizes));
  KVICK_TRY_VOID(map_widths(map, width_field(map.config())));
  KVICK_TRY_VOID(check_activation(map, family.activation));
  KVICK_TRY(const double epsilon, positive(map.config(), "rms_norm_eps", 1e-6));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  KVICK_TRY_VOID(map_rope(map, sizes));
  KVICK_TRY_VOID(map_window(map, std::string(family.architecture)));
  return family.map != nullptr ? family.map(map) : base::Status<>(base::Done{});
}

base::Status<> map_opt(Mapper& map) {
  KVICK_TRY(const HfHeads sizes, map_sizes(map));
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
  // Rows 0 and 1 of the position table are for padding: position p is row p + 2.
  map.set("position_offset", uint64_t{2});
  return base::Done{};
}

// Returns whether the model was saved with a head that gives labels.
base::Result<bool> classifies(const JsonObject& config) {
  if (!config.find("architectures")) return false;
  KVICK_TRY(const simdjson::dom::array names, config.get_array("architectures"));
  for (const Json entry : names) {
    std::string_view name;
    if (entry.get(name) == simdjson::SUCCESS && name.ends_with("ForSequenceClassification"))
      return true;
  }
  return false;
}

}  // namespace

base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out) {
  KVICK_TRY(const HfFamily* family, family_of(config));
  HfConfig result;
  result.modules = family->modules;
  result.architecture = family->architecture;
  if (result.architecture == "nemotron_h") {
    KVICK_TRY(const bool experts, nemotron_has_experts(config));
    if (experts) result.architecture = "nemotron_h_moe";
  }
  const bool embeds = result.architecture == "gemma3" && sees_later_tokens(config);
  if (embeds) result.architecture = "gemma-embedding";
  result.gate_up = family->gate_up;
  result.outer = family->outer;
  result.layer_prefix = family->layers;
  result.task_adapters = family->task_adapters;
  if (family->padded_positions) {
    KVICK_TRY(result.padded_positions, padded_positions(config));
  }
  KVICK_TRY(const bool pairs, classifies(config));
  result.scores = pairs && !family->outer.empty();
  Mapper map(config, result.architecture, out);
  out["general.architecture"].data = result.architecture;
  out["kvick.rope.interleaved"].data = family->interleaved;
  if (family->shifted_norms) out["kvick.norm.shifted"].data = true;
  KVICK_TRY(result.vocabulary, map.size("vocab_size"));
  map.set("vocab_size", result.vocabulary);
  const bool encodes = !family->outer.empty();  // and has no output matrix
  KVICK_TRY(result.tied, config.get_bool("tie_word_embeddings", family->tied));
  result.tied = result.tied || encodes;
  if (result.architecture == "opt") {
    KVICK_TRY_VOID(map_opt(map));
  } else if (family->map_all != nullptr) {
    KVICK_TRY_VOID(family->map_all(map));
  } else {
    if (!embeds) KVICK_TRY_VOID(require_causal(config));
    KVICK_TRY_VOID(map_rotary_family(map, *family));
  }
  if (family->flat_experts)
    result.flat_experts = std::get<uint64_t>(out[result.architecture + ".expert_count"].data);
  if (family->grouped_norms)
    result.state_groups = std::get<uint64_t>(out[result.architecture + ".ssm.group_count"].data);
  if (family->factors != nullptr) {
    KVICK_TRY(result.factors, family->factors(map));
  }
  if (!family->expert_modules.empty() && out.contains(result.architecture + ".expert_count"))
    result.modules = family->expert_modules;
  result.layers = std::get<uint64_t>(out[result.architecture + ".block_count"].data);
  const bool old = config.find("num_nextn_predict_layers").has_value();
  KVICK_TRY(result.unread_layers,
            config.get_uint(old ? "num_nextn_predict_layers" : "num_mtp_layers", 0));
  return result;
}

}  // namespace kvick::io
