// Larger than 400 lines because it is one table.

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
constexpr uint32_t kMean = 1, kCls = 2, kRank = 4;  // GGUF's numbers of pooling types

// Returns the features that the families of Gemma 2 and later share.
Features gemma(const char* family, uint32_t window) {
  return {.family = family, .window = window, .post_norms = true, .scaled_embedding = true};
}
// Of six layers, the third and the sixth have no window, and wider heads.
Features gemma4() {
  Features f = gemma("gemma4", 20);
  f.windowed = {true, true, false, true, true, false};
  f.window_head_dim = 16;
  f.window_rope_base = 1e4F;
  f.logit_softcap = 5;
  f.head_norms = f.output_scales = true;
  f.full_pairs = 4;
  f.keys = {{"rope.dimension_count_swa", 16U}};
  return f;
}
void gemma4_sizes(Spec& spec) {
  spec.tied = true;
  spec.layers = 6;
  spec.head_dim = 32;
  spec.rope_base = 1e6;
}
// llama.cpp supports only these sizes: layers from 20 on read other layers' rows, 256 floats of
// per-layer inputs, a rank of 64, and a sparsity of 95 % in 10 layers.
void gemma3n_sizes(Spec& spec) {
  spec.tied = true;
  spec.layers = 25;
  spec.rope_base = 1e6;
  Features& f = spec.features;
  f.shared_layers = 5, f.unused_rows = true;
  f.layer_inputs = 256, f.streams = 4, f.laurel = 64;
  for (uint32_t i = 0; i < spec.layers; ++i) {
    f.windowed.push_back(i % 5 != 4);
    f.sparsity.push_back(i < 10 ? 1.6448533535F : 0);
  }
  f.window_rope_base = 1e4F;
  f.logit_softcap = 5;
  f.head_norms = true;
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

// Files of encoders have no output layer.
void encoder(Spec& spec) { spec.tied = true, spec.kv_heads = spec.heads; }

// Returns the features of BERT and its successors: norms follow the residual sums.
Features bert(const char* family, uint32_t pooling) {
  return {.family = family,
          .no_pre_norms = true,
          .qkv_bias = true,
          .out_bias = true,
          .ffn_bias = true,
          .ungated = true,
          .sum_norms = true,
          .embedding_norm = true,
          .token_types = 2,
          .keys = {{"attention.layer_norm_epsilon", kLayerNormEps},
                   {"attention.causal", false},
                   {"pooling_type", pooling}}};
}

std::vector<Row> encoders() {
  std::vector<Row> rows;
  Features plain = bert("bert", kCls), ranks = bert("bert", kRank);
  plain.positions = ranks.positions = true;
  ranks.rank_inner = true, ranks.rank_labels = 1;
  rows.push_back({"bert", plain, encoder});
  rows.push_back({"bert-rank", ranks, encoder});
  rows.push_back({"nomic-bert", bert("nomic-bert", kMean), [](Spec& spec) {
                    encoder(spec);
                    Features& f = spec.features;
                    f.fused_qkv = true, f.ungated = false;
                    f.qkv_bias = f.out_bias = f.ffn_bias = false;
                  }});
  Features nomic_moe = with_experts(bert("nomic-bert-moe", kMean), 2, 0);
  nomic_moe.keys.push_back({"moe_every_n_layers", 2U});
  rows.push_back({"nomic-bert-moe", nomic_moe, [](Spec& spec) {
                    encoder(spec);
                    spec.features.expert_ffn = spec.ffn;
                  }});
  // As kvick reads it from a folder; llama.cpp leaves the bias out.
  rows.push_back({"nomic-bert-moe-bias", nomic_moe, [](Spec& spec) {
                    encoder(spec);
                    spec.features.expert_ffn = spec.ffn;
                    spec.features.expert_bias = true;
                  }});
  Features jina = bert("jina-bert-v2", kMean);
  jina.alibi = true, jina.ungated = false;
  rows.push_back({"jina-bert-v2", jina, [](Spec& spec) {
                    encoder(spec);
                    spec.features.fused_gate_up = true;
                  }});
  // As in jina's model for code: norms over all heads, and second norms. The number of heads is not
  // a power of two.
  rows.push_back({"jina-bert-v2-norms", jina, [](Spec& spec) {
                    spec.dim = 96, spec.heads = 6;
                    encoder(spec);
                    spec.features.all_head_norms = spec.features.second_sum_norms = true;
                  }});
  rows.push_back({"jina-bert-v2-rank", jina, [](Spec& spec) {
                    encoder(spec);
                    Features& f = spec.features;
                    f.keys.back().value = kRank;
                    f.fused_gate_up = f.rank_inner = f.rank_inner_alone = true, f.rank_labels = 1;
                  }});
  rows.push_back({"jina-bert-v3", bert("jina-bert-v3", kMean), [](Spec& spec) {
                    encoder(spec);
                    spec.features.fused_qkv = true, spec.features.token_types = 1;
                    spec.rope_base = 20000;
                  }});
  const Features modern = {
      .family = "modern-bert",
      .window = 16,
      .window_rope_base = 300,
      .fused_qkv = true,
      .fused_gate_up = true,
      .embedding_norm = true,
      .plain_layer_norms = true,
      .no_first_norm = true,
      .keys = {{"attention.layer_norm_epsilon", kLayerNormEps}, {"pooling_type", kMean}}};
  rows.push_back({"modern-bert", modern, encoder});
  rows.push_back({"modern-bert-silu", modern, [](Spec& spec) {
                    encoder(spec);
                    spec.features.keys.push_back({"hidden_activation", std::string("silu")});
                  }});
  rows.push_back({"modern-bert-rank", modern, [](Spec& spec) {
                    encoder(spec);
                    Features& f = spec.features;
                    f.keys.back().value = kRank;
                    f.rank_inner = f.rank_norm = true, f.rank_labels = 1;
                  }});
  Features embedding = gemma("gemma-embedding", 20);
  embedding.head_norms = true, embedding.pooled_width = 128;
  embedding.keys = {{"pooling_type", kMean}};
  rows.push_back({"gemma-embedding", embedding, [](Spec& spec) {
                    tied(spec);
                    spec.layers = 7;
                    spec.rope_base = 1e6;
                  }});
  const auto qwen3 = [](uint32_t pooling) {
    return Features{.family = "qwen3", .head_norms = true, .keys = {{"pooling_type", pooling}}};
  };
  rows.push_back({"qwen3-embedding", qwen3(3), tied_wide_heads});
  rows.push_back({"qwen3-rank", qwen3(kRank), [](Spec& spec) {
                    tied_wide_heads(spec);
                    spec.features.rank_labels = 2;
                  }});
  return rows;
}

// Sets the sizes of latent attention in deepseek2 and minicpm3, with spec.heads heads.
void latent_heads(Spec& spec) {
  Features& f = spec.features;
  f.latent = 64, f.plain = 32, f.value_dim = 32;
  spec.rotated = 32, spec.head_dim = f.plain + spec.rotated;
  spec.kv_heads = f.joined_heads ? spec.heads : 1;
}
Features deepseek(std::vector<Key> keys) {
  Features f = with_experts({.family = "deepseek2"}, 1, 128);
  f.dense_layers = 1;
  f.keys = std::move(keys);
  f.keys.insert(f.keys.end(), {{"expert_shared_count", 2U}, {"expert_weights_scale", 1.5F}});
  return f;
}

void add_latent_rows(std::vector<Row>& rows) {
  // DeepSeek-V2-Lite, whose queries have one matrix; the second row is the form of files of 2024.
  // llama.cpp recognises the model by its 27 layers.
  rows.push_back({"deepseek2-lite", deepseek({}), [](Spec& spec) {
                    latent_heads(spec);
                    spec.layers = 27;
                  }});
  rows.push_back({"deepseek2-old", deepseek({}), [](Spec& spec) {
                    spec.features.joined_heads = true;
                    latent_heads(spec);
                    spec.layers = 27;
                  }});
  // DeepSeek-V3: groups of experts, a bias for selecting them, YaRN.
  rows.push_back({"deepseek3",
                  deepseek({{"expert_gating_func", 2U},
                            {"expert_weights_norm", true},
                            {"expert_group_count", 4U},
                            {"expert_group_used_count", 2U},
                            {"rope.scaling.yarn_log_multiplier", 0.1F}}),
                  [](Spec& spec) {
                    latent_heads(spec);
                    yarn(spec);
                    spec.features.q_latent = 32;
                    spec.features.selection_bias = true;
                  }});
  rows.push_back(
      {"minicpm3", {.family = "minicpm3", .q_latent = 32, .joined_heads = true}, latent_heads});
  Features glm = with_experts(
      {.family = "glm4moe", .qkv_bias = true, .ffn_norm_after_attention = true}, 1, 64);
  glm.dense_layers = 1, glm.selection_bias = true;
  glm.keys = {{"expert_shared_count", 1U},
              {"expert_gating_func", 2U},
              {"expert_weights_norm", true},
              {"expert_weights_scale", 2.5F}};
  rows.push_back({"glm4moe", glm, [](Spec& spec) { spec.rotated = 8; }});
  rows.push_back({"glm4moe-norms", glm, [](Spec& spec) {
                    spec.rotated = 8;
                    spec.features.head_norms = true;
                  }});
}

// A group has three heads. Keys are as wide as values, which llama.cpp requires.
Features delta(const char* family) {
  Features f = {.family = family,
                .head_norms = true,
                .ffn_norm_after_attention = true,
                .conv_kernel = 4,
                .state_heads = 6,
                .state_groups = 2,
                .state_head_dim = 16,
                .state_size = 16};
  f.delta_period = 4, f.gated_heads = true;
  return f;
}
void delta_sizes(Spec& spec) {
  spec.layers = 5;
  spec.head_dim = 32, spec.rotated = 8;
  spec.features.shared_gate = spec.features.expert_period != 0;
  spec.features.delta_mixed = spec.features.family == "qwen3next";
}

Features lfm2(const char* family) {
  return {.family = family,
          .kv_heads = {0, 2, 0, 0},
          .head_norms = true,
          .conv_kernel = 3,
          .last_norm_of_embedding = true};
}
// Eight heads, together twice as wide as the model, which llama.cpp requires for Granite.
Features mamba2(Features f, uint32_t groups) {
  f.conv_kernel = 4, f.state_heads = 8, f.state_groups = groups;
  f.state_head_dim = 16, f.state_size = 32;
  return f;
}
Features granite_hybrid() {
  Features f = mamba2(granite("granitehybrid"), 1);
  f.kv_heads = {0, 2, 0, 0};
  f.keys.push_back({"rope.scaling.finetuned", false});
  return f;
}
Features falcon_h1() {
  Features f = mamba2({.family = "falcon-h1"}, 2);
  f.state_beside = f.bare_ffn_norm = true;
  return f;
}
// The four layers are a state, a feed-forward block, attention, and a state.
Features nemotron(const char* family) {
  Features f = mamba2({.family = family, .ungated = true, .one_block = true}, 2);
  f.kv_heads = {0, 0, 2, 0};
  f.ffn = {0, 96, 0, 0};
  f.keys = {{"attention.layer_norm_epsilon", kLayerNormEps}};
  return f;
}

std::vector<Row> rows_with_states() {
  std::vector<Row> rows;
  rows.push_back({"lfm2", lfm2("lfm2"), tied});
  rows.push_back({"lfm2moe", with_experts(lfm2("lfm2moe"), 1, 0), [](Spec& spec) {
                    tied(spec);
                    spec.features.selection_bias = true;
                    spec.features.dense_layers = 1;
                    spec.features.keys = {{"expert_gating_func", 2U}};
                  }});
  rows.push_back({"granitehybrid", granite_hybrid(), tied});
  rows.push_back({"granitehybrid-moe", with_experts(granite_hybrid(), 1, 96),
                  [](Spec& spec) { spec.features.expert_ffn = spec.ffn; }});
  rows.push_back({"falcon-h1", falcon_h1(), wide_heads});
  rows.push_back({"falcon-h1-plain", falcon_h1(), [](Spec& spec) {
                    tied(spec);
                    spec.features.no_state_norm = true;
                  }});
  rows.push_back({"nemotron_h", nemotron("nemotron_h")});
  rows.push_back(
      {"nemotron_h_moe", with_experts(nemotron("nemotron_h_moe"), 1, 96), [](Spec& spec) {
         spec.features.selection_bias = true;
         const std::vector<Key> router = {{"expert_gating_func", 2U},
                                          {"expert_weights_norm", true},
                                          {"expert_weights_scale", 2.5F}};
         spec.features.keys.insert(spec.features.keys.end(), router.begin(), router.end());
       }});
  Features mamba = mamba2({.family = "mamba2"}, 1);
  mamba.heads = mamba.kv_heads = mamba.ffn = {0, 0, 0, 0};
  rows.push_back({"mamba2", mamba, tied});
  rows.push_back({"qwen3next", with_experts(delta("qwen3next"), 1, 96), delta_sizes});
  rows.push_back({"qwen35", delta("qwen35"), delta_sizes});
  rows.push_back({"qwen35moe", with_experts(delta("qwen35moe"), 1, 96), delta_sizes});
  return rows;
}

std::vector<Row> rows() {
  std::vector<Row> rows = rows_with_states();
  rows.push_back({"mixtral", with_experts({.family = "llama"}, 1, 0),
                  [](Spec& spec) { spec.features.expert_ffn = spec.ffn; }});
  rows.push_back({"qwen2moe", with_experts({.family = "qwen2moe", .qkv_bias = true}, 1, 96),
                  [](Spec& spec) { spec.features.shared_gate = true; }});
  rows.push_back(
      {"qwen3moe", with_experts({.family = "qwen3moe", .head_norms = true}, 1, 0), wide_heads});
  // All experts are used, so that rounding cannot change the selection: for comparing quantised
  // weights.
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
  rows.push_back({"gemma3n", gemma("gemma3n", 20), gemma3n_sizes});
  rows.push_back({"gemma4", gemma4(), [](Spec& spec) {
                    gemma4_sizes(spec);
                    spec.features.kv_heads.assign(spec.layers, 1);
                    spec.features.ffn = {96, 96, 96, 192, 192, 192};
                    spec.features.shared_layers = 3;
                    spec.features.layer_inputs = 32;
                  }});
  rows.push_back({"gemma4-experts", with_experts(gemma4(), 1, 0), [](Spec& spec) {
                    gemma4_sizes(spec);
                    spec.features.kv_heads = {2, 2, 1, 2, 2, 1};
                    spec.features.keys_as_values = spec.features.parallel_experts = true;
                    spec.features.keys.push_back({"embedding_length_per_layer_input", 0U});
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
                   .keys = {{"attention.sliding_window", 262144U},
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
  add_latent_rows(rows);
  for (Row& row : encoders()) rows.push_back(std::move(row));
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
