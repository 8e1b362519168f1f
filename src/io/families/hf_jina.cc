// jina-embeddings v2 and v3 and jina-reranker-v1. Their code lies beside the weights, and their
// config.json names the family of transformers that this code was derived from.

#include <string>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

constexpr std::string_view kPositions = "position_embedding_type";

constexpr Rename kAlibiOuter[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {"pooler.dense.weight", "cls.weight"},
    {"pooler.dense.bias", "cls.bias"},
    {"classifier.weight", "cls.output.weight"},
    {"classifier.bias", "cls.output.bias"},
};
constexpr Rename kAlibi[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"mlp.gated_layers", "ffn_up"},  // the gate first, as in GGUF
    {"mlp.wo", "ffn_down"},
    {"mlp.layernorm", "layer_output_norm"},
    // The model for code, jina-embeddings-v2-base-code.
    {"attention.self.layer_norm_q", "attn_q_norm"},
    {"attention.self.layer_norm_k", "attn_k_norm"},
    {"layer_norm_1", "attn_norm_2"},
    {"mlp.up_gated_layer", "ffn_up_gate"},
    {"mlp.down_layer", "ffn_down"},
    {"layer_norm_2", "layer_output_norm"},
};

constexpr Rename kRotaryOuter[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"emb_ln.weight", "token_embd_norm.weight"},
    {"emb_ln.bias", "token_embd_norm.bias"},
};
constexpr Rename kRotary[] = {
    {"mixer.Wqkv", "attn_qkv"}, {"mixer.out_proj", "attn_output"}, {"norm1", "attn_output_norm"},
    {"mlp.fc1", "ffn_up"},      {"mlp.fc2", "ffn_down"},           {"norm2", "layer_output_norm"},
};

Status<> map_alibi_bert(Mapper& map) {
  KVICK_TRY_VOID(map_encoder_sizes(map));
  KVICK_TRY_VOID(map.require_flag("is_decoder", false));
  KVICK_TRY_VOID(map.require_name(kPositions, "alibi"));
  // With "reglu" the gate is a ReLU; "original", the default, has no gate.
  KVICK_TRY(const std::string form, map.config().get_string("feed_forward_type", "original"));
  if (form != "geglu")
    return base::fail("{} is {}; kvick supports only 'geglu' there",
                      map.config().label("feed_forward_type"), in_quotes(form));
  KVICK_TRY(const double epsilon, positive(map.config(), "layer_norm_eps", 1e-12));
  map.set("attention.layer_norm_epsilon", epsilon);
  return base::Done{};
}

// GELU is computed by its approximation with tanh in any case.
Status<> map_rotary_roberta(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const HfHeads sizes, map_encoder_sizes(map));
  for (const std::string_view field : {"is_decoder", "use_reg_tokens"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(map.require_name(kPositions, "rotary"));
  KVICK_TRY_VOID(map.require_name("hidden_act", "gelu"));
  KVICK_TRY(const double epsilon, positive(config, "layer_norm_eps", 1e-5));
  map.set("attention.layer_norm_epsilon", epsilon);
  KVICK_TRY(const double base, positive(config, "rotary_emb_base", 10000));
  map.set("rope.freq_base", base);
  map.set("rope.dimension_count", sizes.head_dim);
  // max_position_embeddings also counts the first rows of XLM-RoBERTa's table of positions, which
  // no token's position uses.
  KVICK_TRY(const uint64_t rows, map.size("max_position_embeddings"));
  KVICK_TRY(const uint64_t padded, padded_positions(config));
  if (rows <= padded)
    return base::fail("{} is {}, but {} rows are for no position",
                      config.label("max_position_embeddings"), rows, padded);
  map.set("context_length", rows - padded);
  return base::Done{};
}

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "bert with alibi",
             .architecture = "jina-bert-v2",
             .tied = true,
             .modules = kAlibi,
             .map_all = map_alibi_bert,
             .outer = kAlibiOuter,
             .layers = "encoder.layer."},
    HfFamily{.model_type = "xlm-roberta with rotation",
             .architecture = "jina-bert-v3",
             .tied = true,
             .modules = kRotary,
             .map_all = map_rotary_roberta,
             .outer = kRotaryOuter,
             .layers = "encoder.layers.",
             .task_adapters = true},
};

}  // namespace

std::span<const HfFamily> jina_families() { return kFamilies; }

}  // namespace kvick::io
