#include <algorithm>
#include <array>

#include "model/families/family.h"

namespace kvick::model {
namespace {

using enum WeightReader::Bias;

constexpr std::array kFamilies = {
    // Llama 1 to 3, Mistral, SmolLM, TinyLlama (Touvron et al. 2023). Long contexts differ only in
    // the Rope that the file describes; biases are absent from all published ones but allowed by
    // the format.
    Family{.name = "llama"},
    // Qwen2 and 2.5: biases on queries, keys and values (Yang et al. 2024, section 2.2).
    Family{.name = "qwen2", .attention = {.qkv_bias = kRequired}},
    // Qwen3: every query and key head is normalised before it is rotated, and heads may be wider
    // than embedding / heads (Qwen3 technical report 2025, section 2).
    Family{.name = "qwen3", .attention = {.qk_norm = QkNorm::kHead}},
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
