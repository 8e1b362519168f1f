#include <algorithm>
#include <array>

#include "model/families/family.h"

namespace kvick::model {
namespace {

using enum WeightReader::Bias;
using Scaled = Family::Windows::Scaled;

constexpr NormNames kAround = {.before = "attn_norm", .after = "post_attention_norm"};
constexpr NormNames kFfnAround = {.before = "ffn_norm", .after = "post_ffw_norm"};

constexpr std::array kFamilies = {
    // Llama 1 to 3, Mistral, SmolLM, TinyLlama (Touvron et al. 2023). Long contexts differ only in
    // the Rope that the file describes; biases are absent from all published ones but allowed by
    // the format.
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
    // Norms before and after each block, windows in every other layer, capped logits (Gemma 2
    // report 2024); then five windows to one full layer, and normalised heads in place of the caps
    // (Gemma 3 report 2025).
    Family{.name = "gemma",
           .configure = scale_embedding_by_width,
           .feed_forward = {.form = FeedForward::kGatedGelu}},
    Family{.name = "gemma2",
           .windows = {.size = 4096, .period = 2, .scaled = Scaled::kAlways},
           .configure = configure_gemma,
           .attention = {.norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround}},
    Family{.name = "gemma3",
           .windows = {.period = 6, .rope_base = 10000, .scaled = Scaled::kNever},
           .configure = configure_gemma,
           .attention = {.qk_norm = QkNorm::kHead, .norms = kAround},
           .feed_forward = {.form = FeedForward::kGatedGelu, .norms = kFfnAround}},
    // Sinks, windows of 128 in every other layer, biases everywhere, experts with limits on what
    // they activate (gpt-oss model card 2025). The norm of the experts' inputs has an odd name.
    Family{.name = "gpt-oss",
           .windows = {.period = 2, .scaled = Scaled::kAlways},
           .experts = {.router = ExpertsConfig::Router::kSoftmaxOfChosen},
           .mixture = {.activation = MixtureTraits::Activation::kOai,
                       .norms = {.before = "post_attention_norm"}}},
    // Fused tensors, LongRoPE (Phi-3 report 2024). Files name a window that no model was trained
    // with.
    Family{.name = "phi3", .windows = {.ignored = true}},
    Family{.name = "mistral3",
           .interleaved = true,
           .configure = configure_mistral3,
           .experts = {.normalised = true}},
    Family{.name = "smollm3", .interleaved = true, .configure = configure_smollm3},
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
    // Norms after the blocks alone, and of all heads together (OLMo 2 report 2024); OLMo 3 has
    // windows, which are not scaled.
    Family{.name = "olmo2",
           .windows = {.period = 4, .scaled = Scaled::kNever},
           .attention = {.qk_norm = QkNorm::kAllHeads,
                         .norms = {.before = "", .after = "post_attention_norm"}},
           .feed_forward = {.norms = {.before = "", .after = "post_ffw_norm"}}},
    // Chunked windows with rotation, and every fourth layer without (Llama 4, 2025).
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
    // A memory of slots in place of rows: docs/reference/bct-format.md.
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
