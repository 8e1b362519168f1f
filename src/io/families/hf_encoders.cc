// Encoders: BERT, RoBERTa, nomic-embed and ModernBERT. Jina's are in hf_jina.cc; EmbeddingGemma is
// a Gemma 3 (hf_gemma.cc).

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

constexpr Rename kBertOuter[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.position_embeddings.weight", "position_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {"pooler.dense.weight", "cls.weight"},
    {"pooler.dense.bias", "cls.bias"},
    {"classifier.weight", "cls.output.weight"},
    {"classifier.bias", "cls.output.bias"},
};
constexpr Rename kRobertaOuter[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.position_embeddings.weight", "position_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {"classifier.dense.weight", "cls.weight"},
    {"classifier.dense.bias", "cls.bias"},
    {"classifier.out_proj.weight", "cls.output.weight"},
    {"classifier.out_proj.bias", "cls.output.bias"},
};
constexpr Rename kBert[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};
constexpr Rename kNomicOuter[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"emb_ln.weight", "token_embd_norm.weight"},
    {"emb_ln.bias", "token_embd_norm.bias"},
};
constexpr Rename kNomic[] = {
    {"attn.Wqkv", "attn_qkv"},      {"attn.out_proj", "attn_output"}, {"norm1", "attn_output_norm"},
    {"mlp.fc11", "ffn_up"},         {"mlp.fc12", "ffn_gate"},         {"mlp.fc2", "ffn_down"},
    {"norm2", "layer_output_norm"},
};
// megablocks has the matrices of a layer's experts in one tensor, and one bias for their sum.
constexpr Rename kNomicExperts[] = {
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"norm1", "attn_output_norm"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"mlp.router.layer", "ffn_gate_inp"},
    {"mlp.experts.mlp.w1", "ffn_up_exps.weight"},
    {"mlp.experts.mlp.w2", "ffn_down_exps.weight"},
    {"mlp.experts.bias", "ffn_exps.bias"},
    {"norm2", "layer_output_norm"},
};
constexpr Rename kModernBertOuter[] = {
    {"embeddings.tok_embeddings.weight", "token_embd.weight"},
    {"embeddings.norm.weight", "token_embd_norm.weight"},
    {"final_norm.weight", "output_norm.weight"},
    {"head.dense.weight", "cls.weight"},
    {"head.norm.weight", "cls.norm.weight"},
    {"classifier.weight", "cls.output.weight"},
    {"classifier.bias", "cls.output.bias"},
};
constexpr Rename kModernBert[] = {
    {"attn_norm", "attn_norm"}, {"attn.Wqkv", "attn_qkv"}, {"attn.Wo", "attn_output"},
    {"mlp_norm", "ffn_norm"},   {"mlp.Wi", "ffn_up"},      {"mlp.Wo", "ffn_down"},
};

// All of these are computed by the approximation with tanh.
constexpr std::array<std::string_view, 4> kGelus = {"gelu", "gelu_new", "gelu_pytorch_tanh",
                                                    "gelu_fast"};

bool is_gelu(std::string_view name) {
  for (const std::string_view known : kGelus)
    if (name == known) return true;
  return false;
}

Status<> map_bert(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY_VOID(map_encoder_sizes(map));
  KVICK_TRY_VOID(map.require_flag("is_decoder", false));
  KVICK_TRY_VOID(map.require_name("position_embedding_type", "absolute"));
  KVICK_TRY(const std::string activation, config.get_string("hidden_act", "gelu"));
  if (!is_gelu(activation)) return map.require_name("hidden_act", "gelu");
  KVICK_TRY(const double epsilon, positive(config, "layer_norm_eps", 1e-12));
  map.set("attention.layer_norm_epsilon", epsilon);
  return base::Done{};
}

Status<> map_roberta(Mapper& map) {
  KVICK_TRY_VOID(map_bert(map));
  KVICK_TRY(const uint64_t rows, map.size("max_position_embeddings"));
  KVICK_TRY(const uint64_t padded, padded_positions(map.config()));
  if (rows <= padded)
    return base::fail("{} is {}, but {} rows are for no position",
                      map.config().label("max_position_embeddings"), rows, padded);
  map.set("context_length", rows - padded);
  return base::Done{};
}

