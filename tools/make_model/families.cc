#include "make_model/families.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace kvick::tools {
namespace {

struct Row {
  const char* name;
  Features features;
  void (*change)(Spec& spec) = nullptr;
};

void tied(Spec& spec) { spec.tied = true; }
void wide_heads(Spec& spec) { spec.head_dim = 48; }
void tied_wide_heads(Spec& spec) { spec.tied = true, spec.head_dim = 48; }
void yarn(Spec& spec) {
  spec.scaling = Scaling::kYarn;
  spec.context = 512, spec.scaling_factor = 16;
}

void gpt_oss(Spec& spec) {
  yarn(spec);
  spec.features.expert_bias = true;
}

constexpr float kLayerNormEps = 1e-5F;

// Of gemma2 and gemma3.
Features gemma(const char* family, uint32_t window) {
  return {.family = family, .window = window, .post_norms = true, .scaled_embedding = true};
}
Features with_experts(Features f, uint32_t period, uint32_t shared_ffn) {
  f.expert_period = period, f.experts = 8, f.experts_used = 3, f.expert_ffn = 64;
  f.shared_ffn = shared_ffn;
  return f;
}
Features granite(const char* family) {
  return {.family = family,
          .keys = {{"embedding_scale", 3.0F},
                   {"residual_scale", 0.4F},
                   {"logit_scale", 2.0F},
                   {"attention.scale", 0.2F}}};
}

std::vector<Row> rows() {
  std::vector<Row> rows;
  rows.push_back({"mixtral", with_experts({.family = "llama"}, 1, 0),
                  [](Spec& spec) { spec.features.expert_ffn = spec.ffn; }});
  rows.push_back({"qwen2moe", with_experts({.family = "qwen2moe", .qkv_bias = true}, 1, 96),
                  [](Spec& spec) { spec.features.shared_gate = true; }});
  rows.push_back(
      {"qwen3moe", with_experts({.family = "qwen3moe", .head_norms = true}, 1, 0), wide_heads});
  // No choice between experts, which rounding may turn: for comparing quantised weights.
  rows.push_back({"qwen3moe-all", with_experts({.family = "qwen3moe", .head_norms = true}, 1, 0),
                  [](Spec& spec) {
                    wide_heads(spec);
                    spec.features.experts_used = spec.features.experts;
                  }});
  rows.push_back({"gemma", {.family = "gemma", .scaled_embedding = true}, tied_wide_heads});
  rows.push_back({"gemma2", gemma("gemma2", 24), [](Spec& spec) {
                    tied_wide_heads(spec);
                    spec.features.softcap = 2, spec.features.logit_softcap = 5;
                  }});
  rows.push_back({"gemma3", gemma("gemma3", 20), [](Spec& spec) {
                    tied(spec);
                    spec.layers = 7;
                    spec.rope_base = 1e6;
                    spec.scaling = Scaling::kLinear, spec.scaling_factor = 8;
                    spec.features.head_norms = true;
                  }});
  const Features oss = with_experts({.family = "gpt-oss",
                                     .window = 16,
                                     .sinks = true,
                                     .qkv_bias = true,
                                     .out_bias = true,
                                     .ffn_norm_after_attention = true},
                                    1, 0);
  rows.push_back({"gpt-oss", oss, gpt_oss});
  rows.push_back({"gpt-oss-all", oss, [](Spec& spec) {
                    gpt_oss(spec);
                    spec.features.experts_used = spec.features.experts;
                  }});
  rows.push_back({"phi3",
                  {.family = "phi3",
                   .fused_qkv = true,
                   .fused_gate_up = true,
                   .long_rope = true,
                   .keys = {{"attention.sliding_window", 16U},
                            {"rope.scaling.attn_factor", 1.19F},
                            {"rope.scaling.original_context_length", 128U}}}});
  rows.push_back({"mistral3",
                  {.family = "mistral3",
                   .keys = {{"attention.temperature_scale", 0.1F},
                            {"rope.scaling.yarn_log_multiplier", 1.0F}}},
                  yarn});
  rows.push_back({"smollm3", {.family = "smollm3"}, tied});
  rows.push_back({"granite", granite("granite"), tied});
  rows.push_back({"granite-nope", granite("granite"), [](Spec& spec) {
                    spec.features.keys.push_back({"rope.scaling.finetuned", false});
                  }});
  rows.push_back({"granitemoe", with_experts(granite("granitemoe"), 1, 96),
                  [](Spec& spec) { spec.features.expert_ffn = spec.ffn; }});
  rows.push_back({"glm4",
                  {.family = "glm4", .post_norms = true, .fused_gate_up = true, .qkv_bias = true},
                  [](Spec& spec) { spec.rotated = 8; }});
  const Features olmo = {
      .family = "olmo2", .post_norms = true, .all_head_norms = true, .no_pre_norms = true};
  rows.push_back({"olmo2", olmo});
  rows.push_back({"olmo3", olmo, [](Spec& spec) {
                    yarn(spec);
                    spec.layers = 5;
                    spec.features.window = 16;
                  }});
  rows.push_back({"llama4", with_experts({.family = "llama4"}, 2, 64), [](Spec& spec) {
                    spec.features.experts_used = 1;
                    spec.features.keys = {{"interleave_moe_layer_step", 2U}};
                    spec.layers = 5;
                  }});
  rows.push_back({"stablelm",
                  {.family = "stablelm",
                   .layer_norms = true,
                   .qkv_bias = true,
                   .keys = {{"attention.layer_norm_epsilon", kLayerNormEps},
                            {"use_parallel_residual", false}}},
                  [](Spec& spec) { spec.rotated = 4; }});
  rows.push_back({"starcoder2",
                  {.family = "starcoder2",
                   .layer_norms = true,
                   .qkv_bias = true,
                   .out_bias = true,
                   .ffn_bias = true,
                   .ungated = true,
                   .keys = {{"attention.layer_norm_epsilon", kLayerNormEps}}},
                  tied});
  return rows;
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

base::Result<Spec> made_family(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    Spec spec;
    spec.layers = 4, spec.dim = 64, spec.ffn = 96, spec.heads = 4, spec.kv_heads = 2;
    spec.features = row.features;
    if (row.change != nullptr) row.change(spec);
    return spec;
  }
  return base::fail("--family {}: the families are {}", name, fmt::join(family_names(), ", "));
}

}  // namespace kvick::tools
