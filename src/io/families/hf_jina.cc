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

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "bert with alibi",
             .architecture = "jina-bert-v2",
             .tied = true,
             .modules = kAlibi,
             .map_all = map_alibi_bert,
             .outer = kAlibiOuter,
             .layers = "encoder.layer."},
};

}  // namespace

base::Result<std::string> row_type(const JsonObject& config) {
  KVICK_TRY(const std::string type, config.get_string("model_type"));
  if (type != "bert") return type;
  KVICK_TRY(const std::string positions, config.get_string(kPositions, "absolute"));
  return positions == "alibi" ? type + " with alibi" : type;
}

std::span<const HfFamily> jina_families() { return kFamilies; }

}  // namespace kvick::io
