#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/families/hf_families.h"
#include "io/file/describe.h"
#include "io/file/model_file.h"
#include "io/file/test_images.h"
#include "io/huggingface/hf_names.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

json opt_config() {
  return {{"model_type", "opt"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"ffn_dim", 16},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"word_embed_proj_dim", 8},
          {"max_position_embeddings", 10},
          {"do_layer_norm_before", true},
          {"activation_function", "relu"}};
}

json gemma4_config() {
  return with(
      llama_config(),
      {{"model_type", "gemma4_text"},
       {"hidden_act", "gelu_pytorch_tanh"},
       {"layer_types", {"sliding_attention", "full_attention"}},
       {"sliding_window", 8},
       {"head_dim", 8},
       {"global_head_dim", 16},
       {"num_global_key_value_heads", 1},
       {"num_kv_shared_layers", 1},
       {"use_double_wide_mlp", true},
       {"hidden_size_per_layer_input", 32},
       {"rope_parameters",
        {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}}},
         {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 9.0}}}}}});
}

// Opens the folder of a model that has only what io requires.
base::Result<ModelFile> open_with(const json& config) {
  const TestFolder folder;
  folder.write("config.json", config.dump());
  const bool opt = config.is_object() && config["model_type"] == "opt";
  folder.write("model.safetensors",
               opt ? weights({{"model.decoder.embed_tokens.weight", {6, 8}}})
                   : weights({{"model.embed_tokens.weight", {6, 8}}, {"lm_head.weight", {6, 8}}}));
  return ModelFile::open(folder.path());
}

TEST(HuggingFace, ALlamaConfigBecomesGgufKeys) {
  const auto file = open_with(llama_config());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->container(), Container::kHuggingFace);
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  EXPECT_TRUE(file->get_string("general.name")->starts_with("kvick-io-"));
  EXPECT_FALSE(*file->get_bool("kvick.rope.interleaved", true));
  EXPECT_EQ(*file->get_uint("llama.block_count"), 2u);
  EXPECT_EQ(*file->get_uint("llama.context_length"), 64u);
  EXPECT_EQ(*file->get_uint("llama.embedding_length"), 8u);
  EXPECT_EQ(*file->get_uint("llama.feed_forward_length"), 12u);
  EXPECT_EQ(*file->get_uint("llama.attention.head_count"), 4u);
  EXPECT_EQ(*file->get_uint("llama.attention.head_count_kv"), 2u);
  EXPECT_EQ(*file->get_uint("llama.rope.dimension_count"), 2u);
  EXPECT_EQ(*file->get_uint("llama.vocab_size"), 6u);
  EXPECT_EQ(*file->get_float("llama.rope.freq_base"), 500000.0);
  EXPECT_EQ(*file->get_float("llama.attention.layer_norm_rms_epsilon"), 1e-5);
  for (const char* absent : {"llama.attention.key_length", "llama.rope.scaling.type",
                             "llama.attention.sliding_window", "tokenizer.ggml.model"})
    EXPECT_FALSE(file->metadata().contains(absent)) << absent;
}

