#include "io/families/hf_families.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

base::Result<ModelFile> open_with(const json& config,
                                  const char* embedding = "model.embed_tokens.weight") {
  const TestFolder folder;
  folder.write("config.json", with(config, {{"tie_word_embeddings", true}}).dump());
  folder.write("model.safetensors", weights({{embedding, {6, 8}}}));
  return ModelFile::open(folder.path());
}

TEST(HfFamilies, EachTypeHasOneRow) {
  std::set<std::string_view> types;
  for (const HfFamily& family : hf_families()) {
    EXPECT_TRUE(types.insert(family.model_type).second) << family.model_type;
    EXPECT_EQ(find_hf_family(family.model_type)->architecture, family.architecture);
  }
  EXPECT_EQ(find_hf_family("of nobody"), nullptr);
}

TEST(HfFamilies, TheNumberOfLayersHasALimit) {
  const json mamba = {{"model_type", "mamba2"}, {"vocab_size", 6}, {"hidden_size", 8},
                      {"num_heads", 4},         {"head_dim", 4},   {"state_size", 16}};
  for (const json& config : {llama_config(), mamba}) {
    EXPECT_TRUE(open_with(with(config, {{"num_hidden_layers", 2}})).ok());
    const auto file = open_with(with(config, {{"num_hidden_layers", 100001}}));
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find("'num_hidden_layers' is 100001; at most 100000 are"),
              std::string::npos)
        << file.error().message;
  }
}

// The fields of moonshotai/Kimi-K2-Instruct, with smaller sizes.
json kimi_config() {
  return {{"model_type", "kimi_k2"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"moe_intermediate_size", 4},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"n_routed_experts", 8},
          {"n_shared_experts", 1},
          {"num_experts_per_tok", 2},
          {"first_k_dense_replace", 1},
          {"n_group", 1},
          {"topk_group", 1},
          {"topk_method", "noaux_tc"},
          {"scoring_func", "sigmoid"},
          {"norm_topk_prob", true},
          {"routed_scaling_factor", 2.827},
          {"q_lora_rank", 6},
          {"kv_lora_rank", 4},
          {"qk_nope_head_dim", 4},
          {"qk_rope_head_dim", 2},
          {"v_head_dim", 4},
          {"max_position_embeddings", 128},
          {"num_nextn_predict_layers", 0},
          {"rope_theta", 50000.0},
          {"rope_scaling",
           {{"type", "yarn"},
            {"factor", 32.0},
            {"beta_fast", 1.0},
            {"beta_slow", 1.0},
            {"mscale", 1.0},
            {"mscale_all_dim", 1.0},
            {"original_max_position_embeddings", 4096}}},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6}};
}

TEST(HfFamilies, KimiK2IsADeepseekV3) {
  json as_deepseek = kimi_config();
  as_deepseek["model_type"] = "deepseek_v3";
  const auto file = open_with(kimi_config());
  const auto other = open_with(as_deepseek);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "deepseek2");
  EXPECT_TRUE(*file->get_bool("kvick.rope.interleaved", false));
  EXPECT_EQ(*file->get_uint("deepseek2.attention.key_length"), 6u);
  EXPECT_EQ(*file->get_uint("deepseek2.leading_dense_block_count"), 1u);
  EXPECT_EQ(*file->get_float("deepseek2.expert_weights_scale"), 2.827);
  EXPECT_EQ(file->metadata().size(), other->metadata().size());
  EXPECT_EQ(find_hf_family("kimi_k2")->modules.data(),
            find_hf_family("deepseek_v3")->modules.data());
}

// Kimi K2.5 says within its text part how its experts are quantised.
TEST(HfFamilies, TheTextPartMaySayHowItIsQuantised) {
  const json text = with(kimi_config(), {{"quantization_config", {{"quant_method", "of nobody"}}}});
  const auto file = open_with({{"model_type", "kimi_k25"}, {"text_config", text}},
                              "language_model.model.embed_tokens.weight");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("'quant_method' is 'of nobody'"), std::string::npos)
      << file.error().message;
}

json falcon_config() {
  return with(llama_config(), {{"model_type", "falcon_h1"},
                               {"head_dim", 4},
                               {"mamba_d_ssm", 4},
                               {"mamba_n_heads", 2},
                               {"mamba_n_groups", 2},
                               {"mamba_d_state", 1},
                               {"mamba_d_conv", 4},
                               {"mamba_rms_norm", true},
                               {"mamba_norm_before_gate", false},
                               {"embedding_multiplier", 3.0},
                               {"lm_head_multiplier", 0.25},
                               {"key_multiplier", 0.5},
                               {"attention_in_multiplier", 2.0},
                               {"attention_out_multiplier", 4.0},
                               {"ssm_in_multiplier", 2.0},
                               {"ssm_out_multiplier", 0.5},
                               {"mlp_multipliers", {0.75, 1.25}},
                               {"ssm_multipliers", {1.0, 2.0, 3.0, 4.0, 5.0}}});
}