// Maps what nomic-embed models with and without experts share. Published folders name the fields
// of the configuration as GPT-2 does, folders that transformers saves by its own names.
Status<> map_nomic_parts(Mapper& map) {
  const JsonObject& config = map.config();
  const bool published = config.find("n_embd").has_value();
  const SizeFields fields = published ? SizeFields{.width = "n_embd",
                                                   .heads = "n_head",
                                                   .layers = "n_layer",
                                                   .ffn = "n_inner",
                                                   .positions = "n_positions"}
                                      : SizeFields{};
  KVICK_TRY(const HfHeads sizes, map_encoder_sizes(map, fields));
  for (const std::string_view field :
       {"prenorm", "parallel_block", "use_rms_norm", "rotary_emb_interleaved"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(require_number(map, "rotary_emb_fraction", 1));
  KVICK_TRY(const double epsilon,
            positive(config, published ? "layer_norm_epsilon" : "layer_norm_eps", 1e-12));
  map.set("attention.layer_norm_epsilon", epsilon);
  if (!published && config.find("rope_parameters")) return map_rope(map, sizes);
  KVICK_TRY(const double base, positive(config, "rotary_emb_base", 1000));
  map.set("rope.freq_base", base);
  map.set("rope.dimension_count", sizes.head_dim);
  // Longer texts would need the base to change with their length.
  if (!config.find("max_trained_positions")) return base::Done{};
  KVICK_TRY(const uint64_t trained, map.size("max_trained_positions"));
  KVICK_TRY(const uint64_t positions, map.size(fields.positions));
  map.set("context_length", std::min(trained, positions));
  return base::Done{};
}

Status<> map_nomic(Mapper& map) {
  KVICK_TRY_VOID(map.require_name("activation_function", "swiglu"));
  KVICK_TRY_VOID(map.require_name("hidden_act", "silu"));
  for (const std::string_view field : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(require_number(map, "moe_every_n_layers", 0));
  return map_nomic_parts(map);
}

// nomic-embed-text-v2-moe.
Status<> map_nomic_experts(Mapper& map) {
  KVICK_TRY(const std::string activation, map.config().get_string("activation_function"));
  if (!is_gelu(activation)) return map.require_name("activation_function", "gelu");
  for (const std::string_view field : {"moe_normalize_expert_weights", "expert_choice_router"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(require_number(map, "num_shared_experts", 0));
  const bool local = map.config().find("num_local_experts").has_value();
  KVICK_TRY_VOID(map.copy_size(local ? "num_local_experts" : "num_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("moe_top_k", "expert_used_count"));
  KVICK_TRY_VOID(map.copy_size("moe_every_n_layers", "moe_every_n_layers"));
  return map_nomic_parts(map);
}

// Maps which layers have a window, and how wide it is: half of it lies on each side of a token.
Status<> map_local_layers(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const uint64_t window, map.size("local_attention", 128));
  map.set("attention.sliding_window", window);
  if (!config.find("layer_types")) {
    KVICK_TRY(const uint64_t period, map.size("global_attn_every_n_layers", 3));
    map.set("attention.sliding_window_pattern", period);
    return base::Done{};
  }
  KVICK_TRY(const simdjson::dom::array types, config.get_array("layer_types"));
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  std::vector<bool> local;
  for (const Json type : types) {
    std::string_view name;
    if (type.get(name) != simdjson::SUCCESS ||
        (name != "full_attention" && name != "sliding_attention"))
      return base::fail("{} must hold 'full_attention' or 'sliding_attention'",
                        config.label("layer_types"));
    local.push_back(name == "sliding_attention");
  }
  if (local.size() != layers)
    return base::fail("{} names {} layers, but there are {}", config.label("layer_types"),
                      local.size(), layers);
  map.set("attention.sliding_window_pattern", std::move(local));
  return base::Done{};
}

// The first files have the bases of both kinds of layers in fields of their own.
Status<> map_modern_rope(Mapper& map, const HfHeads& sizes) {
  if (map.config().find("rope_parameters")) return map_rope(map, sizes);
  KVICK_TRY(const double base, positive(map.config(), "global_rope_theta", 160000));
  KVICK_TRY(const double local, positive(map.config(), "local_rope_theta", 10000));
  map.set("rope.freq_base", base);
  map.set("rope.freq_base_swa", local);
  map.set("rope.dimension_count", sizes.head_dim);
  return base::Done{};
}

Status<> map_modern_bert(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const HfHeads sizes, map_encoder_sizes(map));
  for (const std::string_view field : {"norm_bias", "attention_bias", "mlp_bias"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(map.require_name("classifier_activation", "gelu"));
  KVICK_TRY(const std::string activation, config.get_string("hidden_activation", "gelu"));
  if (activation != "silu" && !is_gelu(activation))
    return map.require_name("hidden_activation", "gelu");
  map.set("hidden_activation", std::string(activation == "silu" ? "silu" : "gelu"));
  KVICK_TRY(const double epsilon, positive(config, "norm_eps", 1e-5));
  map.set("attention.layer_norm_epsilon", epsilon);
  constexpr uint64_t kMean = 1, kCls = 2;  // GGUF's numbers of pooling types
  KVICK_TRY(const std::string pooling, config.get_string("classifier_pooling", "cls"));
  if (pooling != "mean") KVICK_TRY_VOID(map.require_name("classifier_pooling", "cls"));
  map.set("classifier.pooling_type", pooling == "mean" ? kMean : kCls);
  KVICK_TRY_VOID(map_local_layers(map));
  return map_modern_rope(map, sizes);
}

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "bert",
             .architecture = "bert",
             .tied = true,
             .modules = kBert,
             .map_all = map_bert,
             .outer = kBertOuter,
             .layers = "encoder.layer."},
    HfFamily{.model_type = "roberta",
             .architecture = "bert",
             .tied = true,
             .modules = kBert,
             .map_all = map_roberta,
             .outer = kRobertaOuter,
             .layers = "encoder.layer.",
             .padded_positions = true},
    HfFamily{.model_type = "xlm-roberta",
             .architecture = "bert",
             .tied = true,
             .modules = kBert,
             .map_all = map_roberta,
             .outer = kRobertaOuter,
             .layers = "encoder.layer.",
             .padded_positions = true},
    HfFamily{.model_type = "nomic_bert",
             .architecture = "nomic-bert",
             .tied = true,
             .modules = kNomic,
             .map_all = map_nomic,
             .outer = kNomicOuter,
             .layers = "encoder.layers."},
    HfFamily{.model_type = "nomic_bert with experts",
             .architecture = "nomic-bert-moe",
             .tied = true,
             .modules = kNomicExperts,
             .map_all = map_nomic_experts,
             .outer = kNomicOuter,
             .layers = "encoder.layers.",
             .flat_experts = true},
    HfFamily{.model_type = "modernbert",
             .architecture = "modern-bert",
             .tied = true,
             .modules = kModernBert,
             .map_all = map_modern_bert,
             .outer = kModernBertOuter},
};

}  // namespace

base::Result<std::string> row_type(const JsonObject& config) {
  KVICK_TRY(const std::string type, config.get_string("model_type"));
  if (type == "nomic_bert") {
    KVICK_TRY(const double period, config.get_float("moe_every_n_layers", 0));
    return period > 0 ? type + " with experts" : type;
  }
  if (type != "bert" && type != "xlm-roberta") return type;
  KVICK_TRY(const std::string positions, config.get_string("position_embedding_type", "absolute"));
  if (type == "bert" && positions == "alibi") return type + " with alibi";
  if (type == "xlm-roberta" && positions == "rotary") return type + " with rotation";
  return type;
}

base::Result<HfHeads> map_encoder_sizes(Mapper& map, const SizeFields& fields) {
  HfHeads sizes;
  KVICK_TRY(sizes.embedding, map.size(fields.width));
  KVICK_TRY(sizes.heads, map.size(fields.heads));
  if (sizes.embedding % sizes.heads != 0)
    return base::fail("{} is {}, but must be a multiple of '{}', which is {}",
                      map.config().label(fields.width), sizes.embedding, fields.heads, sizes.heads);
  sizes.head_dim = sizes.embedding / sizes.heads;
  KVICK_TRY_VOID(map_layer_count(map, fields.layers));
  map.set("embedding_length", sizes.embedding);
  map.set("attention.head_count", sizes.heads);
  map.set("attention.head_count_kv", sizes.heads);
  map.set("attention.causal", false);
  KVICK_TRY_VOID(map.copy_size(fields.positions, "context_length"));
  KVICK_TRY_VOID(map.copy_size(fields.ffn, "feed_forward_length"));
  return sizes;
}

base::Result<uint64_t> padded_positions(const JsonObject& config) {
  KVICK_TRY(const uint64_t pad, config.get_uint("pad_token_id", 1));
  if (pad >= kMaxSize)
    return base::fail("{} is {}; less than {} is expected", config.label("pad_token_id"), pad,
                      kMaxSize);
  return pad + 1;
}

std::span<const HfFamily> encoder_families() { return kFamilies; }

}  // namespace kvick::io