TEST(HuggingFace, TheFamiliesDifferAsTheirCodeDoes) {
  const auto mistral = open_with(
      with(llama_config(), {{"model_type", "mistral"}, {"sliding_window", 32}, {"head_dim", 4}}));
  EXPECT_EQ(*mistral->get_string("general.architecture"), "llama");
  EXPECT_EQ(*mistral->get_uint("llama.attention.sliding_window"), 32u);
  EXPECT_EQ(*mistral->get_uint("llama.attention.key_length"), 4u);
  EXPECT_EQ(*mistral->get_uint("llama.rope.dimension_count"), 4u);

  json qwen = with(llama_config(), {{"model_type", "qwen2"}, {"sliding_window", 32}});
  EXPECT_FALSE(open_with(qwen)->metadata().contains("qwen2.attention.sliding_window"));
  qwen.update({{"use_sliding_window", true}, {"max_window_layers", 0}});
  EXPECT_EQ(*open_with(qwen)->get_uint("qwen2.attention.sliding_window"), 32u);
  qwen["max_window_layers"] = 2;
  EXPECT_FALSE(open_with(qwen)->metadata().contains("qwen2.attention.sliding_window"));
  qwen["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_TRUE(open_with(qwen)->metadata().contains("qwen2.attention.sliding_window"));

  const auto qwen3 = open_with(with(llama_config(), {{"model_type", "qwen3"}, {"head_dim", 16}}));
  EXPECT_EQ(*qwen3->get_uint("qwen3.attention.key_length"), 16u);

  const auto opt = open_with(opt_config());
  ASSERT_TRUE(opt.ok()) << opt.error().message;
  EXPECT_EQ(*opt->get_uint("opt.position_offset"), 2u);
  EXPECT_EQ(*opt->get_uint("opt.feed_forward_length"), 16u);
  EXPECT_EQ(*opt->get_uint("opt.attention.head_count_kv"), 2u);
  EXPECT_EQ(*opt->get_float("opt.attention.layer_norm_epsilon"), 1e-5);
}

TEST(HuggingFace, WindowsAreOfEachLayer) {
  const auto windowed = [](const ModelFile& file, const std::string& arch) {
    EXPECT_EQ(*file.get_uint(arch + ".attention.sliding_window"), 8u);
    return *file.get_uint_each(arch + ".attention.sliding_window_pattern", 2);
  };
  json qwen = with(llama_config(), {{"model_type", "qwen2"},
                                    {"sliding_window", 8},
                                    {"use_sliding_window", true},
                                    {"max_window_layers", 1}});
  EXPECT_EQ(windowed(*open_with(qwen), "qwen2"), (std::vector<uint64_t>{0, 1}));
  const json types = {"sliding_attention", "full_attention"};
  const auto file = open_with(
      with(llama_config(),
           {{"sliding_window", 8},
            {"layer_types", types},
            {"rope_parameters",
             {{"full_attention", {{"rope_theta", 7.0}}},
              {"sliding_attention", {{"rope_theta", 9.0}, {"partial_rotary_factor", 0.5}}}}}}));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(windowed(*file, "llama"), (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(*file->get_float("llama.rope.freq_base"), 7.0);
  EXPECT_EQ(*file->get_float("llama.rope.freq_base_swa"), 9.0);
  EXPECT_EQ(*file->get_uint("llama.rope.dimension_count_swa"), 1u);
}

TEST(HuggingFace, RopeIsReadFromItsOlderAndNewerPlaces) {
  const json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 32},
                       {"rope_type", "llama3"}};
  const json newer = with(llama3, {{"rope_theta", 10.0}});
  for (const auto& [field, value] :
       {std::pair{"rope_scaling", llama3}, {"rope_parameters", newer}}) {
    const auto file = open_with(with(llama_config(), {{field, value}}));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_string("llama.rope.scaling.type"), "llama3");
    EXPECT_EQ(*file->get_float("llama.rope.scaling.factor"), 8.0);
    EXPECT_EQ(*file->get_float("llama.rope.scaling.low_freq_factor"), 1.0);
    EXPECT_EQ(*file->get_float("llama.rope.scaling.high_freq_factor"), 4.0);
    EXPECT_EQ(*file->get_uint("llama.rope.scaling.original_context_length"), 32u);
    EXPECT_EQ(*file->get_float("llama.rope.freq_base"),
              field == std::string("rope_scaling") ? 5e5 : 10);
  }
  const json equal = with(llama3, {{"high_freq_factor", 1.0}});  // as in Llama 4
  EXPECT_TRUE(open_with(with(llama_config(), {{"rope_scaling", equal}})).ok());
  const auto linear =
      open_with(with(llama_config(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}));
  EXPECT_EQ(*linear->get_string("llama.rope.scaling.type"), "linear");
  EXPECT_EQ(*linear->get_float("llama.rope.scaling.factor"), 2.0);
  const auto plain = open_with(
      with(llama_config(), {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}}));
  EXPECT_EQ(*plain->get_float("llama.rope.freq_base"), 7.0);
  EXPECT_FALSE(plain->metadata().contains("llama.rope.scaling.type"));
}

