#include "io/families/hf_families.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

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

}  // namespace
}  // namespace kvick::io