TEST(HfFamilies, FalconH1sFactorsAreKeysOrInItsWeights) {
  const TestFolder folder;
  folder.write("config.json", with(falcon_config(), {{"tie_word_embeddings", true}}).dump());
  // Element i of each is i. The state's inputs are 4 of z, 4 of x, 2 of B, 2 of C and 2 of dt.
  folder.write("model.safetensors",
               weights({{"model.embed_tokens.weight", {6, 8}},
                        {"model.final_layernorm.weight", {8}},
                        {"model.layers.1.mamba.in_proj.weight", {14, 1}},
                        {"model.layers.1.mamba.out_proj.weight", {2, 2}},
                        {"model.layers.1.mamba.norm.weight", {4}},
                        {"model.layers.1.mamba.A_log", {2}},
                        {"model.layers.1.self_attn.k_proj.weight", {2, 2}},
                        {"model.layers.1.self_attn.o_proj.weight", {2, 2}},
                        {"model.layers.1.pre_ff_layernorm.weight", {2}},
                        {"model.layers.1.feed_forward.gate_proj.weight", {2, 2}},
                        {"model.layers.1.feed_forward.up_proj.weight", {2, 2}},
                        {"model.layers.1.feed_forward.down_proj.weight", {2, 2}}}));
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "falcon-h1");
  EXPECT_EQ(*file->get_uint("falcon-h1.ssm.inner_size"), 4u);
  EXPECT_EQ(*file->get_uint("falcon-h1.ssm.time_step_rank"), 2u);
  EXPECT_EQ(*file->get_float("falcon-h1.embedding_scale"), 3.0);
  EXPECT_EQ(*file->get_float("falcon-h1.logit_scale"), 4.0);
  EXPECT_EQ(*file->get_float("falcon-h1.attention.scale"), 2 * 2 * 0.5 / 2);
  const auto floats = [&](const std::string& name) {
    const Tensor* tensor = file->find("blk.1." + name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<float> values(tensor == nullptr ? 0 : tensor->elements());
    if (tensor != nullptr) tensor->read_floats(values.data());
    return values;
  };
  using Floats = std::vector<float>;
  EXPECT_EQ(floats("ssm_in.weight"),
            (Floats{0, 2, 4, 6, 16, 20, 24, 28, 48, 54, 80, 88, 120, 130}));
  EXPECT_EQ(floats("ssm_out.weight"), (Floats{0, 0.5, 1, 1.5}));
  EXPECT_EQ(floats("attn_k.weight"), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(floats("attn_output.weight"), (Floats{0, 8, 16, 24}));
  EXPECT_EQ(floats("ffn_gate.weight"), (Floats{0, 0.75, 1.5, 2.25}));
  EXPECT_EQ(floats("ffn_up.weight"), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(floats("ffn_down.weight"), (Floats{0, 1.25, 2.5, 3.75}));
  EXPECT_EQ(floats("ffn_norm.weight"), (Floats{0, 1}));
  EXPECT_EQ(floats("ssm_a_log"), (Floats{0, 1}));
  EXPECT_EQ(file->find("blk.1.ssm_norm.weight")->shape, (std::vector<uint64_t>{2, 2}));
  EXPECT_NE(file->find("output_norm.weight"), nullptr);
}

TEST(HfFamilies, FalconH1sOtherFormsAreRefused) {
  const auto error = [](const json& changes) {
    const auto file = open_with(with(falcon_config(), changes));
    return file.ok() ? "none" : file.error().message;
  };
  EXPECT_EQ(error(json::object()), "none");
  EXPECT_EQ(error({{"mamba_rms_norm", false}, {"mamba_norm_before_gate", true}}), "none");
  for (const auto& [changes, expected] :
       {std::pair<json, const char*>{{{"mamba_norm_before_gate", true}},
                                     "'mamba_norm_before_gate' is true; kvick normalises"},
        {{{"projectors_bias", true}}, "'projectors_bias' is true"},
        {{{"ssm_multipliers", {1.0, 2.0}}}, "'ssm_multipliers' must hold 5 numbers"},
        {{{"mlp_multipliers", {1.0, 2.0, 3.0}}}, "'mlp_multipliers' must hold 2 numbers"},
        {{{"time_step_limit", {0.0, 0.1}}}, "'time_step_limit' limits the steps"}})
    EXPECT_NE(error(changes).find(expected), std::string::npos) << error(changes);
}

}  // namespace
}  // namespace kvick::io
