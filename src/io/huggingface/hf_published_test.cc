// Fields that config.json of published folders omits, or writes in its own way.

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/families/hf_families.h"
#include "io/file/model_file.h"
#include "io/huggingface/hf_names.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

base::Result<ModelFile> open_with(const json& config, const char* embedding) {
  const TestFolder folder;
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", weights({{embedding, {6, 8}}}));
  return ModelFile::open(folder.path());
}

TEST(HfPublished, Gemma3sFoldersLeaveOutTransformersDefaults) {
  const json text = {{"model_type", "gemma3_text"}, {"hidden_size", 8}, {"intermediate_size", 12},
                     {"num_hidden_layers", 2},      {"vocab_size", 6},  {"head_dim", 128},
                     {"sliding_window", 1024}};
  const auto file = open_with({{"model_type", "gemma3"}, {"text_config", text}},
                              "language_model.model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("gemma3.attention.head_count"), 8u);
  EXPECT_EQ(*file->get_uint("gemma3.attention.head_count_kv"), 4u);
  EXPECT_EQ(*file->get_uint("gemma3.context_length"), 131072u);
  EXPECT_EQ(*file->get_float("gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(*file->get_float("gemma3.attention.scale"), 1.0 / 16);
  // The file's own fields take precedence over defaults.
  EXPECT_EQ(*file->get_uint("gemma3.vocab_size"), 6u);
  EXPECT_EQ(*file->get_uint("gemma3.attention.key_length"), 128u);
  EXPECT_EQ(*file->get_uint("gemma3.attention.sliding_window"), 1024u);
}

TEST(HfPublished, InfinityStopsOnlyAFieldThatIsNeeded) {
  const auto open_text = [](const std::string& field) {
    const TestFolder folder;
    std::string config = with(llama_config(), {{"tie_word_embeddings", true}}).dump();
    config.pop_back();
    folder.write("config.json", config + field + "}");
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    return ModelFile::open(folder.path());
  };
  const auto unused = open_text(R"(, "time_step_limit": [0.0, Infinity], "aux_loss": NaN)");
  ASSERT_TRUE(unused.ok()) << unused.error().message;
  EXPECT_EQ(*unused->get_uint("llama.embedding_length"), 8u);
  const auto needed = open_text(R"(, "head_dim": Infinity)");
  ASSERT_FALSE(needed.ok());
  EXPECT_NE(needed.error().message.find("'head_dim' is Infinity, but must be a whole number"),
            std::string::npos)
      << needed.error().message;
}

TEST(HfPublished, MiniCpm3sFolderHasNoSizeOfValuesAndNoOutputMatrix) {
  json config = with(llama_config(), {{"model_type", "minicpm3"},
                                      {"num_key_value_heads", 4},
                                      {"qk_nope_head_dim", 4},
                                      {"qk_rope_head_dim", 2},
                                      {"q_lora_rank", 6},
                                      {"kv_lora_rank", 4},
                                      {"scale_emb", 12},
                                      {"scale_depth", 1.4},
                                      {"dim_model_base", 256}});
  config.erase("tie_word_embeddings");
  const auto file = open_with(config, "model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("minicpm3.attention.value_length"), 2u);  // 8 / 4 heads
  EXPECT_EQ(*file->get_uint("minicpm3.attention.key_length"), 6u);
}

TEST(HfPublished, Llama4sTuningOfTemperaturesMayBeANumber) {
  const json config = with(llama_config(), {{"model_type", "llama4_text"},
                                            {"num_local_experts", 2},
                                            {"num_experts_per_tok", 1},
                                            {"attention_chunk_size", 8},
                                            {"intermediate_size_mlp", 16},
                                            {"use_qk_norm", true},
                                            {"tie_word_embeddings", true}});
  for (const json& on : {json(4), json(true)}) {
    const auto file =
        open_with(with(config, {{"attn_temperature_tuning", on}}), "model.embed_tokens.weight");
    ASSERT_TRUE(file.ok()) << file.error().message;
  }
  for (const json& off : {json(0), json(false)})
    EXPECT_FALSE(
        open_with(with(config, {{"attn_temperature_tuning", off}}), "model.embed_tokens.weight")
            .ok());
}

TEST(HfPublished, Lfm2sFirstFoldersNameTheWidthOtherwise) {
  json config = with(llama_config(), {{"model_type", "lfm2"},
                                      {"block_ff_dim", 24},
                                      {"block_multiple_of", 4},
                                      {"full_attn_idxs", {1}},
                                      {"tie_word_embeddings", true}});
  config.erase("intermediate_size");
  const auto file = open_with(config, "model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("lfm2.feed_forward_length"), 16u);  // two thirds
}

// FP8 folders have a tensor per expert; the others have one tensor for all experts.
TEST(HfPublished, Qwen35sExpertsMayBeOneTensor) {
  const HfConfig config{.architecture = "qwen35moe",
                        .modules = find_hf_family("qwen3_5_moe_text")->modules,
                        .layers = 1,
                        .nested = true};
  for (const auto& [from, to] : {std::pair{"gate_up_proj", "blk.0.ffn_gate_up_exps.weight"},
                                 {"down_proj", "blk.0.ffn_down_exps.weight"},
                                 {"1.gate_proj.weight", "blk.0.ffn_gate.1.weight"}}) {
    const auto mapped = map_tensor_name(
        config, std::string("model.language_model.layers.0.mlp.experts.") + from, "here");
    ASSERT_TRUE(mapped.ok()) << mapped.error().message;
    EXPECT_EQ(mapped->value_or(""), to);
  }
}

TEST(HfPublished, OfQwen35sFoldersWithPicturesTheTextIsRead) {
  const json text = with(llama_config(), {{"model_type", "qwen3_5_text"},
                                          {"head_dim", 16},
                                          {"attn_output_gate", true},
                                          {"linear_conv_kernel_dim", 4},
                                          {"linear_key_head_dim", 8},
                                          {"linear_num_key_heads", 2},
                                          {"linear_num_value_heads", 6},
                                          {"linear_value_head_dim", 16},
                                          {"rope_parameters",
                                           {{"mrope_interleaved", true},
                                            {"mrope_section", {1, 1, 0}},
                                            {"partial_rotary_factor", 0.25},
                                            {"rope_theta", 1e7},
                                            {"rope_type", "default"}}},
                                          {"tie_word_embeddings", true}});
  const TestFolder folder;
  folder.write(
      "config.json",
      json{{"model_type", "qwen3_5"}, {"text_config", text}, {"vision_config", {{"depth", 1}}}}
          .dump());
  folder.write("model.safetensors", weights({{"model.language_model.embed_tokens.weight", {6, 8}},
                                             {"model.visual.patch_embed.proj.weight", {2}},
                                             {"mtp.fc.weight", {2}}}));
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "qwen35");
  EXPECT_EQ(*file->get_uint("qwen35.ssm.state_size"), 8u);
  EXPECT_EQ(file->tensors().size(), 1u);
}

TEST(HfPublished, PartsThatAreNotReadMayHaveAnyType) {
  const auto open = [](const std::string& name, const char* type, size_t bytes) {
    const TestFolder folder;
    folder.write("config.json",
                 json{{"model_type", "with pictures"},
                      {"text_config", with(llama_config(), {{"tie_word_embeddings", true}})}}
                     .dump());
    const size_t begin = 6 * 8 * sizeof(float);
    const json header = {
        {"model.language_model.embed_tokens.weight",
         {{"dtype", "F32"}, {"shape", {6, 8}}, {"data_offsets", {0, begin}}}},
        {name, {{"dtype", type}, {"shape", {1}}, {"data_offsets", {begin, begin + bytes}}}}};
    folder.write("model.safetensors",
                 safetensors_image(header.dump(), std::string(begin + bytes, '\0')));
    return ModelFile::open(folder.path());
  };
  for (const auto& [type, bytes] :
       {std::pair{"F64", 8}, {"BOOL", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"U32", 4}}) {
    const auto file = open("model.vision_tower.positions", type, bytes);
    ASSERT_TRUE(file.ok()) << type << ": " << file.error().message;
    EXPECT_EQ(file->tensors().size(), 1u);
    const auto read = open("model.language_model.layers.0.mlp.up_proj.weight", type, bytes);
    ASSERT_FALSE(read.ok()) << type;
    EXPECT_NE(read.error().message.find(std::string("'dtype' is '") + type + "', which kvick does"),
              std::string::npos)
        << read.error().message;
  }
}

// Mistral Small 3.1 has such a file. The tokenizer's own template takes precedence.
TEST(HfPublished, AChatTemplateMayLieBesideTheTokenizer) {
  const TestFolder folder;
  folder.write("config.json", with(llama_config(), {{"tie_word_embeddings", true}}).dump());
  folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
  const json pre = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const json model = {{"vocab", {{"a", 0}, {"b", 1}}}, {"merges", json::array()}};
  folder.write("tokenizer.json", json{{"pre_tokenizer", pre}, {"model", model}}.dump());
  folder.write("chat_template.json", R"({"chat_template": "beside"})");
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("tokenizer.chat_template"), "beside");
  folder.write("tokenizer_config.json", R"({"chat_template": "own"})");
  EXPECT_EQ(*ModelFile::open(folder.path())->get_string("tokenizer.chat_template"), "own");
}

// transformers 5.24 reads them the same way.
TEST(HfPublished, LimitsAndWindowsThatAreNullAreNone) {
  json gemma2 = with(llama_config(), {{"model_type", "gemma2"},
                                      {"tie_word_embeddings", true},
                                      {"hidden_activation", "gelu_pytorch_tanh"},
                                      {"attn_logit_softcapping", nullptr},
                                      {"query_pre_attn_scalar", 16}});
  const auto file = open_with(gemma2, "model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_float("gemma2.attn_logit_softcapping", 50), 0.0);
  EXPECT_FALSE(file->metadata().contains("gemma2.final_logit_softcapping"));

  json phi = with(llama_config(), {{"model_type", "phi3"}, {"tie_word_embeddings", true}});
  EXPECT_EQ(
      *open_with(phi, "model.embed_tokens.weight")->get_uint("phi3.attention.sliding_window", 1),
      0u);
  phi["sliding_window"] = 2047;
  EXPECT_EQ(
      *open_with(phi, "model.embed_tokens.weight")->get_uint("phi3.attention.sliding_window", 1),
      2047u);
}

// Returns what is wrong with a config, or "none".
std::string error_of(const json& config, const char* embedding = "model.embed_tokens.weight") {
  const auto file = open_with(with(config, {{"tie_word_embeddings", true}}), embedding);
  return file.ok() ? "none" : file.error().message;
}

TEST(HfPublished, HunyuansAlphaIsTheBasesFactor) {
  const json alpha = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  const json config =
      with(llama_config(),
           {{"model_type", "hunyuan_v1_dense"}, {"head_dim", 8}, {"tie_word_embeddings", true}});
  const auto file = open_with(with(config, {{"rope_scaling", alpha}}), "model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_DOUBLE_EQ(*file->get_float("hunyuan-dense.rope.freq_base"), 5e5 * std::pow(1e3, 8.0 / 6));
  EXPECT_FALSE(file->metadata().contains("hunyuan-dense.rope.scaling.type"));
  EXPECT_NE(error_of(with(llama_config(), {{"rope_scaling", alpha}})).find("is 'dynamic'"),
            std::string::npos);
  EXPECT_NE(error_of(with(config, {{"use_cla", true}})).find("'use_cla' is true"),
            std::string::npos);
}

TEST(HfPublished, MiniCpmsFactorsAreGgufs) {
  const json config = with(
      llama_config(),
      {{"model_type", "minicpm"}, {"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 4}});
  const auto file =
      open_with(with(config, {{"tie_word_embeddings", true}}), "model.embed_tokens.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_float("minicpm.embedding_scale"), 12.0);
  EXPECT_DOUBLE_EQ(*file->get_float("minicpm.residual_scale"), 1.4 / std::sqrt(2.0));
  EXPECT_EQ(*file->get_float("minicpm.logit_scale"), 2.0);
  EXPECT_NE(error_of(with(config, {{"num_experts", 8}})).find("'num_experts' is 8"),
            std::string::npos);
}

TEST(HfPublished, SettingsThatNewFamiliesLackAreRefused) {
  const json olmoe = {{"model_type", "olmoe"}, {"num_experts", 4}, {"num_experts_per_tok", 2}};
  EXPECT_EQ(error_of(with(llama_config(), olmoe)), "none");
  EXPECT_NE(
      error_of(with(with(llama_config(), olmoe), {{"clip_qkv", 8.0}})).find("'clip_qkv' limits"),
      std::string::npos);
  const json cohere = with(llama_config(), {{"model_type", "cohere"}, {"layer_norm_eps", 1e-5}});
  EXPECT_EQ(error_of(cohere), "none");
  EXPECT_NE(error_of(with(cohere, {{"use_qk_norm", true}})).find("'use_qk_norm' is true"),
            std::string::npos);
}

TEST(HfPublished, Ernie45sDraftLayersAreLeftOut) {
  const HfConfig ernie{.architecture = "ernie4_5-moe",
                       .modules = find_hf_family("ernie4_5_moe")->modules,
                       .layers = 2};
  for (const char* name : {"model.mtp_block.0.mlp.up_proj.weight", "model.mtp_emb_norm.0.weight"})
    EXPECT_EQ(map_tensor_name(ernie, name, "here")->value_or(""), "") << name;
  EXPECT_EQ(map_tensor_name(ernie, "model.layers.1.mlp.moe_statics.e_score_correction_bias", "here")
                ->value_or(""),
            "blk.1.exp_probs_b.bias");
}

json nemotron_config() {
  return {{"model_type", "nemotron_h"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"hybrid_override_pattern", "M-*M"},
          {"intermediate_size", 12},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 4},
          {"max_position_embeddings", 64},
          {"mamba_num_heads", 4},
          {"mamba_head_dim", 4},
          {"ssm_state_size", 8},
          {"n_groups", 2},
          {"conv_kernel", 4},
          {"mlp_hidden_act", "relu2"},
          {"tie_word_embeddings", true},
          {"time_step_limit", {0.0, nullptr}}};
}
base::Result<ModelFile> open_nemotron(const json& changes) {
  return open_with(with(nemotron_config(), changes), "backbone.embeddings.weight");
}

TEST(HfPublished, NemotronsPatternSaysWhatEachLayerIs) {
  using Each = std::vector<uint64_t>;
  const auto dense = open_nemotron(json::object());
  ASSERT_TRUE(dense.ok()) << dense.error().message;
  EXPECT_EQ(*dense->get_string("general.architecture"), "nemotron_h");
  EXPECT_EQ(*dense->get_uint("nemotron_h.block_count"), 4u);
  EXPECT_EQ(*dense->get_uint_each("nemotron_h.attention.head_count_kv", 4), (Each{0, 0, 2, 0}));
  EXPECT_EQ(*dense->get_uint_each("nemotron_h.feed_forward_length", 4), (Each{0, 12, 0, 0}));
  EXPECT_EQ(*dense->get_uint("nemotron_h.ssm.inner_size"), 16u);
  EXPECT_EQ(*dense->get_uint("nemotron_h.ssm.group_count"), 2u);

  const json experts = {{"hybrid_override_pattern", "ME*"},
                        {"n_routed_experts", 4},
                        {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 16},
                        {"moe_shared_expert_intermediate_size", 24},
                        {"routed_scaling_factor", 2.5}};
  const auto mixed = open_nemotron(experts);
  ASSERT_TRUE(mixed.ok()) << mixed.error().message;
  EXPECT_EQ(*mixed->get_string("general.architecture"), "nemotron_h_moe");
  EXPECT_EQ(*mixed->get_uint_each("nemotron_h_moe.feed_forward_length", 3), (Each{0, 16, 0}));
  EXPECT_EQ(*mixed->get_uint("nemotron_h_moe.expert_gating_func"), 2u);
  EXPECT_EQ(*mixed->get_float("nemotron_h_moe.expert_weights_scale"), 2.5);

  const auto error = [](const json& changes) {
    return error_of(with(nemotron_config(), changes), "backbone.embeddings.weight");
  };
  EXPECT_NE(error({{"hybrid_override_pattern", "MX"}}).find("has a layer 'X'; kvick knows M, *"),
            std::string::npos);
  EXPECT_NE(error(with(experts, {{"moe_latent_size", 4}})).find("experts have a latent width"),
            std::string::npos);
  EXPECT_NE(error({{"time_step_limit", {0.0, 0.1}}}).find("'time_step_limit' limits the steps"),
            std::string::npos);
  EXPECT_NE(error({{"mlp_hidden_act", "silu"}}).find("'mlp_hidden_act' is 'silu'"),
            std::string::npos);
}

TEST(HfPublished, AStatesNormIsOfItsGroups) {
  const TestFolder folder;
  folder.write("config.json", nemotron_config().dump());
  folder.write("model.safetensors", weights({{"backbone.embeddings.weight", {6, 8}},
                                             {"backbone.layers.0.mixer.norm.weight", {16}},
                                             {"backbone.layers.0.mixer.A_log", {4}},
                                             {"backbone.layers.0.mixer.conv1d.weight", {48, 1, 4}},
                                             {"backbone.norm_f.weight", {8}},
                                             {"mtp.layers.0.norm.weight", {8}}}));
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 5u);
  const auto shape = [&](const char* name) {
    const Tensor* tensor = file->find(name);
    return tensor == nullptr ? std::vector<uint64_t>() : tensor->shape;
  };
  EXPECT_EQ(shape("blk.0.ssm_norm.weight"), (std::vector<uint64_t>{2, 8}));
  EXPECT_EQ(shape("blk.0.ssm_conv1d.weight"), (std::vector<uint64_t>{48, 4}));
  EXPECT_EQ(shape("blk.0.ssm_a_log"), (std::vector<uint64_t>{4}));
  EXPECT_EQ(shape("output_norm.weight"), (std::vector<uint64_t>{8}));
}

TEST(HfPublished, Mamba2HasNoHeadsAndNoWidths) {
  const json config = {{"model_type", "mamba2"}, {"vocab_size", 6}, {"hidden_size", 8},
                       {"num_hidden_layers", 2}, {"num_heads", 4},  {"head_dim", 4},
                       {"state_size", 16},       {"n_groups", 1},   {"tie_word_embeddings", true}};
  const auto file = open_with(config, "backbone.embeddings.weight");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("mamba2.block_count"), 2u);
  EXPECT_EQ(*file->get_uint("mamba2.attention.head_count"), 0u);
  EXPECT_EQ(*file->get_uint("mamba2.ssm.inner_size"), 16u);
  EXPECT_EQ(*file->get_uint("mamba2.ssm.state_size"), 16u);
}

// Qwen3-VL's config says outside of the text part whether the output matrix is the embedding.
TEST(HfPublished, TheWholeConfigMaySayThatTheEmbeddingIsTheOutput) {
  json text =
      with(llama_config(),
           {{"model_type", "qwen3_vl_text"},
            {"head_dim", 8},
            {"rope_scaling",
             {{"mrope_interleaved", true}, {"mrope_section", {2, 1, 1}}, {"rope_type", "mrope"}}}});
  text.erase("tie_word_embeddings");
  const auto opened = [&](bool outside) {
    return open_with(
        {{"model_type", "qwen3_vl"}, {"tie_word_embeddings", outside}, {"text_config", text}},
        "model.language_model.embed_tokens.weight");
  };
  const auto file = opened(true);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "qwen3vl");
  EXPECT_EQ(*file->get_uint("qwen3vl.rope.dimension_count"), 8u);
  EXPECT_FALSE(file->metadata().contains("qwen3vl.rope.scaling.type"));
  const auto missing = opened(false);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("has no tensor 'lm_head.weight'"), std::string::npos);
  text["tie_word_embeddings"] = false;  // the text part's own field takes precedence
  EXPECT_FALSE(opened(true).ok());
}

}  // namespace
}  // namespace kvick::io