TEST(HuggingFace, YarnsFactorOnCosAndSinIsRelativeToTheUsualOne) {
  json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  const auto usual = open_with(with(llama_config(), {{"rope_scaling", yarn}}));
  EXPECT_EQ(*usual->get_string("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(*usual->get_float("llama.rope.scaling.attn_factor"), 1.0);
  EXPECT_EQ(*usual->get_float("llama.rope.scaling.yarn_beta_fast"), 32.0);
  EXPECT_EQ(*usual->get_float("llama.rope.scaling.yarn_beta_slow"), 1.0);
  yarn["attention_factor"] = 2.0;
  const auto given = open_with(with(llama_config(), {{"rope_scaling", yarn}}));
  EXPECT_DOUBLE_EQ(*given->get_float("llama.rope.scaling.attn_factor"),
                   2.0 / (0.1 * std::log(4.0) + 1));
}

TEST(HuggingFace, WhatAConfigGetsWrongIsNamed) {
  const json null;
  struct {
    json config;
    const char* expected;
  } const table[] = {
      {with(llama_config(), {{"model_type", "mamba"}}),
       "'model_type' is 'mamba', which kvick does not know; it knows llama, mistral, qwen2, "
       "qwen3"},
      {with(llama_config(), {{"model_type", "smollm3"}, {"no_rope_layer_interval", 3}}),
       "'no_rope_layer_interval' is 3; kvick knows 4"},
      {with(llama_config(), {{"model_type", "smollm3"}, {"no_rope_layers", {1, 0}}}),
       "'no_rope_layers' must be 0 for every fourth layer"},
      {with(llama_config(), {{"model_type", "stablelm"}, {"use_parallel_residual", true}}),
       "'use_parallel_residual' is true"},
      {with(llama_config(), {{"model_type", "mixtral"}}), "'num_experts' is missing"},
      {with(llama_config(), {{"model_type", "gpt_oss"}, {"swiglu_limit", 5}}),
       "'swiglu_limit' is 5; kvick knows 7"},
      {with(llama_config(), {{"model_type", "llama4_text"}, {"floor_scale", 4096}}),
       "'floor_scale' is 4096; kvick knows 8192"},
      {with(llama_config(), {{"quantization_config", {{"quant_method", "hqq"}}}}),
       "'quant_method' is 'hqq', which kvick does not read; it reads fp8, gptq"},
      {with(llama_config(),
            {{"rope_scaling", {{"rope_type", "longrope"}, {"long_factor", {1, -1}}}}}),
       "'long_factor' must hold numbers above 0"},
      {with(llama_config(), {{"model_type", null}}), "'model_type' is missing"},
      {with(llama_config(), {{"hidden_size", null}}), "'hidden_size' is missing"},
      {with(llama_config(), {{"hidden_size", "8"}}), "'hidden_size' must be a whole number"},
      {with(llama_config(), {{"hidden_size", -8}}), "'hidden_size' must be a whole number"},
      {with(llama_config(), {{"hidden_size", 9}}),
       "'hidden_size' is 9, but must be a multiple of 'num_attention_heads', which is 4"},
      {with(llama_config(), {{"vocab_size", 0}}), "'vocab_size' is 0; 1 to 2147483648"},
      {with(llama_config(), {{"vocab_size", 7}}), "must have the 7 rows of vocab_size"},
      {with(llama_config(), {{"num_hidden_layers", 100001}}), "at most 100000"},
      {with(llama_config(), {{"num_key_value_heads", 3}}),
       "'num_key_value_heads' is 3, but must divide"},
      {with(llama_config(), {{"hidden_act", "gelu"}}), "'hidden_act' is 'gelu'; kvick supports"},
      {with(llama_config(), {{"rms_norm_eps", 0}}), "'rms_norm_eps' is 0, which must be above 0"},
      {with(llama_config(), {{"rope_theta", -1}}), "'rope_theta' is -1"},
      {with(llama_config(), {{"rope_scaling", {{"type", "dynamic"}}}}), "'rope_type' is 'dynamic'"},
      {with(llama_config(), {{"rope_scaling", {{"type", "linear"}}}}), "'factor' is missing"},
      {with(llama_config(),
            {{"rope_scaling",
              {{"type", "yarn"}, {"factor", 2}, {"mscale", 1}, {"mscale_all_dim", -1}}}}),
       "'mscale_all_dim' is -1, which must be above 0"},
      {with(llama_config(), {{"rope_scaling",
                              {{"type", "llama3"},
                               {"factor", 2},
                               {"low_freq_factor", 4},
                               {"high_freq_factor", 2}}}}),
       "'high_freq_factor' is 2, which must not be below 'low_freq_factor', 4"},
      {with(llama_config(), {{"model_type", "gemma2"}, {"use_bidirectional_attention", true}}),
       "'use_bidirectional_attention' says that tokens attend to later ones"},
      {with(gemma4_config(), {{"use_bidirectional_attention", "all"}}),
       "'use_bidirectional_attention' says that tokens attend to later ones"},
      {with(llama_config(), {{"model_type", "qwen2"}, {"is_causal", false}}),
       "'is_causal' says that tokens attend to later ones"},
      {with(llama_config(),
            {{"rope_parameters", {{"sliding_attention", {{"rope_type", "linear"}}}}}}),
       "'rope_type' is 'linear'; kvick does not scale the rotation of layers with a window"},
      {with(llama_config(), {{"rope_scaling", 3}}), "'rope_scaling': must be a JSON object"},
      {with(llama_config(), {{"sliding_window", 8}, {"layer_types", {"full_attention"}}}),
       "'layer_types' names 1 layers, but there are 2"},
      {with(llama_config(), {{"sliding_window", 8}, {"layer_types", {"linear", "linear"}}}),
       "must hold"},
      {with(llama_config(), {{"model_type", "lfm2"}, {"layer_types", {"conv", "mamba"}}}),
       "'layer_types' must hold 'full_attention' or 'conv'"},
      {with(llama_config(), {{"model_type", "lfm2"}, {"full_attn_idxs", {2}}}),
       "'full_attn_idxs' must hold numbers of the 2 layers"},
      {with(llama_config(), {{"model_type", "granitemoehybrid"}, {"mamba_n_groups", 2}}),
       "'mamba_n_groups' is 2; kvick reads folders of 1 group"},
      {with(opt_config(), {{"do_layer_norm_before", false}}), "'do_layer_norm_before' is false"},
      {with(opt_config(), {{"word_embed_proj_dim", 4}}), "projected embeddings"},
      {with(opt_config(), {{"activation_function", "gelu"}}), "'activation_function' is 'gelu'"},
      {json::array(), "config.json: must be a JSON object"},
  };
  for (const auto& [config, expected] : table) {
    const auto file = open_with(config);
    ASSERT_FALSE(file.ok()) << expected;
    EXPECT_NE(file.error().message.find(expected), std::string::npos) << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << file.error().message;
  }
}

// transformers 5.24 reads it the same way.
TEST(HuggingFace, Gemma4sLimitThatIsNullOrAbsentIsNone) {
  const auto cap = [](const json& fields) {
    const auto file = open_with(with(gemma4_config(), fields));
    return file->get_float("gemma4.final_logit_softcapping", 30);
  };
  EXPECT_EQ(*cap({{"final_logit_softcapping", 20.0}}), 20.0);
  EXPECT_EQ(*cap({{"final_logit_softcapping", nullptr}}), 0.0);
  EXPECT_EQ(*cap(json::object()), 0.0);
}

TEST(HuggingFace, Gemma4sLayersDifferAndItsTextPartMayBeInside) {
  const auto file = open_with(gemma4_config());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("gemma4.attention.key_length"), 16u);
  EXPECT_EQ(*file->get_uint("gemma4.attention.key_length_swa"), 8u);
  EXPECT_EQ(*file->get_uint("gemma4.rope.dimension_count"), 16u);
  EXPECT_EQ(*file->get_uint("gemma4.embedding_length_per_layer_input"), 32u);
  EXPECT_EQ(*file->get_uint_each("gemma4.attention.head_count_kv", 2),
            (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(*file->get_uint_each("gemma4.feed_forward_length", 2), (std::vector<uint64_t>{12, 24}));
  const std::vector<float>& factors = *file->get_floats("kvick.rope_freqs");
  EXPECT_EQ(factors.size(), 8u);
  EXPECT_EQ(std::count(factors.begin(), factors.end(), 1.0F), 2);

  EXPECT_TRUE(open_with(with(gemma4_config(), {{"use_bidirectional_attention", "vision"}})).ok());

  json newer = gemma4_config();
  newer.erase("global_head_dim");
  newer["per_layer_config"]["1"] = {{"head_dim", 16}};
  EXPECT_EQ(*open_with(newer)->get_uint("gemma4.attention.key_length"), 16u);
  newer["per_layer_config"]["0"] = {{"head_dim", 4}};
  EXPECT_NE(open_with(newer).error().message.find("must be a layer without a window"),
            std::string::npos);

  const TestFolder folder;
  folder.write("config.json",
               json{{"model_type", "gemma4"},
                    {"text_config", with(gemma4_config(), {{"tie_word_embeddings", true}})}}
                   .dump());
  folder.write("model.safetensors", weights({{"model.language_model.embed_tokens.weight", {6, 8}},
                                             {"model.vision_tower.std_bias", {2}}}));
  const auto nested = ModelFile::open(folder.path());
  ASSERT_TRUE(nested.ok()) << nested.error().message;
  EXPECT_EQ(nested->tensors().size(), 1u);
}

TEST(HuggingFace, TensorNamesBecomeGgufs) {
  const HfConfig llama{.architecture = "llama", .layers = 12},
      qwen3{.architecture = "qwen3", .modules = find_hf_family("qwen3")->modules, .layers = 1};
  const HfConfig experts{
      .architecture = "qwen3moe", .modules = find_hf_family("qwen3_moe")->modules, .layers = 2};
  const HfConfig opt{.architecture = "opt", .layers = 1, .tied = true};
  const HfConfig gpt_oss{
      .architecture = "gpt-oss", .modules = find_hf_family("gpt_oss")->modules, .layers = 1};
  const HfConfig deepseek{.architecture = "deepseek2",
                          .modules = find_hf_family("deepseek_v3")->modules,
                          .layers = 2,
                          .unread_layers = 1};
  const HfConfig gemma4{.architecture = "gemma4",
                        .modules = find_hf_family("gemma4_text")->modules,
                        .layers = 1,
                        .nested = true};
  struct {
    const HfConfig& config;
    const char *from, *to;  // nullptr: an error; "": not needed
  } const table[] = {
      {gemma4, "model.language_model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
      {gemma4, "language_model.model.layers.0.layer_scalar", "blk.0.layer_output_scale.weight"},
      {gemma4, "model.language_model.layers.0.router.scale", "blk.0.ffn_gate_inp.scale"},
      {gemma4, "model.language_model.layers.0.per_layer_projection.weight", "blk.0.proj.weight"},
      {gemma4, "model.language_model.layers.0.mlp.side.weight", nullptr},
      {gemma4, "language_model.lm_head.weight", "output.weight"},
      {llama, "language_model.lm_head.weight", nullptr},
      {gemma4, "model.vision_tower.encoder.layers.0.mlp.up_proj.weight", ""},
      {gemma4, "model.embed_audio.embedding_projection.weight", ""},
      {llama, "model.embed_tokens.weight", "token_embd.weight"},
      {llama, "model.norm.weight", "output_norm.weight"},
      {llama, "lm_head.weight", "output.weight"},
      {llama, "model.layers.11.self_attn.q_proj.weight", "blk.11.attn_q.weight"},
      {llama, "model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias"},
      {llama, "model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"},
      {llama, "model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
      {llama, "model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight"},
      {llama, "model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
      {llama, "model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
      {llama, "model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
      {llama, "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
      {llama, "model.layers.0.self_attn.rotary_emb.inv_freq", ""},
      {llama, "model.layers.0.self_attn.q_norm.weight", nullptr},
      {experts, "model.layers.1.mlp.experts.12.up_proj.weight", "blk.1.ffn_up.12.weight"},
      {experts, "model.layers.1.mlp.gate.weight", "blk.1.ffn_gate_inp.weight"},
      {experts, "model.layers.1.mlp.shared_expert_gate.weight", "blk.1.ffn_gate_inp_shexp.weight"},
      {experts, "model.layers.1.mlp.experts.x.up_proj.weight", nullptr},
      {experts, "model.layers.1.mlp.experts.99999999999999999999.up_proj.weight", nullptr},
      {experts, "model.layers.1.mlp.experts.1.side_proj.weight", nullptr},
      {gpt_oss, "model.layers.0.self_attn.sinks", "blk.0.attn_sinks.weight"},
      {gpt_oss, "model.layers.0.mlp.experts.up_proj.bias", "blk.0.ffn_up_exps.bias"},
      {gpt_oss, "model.layers.0.mlp.experts.gate_up_proj", nullptr},
      {llama, "model.layers.0.self_attn.sinks", nullptr},
      {deepseek, "model.layers.1.mlp.gate.e_score_correction_bias", "blk.1.exp_probs_b.bias"},
      {deepseek, "model.layers.1.self_attn.kv_b_proj.weight", "blk.1.attn_kv_b.weight"},
      {deepseek, "model.layers.2.eh_proj.weight", ""},
      {deepseek, "model.layers.3.eh_proj.weight", nullptr},
      {llama, "model.layers.12.mlp.up_proj.weight", nullptr},
      {llama, "model.layers.0.mlp.up_proj.qweight", nullptr},
      {llama, "model.layers.x.mlp.up_proj.weight", nullptr},
      {llama, "model.layers.99999999999999999999.mlp.up_proj.weight", nullptr},
      {llama, "model.layers.0", nullptr},
      {llama, "", nullptr},
      {qwen3, "model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight"},
      {qwen3, "model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight"},
      {opt, "model.decoder.embed_tokens.weight", "token_embd.weight"},
      {opt, "decoder.embed_positions.weight", "position_embd.weight"},
      {opt, "decoder.final_layer_norm.bias", "output_norm.bias"},
      {opt, "decoder.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias"},
      {opt, "decoder.layers.0.self_attn.out_proj.weight", "blk.0.attn_output.weight"},
      {opt, "decoder.layers.0.self_attn_layer_norm.bias", "blk.0.attn_norm.bias"},
      {opt, "decoder.layers.0.final_layer_norm.weight", "blk.0.ffn_norm.weight"},
      {opt, "decoder.layers.0.fc1.weight", "blk.0.ffn_up.weight"},
      {opt, "decoder.layers.0.fc2.bias", "blk.0.ffn_down.bias"},
      {opt, "lm_head.weight", ""},
      {opt, "decoder.project_in.weight", nullptr},
      {opt, "embed_tokens.weight", nullptr},
  };
  for (const auto& [config, from, to] : table) {
    const auto mapped = map_tensor_name(config, from, "here");
    ASSERT_EQ(mapped.ok(), to != nullptr) << from;
    if (to != nullptr)
      EXPECT_EQ(mapped->value_or(""), to) << from;
    else
      EXPECT_TRUE(mapped.error().message.starts_with("here: ")) << mapped.error().message;
  }
}

}  // namespace
}  // namespace kvick::io
