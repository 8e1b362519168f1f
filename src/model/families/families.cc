#include <algorithm>
#include <array>

#include "model/families/family.h"

namespace kvick::model {
namespace {

using enum WeightReader::Bias;
using Scaled = Family::Windows::Scaled;

constexpr NormNames kAround = {.before = "attn_norm", .after = "post_attention_norm"};
constexpr NormNames kAfterAttention = {.before = "post_attention_norm"};
constexpr NormNames kAttentionSum = {.before = "", .after = "", .sum = "attn_output_norm"};
constexpr NormNames kAttentionSums = {
    .before = "", .after = "", .sum = "attn_output_norm", .second_sum = "attn_norm_2"};
constexpr NormNames kFfnSum = {.before = "", .after = "", .sum = "layer_output_norm"};
constexpr NormNames kFfnAround = {.before = "ffn_norm", .after = "post_ffw_norm"};

// The traits that BERT and the encoders derived from it share.
constexpr Family bert_kind(Family own) {
  own.both_ways = true;
  own.eps_key = "attention.layer_norm_epsilon";
  own.norms = NormKind::kLayer;
  own.last_norm = "";
  own.read_parts = read_bert_parts;
  return own;
}

constexpr std::array kFamilies = {
    // Llama 1 to 3, Mistral, SmolLM, TinyLlama (Touvron et al. 2023). Models with long contexts
    // differ only in the Rope that the file describes. No published model has biases, but the
    // format allows them.
    // Mixtral: Jiang et al. 2024.
    Family{.name = "llama", .interleaved = true, .experts = {.normalised = true}},
    // Qwen2 and 2.5: biases on queries, keys and values (Yang et al. 2024, section 2.2).
    Family{.name = "qwen2", .attention = {.qkv_bias = kRequired}},
    // Qwen3: every query and key head is normalised before it is rotated, and heads may be wider
    // than embedding / heads (Qwen3 technical report 2025, section 2).
    Family{.name = "qwen3", .attention = {.qk_norm = QkNorm::kHead}},
    Family{.name = "qwen2moe", .attention = {.qkv_bias = kOptional}},
    Family{.name = "qwen3moe",
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kHead}},
    // The text part of Qwen2-VL, Qwen2.5-VL and Qwen3-VL. A text's tokens have the same position in
    // all sections of their rotary embedding.
    Family{.name = "qwen2vl", .attention = {.qkv_bias = kRequired}},
    Family{.name = "qwen3vl", .attention = {.qk_norm = QkNorm::kHead}},
    Family{.name = "qwen3vlmoe",
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kHead}},
    // Gemma 2: norms before and after each block, windows in every other layer, softcaps (Gemma 2
    // report 2024). Gemma 3: five layers with a window for each layer without, and normalised heads
    // instead of softcaps (Gemma 3 report 2025).
    Family{.name = "gemma",
           .configure = scale_embedding_by_width,
           .feed_forward = {.form = FeedForward::kGatedGelu}},
    Family{.name = "gemma2",
           .windows = {.size = 4096, .period = 2, .scaled = Scaled::kAlways},
           .configure = configure_gemma,
           .softcaps = {.attention = 50, .logits = 30},
           .attention = {.norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround}},
    Family{.name = "gemma3",
           .windows = {.period = 6, .rope_base = 10000, .scaled = Scaled::kNever},
           .configure = configure_gemma,
           .attention = {.qk_norm = QkNorm::kHead, .norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround}},
    // Four residual streams, per-layer inputs, shared rows in the last layers, and sparse gates
    // (Gemma 3n, 2025).
    Family{.name = "gemma3n",
           .windows = {.period = 5, .rope_base = 10000, .scaled = Scaled::kNever},
           .configure = configure_gemma3n,
           .softcaps = {.logits = 30},
           .attention = {.qk_norm = QkNorm::kHead, .value_norm = true, .norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround},
           .read_layer = read_gemma3n_layer,
           .read_parts = read_gemma_parts},
    // Wider heads in layers without windows, and either per-layer inputs or experts in parallel to
    // a feed-forward block (Gemma 4, 2026).
    Family{.name = "gemma4",
           .windows = {.scaled = Scaled::kNever},
           .configure = configure_gemma4,
           .softcaps = {.logits = 30},
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kHead, .value_norm = true, .norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround},
           .mixture = {.activation = MixtureTraits::Activation::kGatedGelu,
                       .norms = {.before = "pre_ffw_norm_2", .after = "post_ffw_norm"},
                       .parallel = true},
           .read_layer = read_gemma4_layer,
           .read_parts = read_gemma_parts},
    // Sinks, windows of 128 tokens in every other layer, biases everywhere, experts with a limited
    // activation (gpt-oss model card 2025). Files call the norm of the experts' inputs
    // post_attention_norm.
    Family{.name = "gpt-oss",
           .windows = {.period = 2, .scaled = Scaled::kAlways},
           .experts = {.router = ExpertsConfig::Router::kSoftmaxOfChosen},
           .mixture = {.activation = MixtureTraits::Activation::kOai, .norms = kAfterAttention}},
    // Fused tensors, LongRoPE, a window in the models with a context of 4096 tokens (Phi-3 report
    // 2024).
    Family{.name = "phi3", .windows = {.scaled = Scaled::kAlways}, .configure = configure_phi3},
    Family{.name = "mistral3",
           .interleaved = true,
           .configure = configure_mistral3,
           .experts = {.normalised = true}},
    Family{.name = "smollm3", .interleaved = true, .configure = configure_smollm3},
    Family{.name = "minicpm",
           .interleaved = true,
           .configure = configure_minicpm,
           .experts = {.normalised = true}},
    Family{.name = "seed_oss", .feed_forward = {.norms = kAfterAttention}},
    Family{.name = "ernie4_5", .interleaved = true},
    Family{.name = "ernie4_5-moe", .interleaved = true, .experts = {.normalised = true}},
    Family{
        .name = "arcee", .interleaved = true, .feed_forward = {.form = FeedForward::kReluSquared}},
    Family{.name = "nemotron",
           .eps_key = "attention.layer_norm_epsilon",
           .norms = NormKind::kLayer,
           .feed_forward = {.form = FeedForward::kReluSquared}},
    // Norms of heads after their rotation (Hunyuan 2025).
    Family{.name = "hunyuan-dense", .attention = {.qk_norm = QkNorm::kBehindRope}},
    Family{.name = "hunyuan-moe",
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kBehindRope}},
    // GLM-4-9B of 2024.
    Family{.name = "chatglm", .interleaved = true},
    // Norms only after the blocks. The 32B has windows in three of four layers, and only these
    // rotate (EXAONE 4.0 report 2025).
    Family{.name = "exaone4",
           .windows = {.period = 4, .scaled = Scaled::kAlways},
           .configure = configure_exaone4,
           .attention = {.qk_norm = QkNorm::kHead,
                         .norms = {.before = "", .after = "post_attention_norm"}},
           .feed_forward = {.norms = {.before = "", .after = "post_ffw_norm"}}},
    // Attention and feed-forward block side by side, behind one norm. Command R7B and Command A
    // have windows in three of four layers, and only these rotate (Command A report 2025).
    Family{.name = "command-r",
           .interleaved = true,
           .eps_key = "attention.layer_norm_epsilon",
           .configure = configure_cohere,
           .norms = NormKind::kLayerWithoutBias,
           .feed_forward = {.norms = {.before = "attn_norm"}},
           .read_layer = read_cohere_layer},
    Family{.name = "cohere2",
           .interleaved = true,
           .eps_key = "attention.layer_norm_epsilon",
           .windows = {.period = 4, .scaled = Scaled::kAlways},
           .configure = configure_cohere,
           .norms = NormKind::kLayerWithoutBias,
           .feed_forward = {.norms = {.before = "attn_norm"}},
           .read_layer = read_cohere_layer},
    Family{.name = "granite",
           .interleaved = true,
           .configure = configure_granite,
           .experts = {.normalised = true}},
    Family{.name = "granitemoe",
           .interleaved = true,
           .configure = configure_granite,
           .experts = {.normalised = true}},
    Family{.name = "glm4",
           .interleaved = true,
           .attention = {.norms = kAround},
           .feed_forward = {.norms = kFfnAround}},
    // GLM-4.5 and 4.6: a sigmoid router, and an expert that all tokens use (GLM-4.5 report 2025).
    Family{.name = "glm4moe",
           .configure = configure_glm4moe,
           .experts = {.router = ExpertsConfig::Router::kSigmoid},
           .attention = {.qk_norm = QkNorm::kHead},
           .feed_forward = {.norms = kAfterAttention},
           .mixture = {.norms = kAfterAttention}},
    Family{.name = "dots1",
           .experts = {.router = ExpertsConfig::Router::kSigmoid},
           .attention = {.qk_norm = QkNorm::kHead}},
    Family{.name = "minimax-m2",
           .experts = {.router = ExpertsConfig::Router::kSigmoid, .normalised = true},
           .attention = {.qk_norm = QkNorm::kAllHeads}},
    // Latent rows: DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash (DeepSeek-V2 report 2024).
    // MiniCPM3 is a small dense model with latent rows.
    Family{.name = "deepseek2", .interleaved = true, .configure = configure_deepseek2},
    Family{.name = "minicpm3", .configure = configure_minicpm3},
    // Norms only after the blocks, and a norm of all heads together (OLMo 2 report 2024). OLMo 3
    // has windows; the scaling for long contexts does not apply to their layers.
    Family{.name = "olmo2",
           .windows = {.period = 4, .scaled = Scaled::kNever},
           .attention = {.qk_norm = QkNorm::kAllHeads,
                         .norms = {.before = "", .after = "post_attention_norm"}},
           .feed_forward = {.norms = {.before = "", .after = "post_ffw_norm"}}},
    Family{.name = "olmoe", .attention = {.qk_norm = QkNorm::kAllHeads}},
    // Chunked windows with rotation; every fourth layer has neither (Llama 4, 2025).
    Family{.name = "llama4",
           .interleaved = true,
           .windows = {.size = 8192, .period = 4, .chunked = true, .scaled = Scaled::kAlways},
           .configure = configure_llama4,
           .experts = {.router = ExpertsConfig::Router::kSigmoid},
           .attention = {.qk_norm = QkNorm::kRotated},
           .mixture = {.weighs_inputs = true}},
    Family{
        .name = "stablelm", .eps_key = "attention.layer_norm_epsilon", .norms = NormKind::kLayer},
    Family{.name = "starcoder2",
           .eps_key = "attention.layer_norm_epsilon",
           .norms = NormKind::kLayer,
           .attention = {.qkv_bias = kRequired, .out_bias = kRequired},
           .feed_forward = {.form = FeedForward::kGelu, .bias = kRequired}},
    // LayerNorm, learned positions, biases everywhere and ReLU (Zhang et al. 2022).
    Family{.name = "opt",
           .rotates = false,
           .eps_key = "attention.layer_norm_epsilon",
           .configure = configure_opt,
           .norms = NormKind::kLayer,
           .attention = {.qkv_bias = kRequired, .out_bias = kRequired},
           .feed_forward = {.form = FeedForward::kRelu, .bias = kRequired},
           .read_parts = read_opt_parts},
    // A gated delta net in three of four layers; the attention in the others has gated outputs
    // (Qwen3-Next, 2025; Qwen3.5, 2026).
    Family{.name = "qwen3next",
           .read_states = read_delta_states,
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kHead, .gated = true},
           .feed_forward = {.norms = kAfterAttention},
           .mixture = {.norms = kAfterAttention}},
    Family{.name = "qwen35",
           .read_states = read_delta_states,
           .attention = {.qk_norm = QkNorm::kHead, .gated = true},
           .feed_forward = {.norms = kAfterAttention}},
    Family{.name = "qwen35moe",
           .read_states = read_delta_states,
           .experts = {.normalised = true},
           .attention = {.qk_norm = QkNorm::kHead, .gated = true},
           .feed_forward = {.norms = kAfterAttention},
           .mixture = {.norms = kAfterAttention}},
    // Gated short convolutions in most layers (LFM2 report 2025). Files call the last norm
    // token_embd_norm.
    Family{.name = "lfm2",
           .read_states = read_short_conv_states,
           .last_norm = "token_embd_norm",
           .attention = {.qk_norm = QkNorm::kHead}},
    Family{.name = "lfm2moe",
           .read_states = read_short_conv_states,
           .experts = {.router = ExpertsConfig::Router::kSigmoid, .normalised = true},
           .last_norm = "token_embd_norm",
           .attention = {.qk_norm = QkNorm::kHead}},
    // State spaces in all or most layers (Dao and Gu 2024; Granite 4.0, 2025; Nemotron-H report
    // 2025).
    Family{.name = "mamba2", .rotates = false, .read_states = read_mamba2_states},
    // Attention and a state space side by side in each layer (Falcon-H1 report 2025). Folders have
    // factors on embeddings and logits, as Granite's; GGUF files have them in the weights.
    Family{.name = "falcon-h1",
           .read_states = read_falcon_states,
           .configure = configure_granite,
           .read_layer = read_falcon_layer},
    Family{.name = "granitehybrid",
           .interleaved = true,
           .read_states = read_mamba2_states,
           .configure = configure_granite,
           .experts = {.normalised = true}},
    Family{.name = "nemotron_h",
           .rotates = false,
           .read_states = read_nemotron_states,
           .feed_forward = {.form = FeedForward::kReluSquared, .norms = {.before = "attn_norm"}}},
    Family{.name = "nemotron_h_moe",
           .rotates = false,
           .read_states = read_nemotron_states,
           .experts = {.router = ExpertsConfig::Router::kSigmoid},
           .feed_forward = {.form = FeedForward::kReluSquared, .norms = {.before = "attn_norm"}},
           .mixture = {.activation = MixtureTraits::Activation::kReluSquared,
                       .norms = {.before = "attn_norm"}}},
    // Encoders without a norm before a block, but with one of the sum after it, and with learned
    // positions and token types (BERT, Devlin et al. 2019). nomic-embed has rotation instead of
    // positions, and gates (Nussbaum et al. 2024); one has experts in every other layer.
    bert_kind({.name = "bert",
               .rotates = false,
               .configure = configure_bert,
               .attention = {.norms = kAttentionSum},
               .feed_forward = {.form = FeedForward::kGelu, .norms = kFfnSum}}),
    bert_kind({.name = "nomic-bert",
               .configure = configure_bert,
               .attention = {.norms = kAttentionSum},
               .feed_forward = {.norms = kFfnSum}}),
    bert_kind({.name = "nomic-bert-moe",
               .configure = configure_bert,
               .attention = {.norms = kAttentionSum},
               .feed_forward = {.form = FeedForward::kGelu, .norms = kFfnSum},
               .mixture = {.activation = MixtureTraits::Activation::kGelu, .norms = kFfnSum}}),
    // jina-embeddings-v2 has logits that decrease with the distance (ALiBi) instead of positions,
    // and gates by gelu. Some of its models have norms of all heads together and a second norm
    // after attention (Günther et al. 2023). jina-embeddings-v3 is XLM-RoBERTa with rotation
    // instead of positions (Sturua et al. 2024).
    bert_kind({.name = "jina-bert-v2",
               .rotates = false,
               .configure = configure_jina_bert_v2,
               .attention = {.qk_norm = QkNorm::kAllHeads, .norms = kAttentionSums},
               .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnSum}}),
    bert_kind({.name = "jina-bert-v3",
               .configure = configure_bert,
               .attention = {.norms = kAttentionSum},
               .feed_forward = {.form = FeedForward::kGelu, .norms = kFfnSum}}),
    // Windows around the query in all but every third layer, gelu(gate) * up or the function that
    // the file names, norms without biases (Warner et al. 2024). The first layer has no norm of its
    // own: it reads the normalised embedding.
    Family{.name = "modern-bert",
           .both_ways = true,
           .eps_key = "attention.layer_norm_epsilon",
           .windows = {.period = 3, .full_first = true},
           .configure = configure_modern_bert,
           .norms = NormKind::kLayerWithoutBias,
           .attention = {.norms = {.before = "attn_norm"}, .norm_optional = true},
           .feed_forward = {.form = FeedForward::kGatedGelu},
           .read_parts = read_bert_parts},
    // Gemma 3 in both directions, with dense layers after the pooling (Vera et al. 2025).
    Family{.name = "gemma-embedding",
           .both_ways = true,
           .windows = {.period = 6, .rope_base = 10000, .scaled = Scaled::kNever},
           .configure = configure_gemma,
           .attention = {.qk_norm = QkNorm::kHead, .norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround}},
    // Attention over slots instead of rows: docs/reference/bct-format.md.
    Family{.name = "bct",
           .rotates = false,
           .configure = configure_bct,
           .read_layer = read_bct_layer,
           .read_parts = read_bct_parts},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view name, std::span<const Family> more) {
  for (const std::span<const Family> rows : {more, families()})
    for (const Family& family : rows)
      if (family.name == name) return &family;
  return nullptr;
}

}  // namespace kvick::model
