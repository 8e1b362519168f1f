#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <tuple>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

TEST(HuggingFace, ShardsAreOneModel) {
  const TestFolder folder;
  folder.write("config.json", llama_config().dump());
  folder.write("a.safetensors", weights({{"model.embed_tokens.weight", {6, 8}},
                                         {"model.layers.1.mlp.up_proj.weight", {12, 8}}}));
  folder.write("b.safetensors", weights({{"lm_head.weight", {6, 8}}}));
  json map = {{"model.embed_tokens.weight", "a.safetensors"},
              {"model.layers.1.mlp.up_proj.weight", "a.safetensors"},
              {"lm_head.weight", "b.safetensors"}};
  const auto open = [&] {
    folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
    return ModelFile::open(folder.path());
  };
  const auto file = open();
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 3u);
  const Tensor* up = file->find("blk.1.ffn_up.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->shape, (std::vector<uint64_t>{12, 8}));
  float last = 0;
  kernels::to_f32(up->dtype, up->data.data() + up->data.size() - 4, 1, &last);
  EXPECT_EQ(last, 95.0f);
  EXPECT_GT(file->file_bytes(), 192u * 2 + 384);

  struct {
    const char *tensor, *where, *expected;
  } const table[] = {
      {"model.norm.weight", "a.safetensors", "lacks the tensor 'model.norm.weight'"},
      {"model.norm.weight", "../a.safetensors", "must be the name of a file in the folder"},
      {"model.norm.weight", "c.safetensors", "cannot open"},
      {"lm_head.weight", "a.safetensors", "lacks the tensor 'lm_head.weight'"},
  };
  const json good = map;
  for (const auto& [tensor, where, expected] : table) {
    map = with(good, {{tensor, where}});
    EXPECT_NE(open().error().message.find(expected), std::string::npos) << open().error().message;
  }
  map = good;
  map.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_NE(open().error().message.find("is not where"), std::string::npos);
}

// transformers' AutoModel saves embedding models so.
TEST(HuggingFace, ABareDecoderWhoseOutputIsItsEmbeddingIsRead) {
  const TestFolder folder;
  const auto open = [&](bool tied) {
    folder.write("config.json", with(llama_config(), {{"tie_word_embeddings", tied}}).dump());
    return ModelFile::open(folder.path());
  };
  folder.write("model.safetensors", weights({{"embed_tokens.weight", {6, 8}},
                                             {"norm.weight", {8}},
                                             {"layers.1.self_attn.q_proj.weight", {8, 8}}}));
  const auto file = open(true);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 3u);
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.1.attn_q.weight"})
    EXPECT_NE(file->find(name), nullptr) << name;
  EXPECT_FALSE(open(false).ok());
}

TEST(HuggingFace, MissingFilesAndTensorsAreNamed) {
  const auto message = [](const std::function<void(const TestFolder&)>& fill) {
    const TestFolder folder;
    folder.write("config.json", llama_config().dump());
    fill(folder);
    const auto file = ModelFile::open(folder.path());
    return file.ok() ? "" : file.error().message;
  };
  const auto expect = [&](const std::string& got, std::string_view wanted) {
    EXPECT_NE(got.find(wanted), std::string::npos) << got;
  };
  expect(message([](const TestFolder&) {}), "holds neither model.safetensors nor");
  expect(message([](const TestFolder& f) { f.write("pytorch_model.bin", "x"); }),
         "kvick does not read pytorch_model.bin");
  expect(message([](const TestFolder& f) {
           f.write("model.safetensors", weights({{"lm_head.weight", {6, 8}}}));
         }),
         "has no tensor 'embed_tokens.weight'");
  expect(message([](const TestFolder& f) {
           f.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
         }),
         "has no tensor 'lm_head.weight', and 'tie_word_embeddings' is false: it was saved without "
         "its output matrix (as AutoModel, not AutoModelForCausalLM) and cannot generate text; for "
         "embeddings use a GGUF file of this model");
  expect(
      message([](const TestFolder& f) {
        f.write("model.safetensors", weights({{"model.strange.weight", {6, 8}}}));
      }),
      "tensor 'model.strange.weight': a model of 2 layers of the architecture llama has no such");
  expect(
      message([](const TestFolder& f) {
        f.write("model.safetensors", weights({{"model.norm.weight", {8}}, {"norm.weight", {8}}}));
      }),
      "two tensors are named 'output_norm.weight'");
}

// Returns a shard of zeros with these tensors.
std::string part(
    const std::vector<std::tuple<const char*, const char*, std::vector<uint64_t>, uint64_t>>&
        tensors) {
  json header = json::object();
  uint64_t end = 0;
  for (const auto& [name, type, shape, bytes] : tensors) {
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  return safetensors_image(header.dump(), std::string(end, '\0'));
}

TEST(HuggingFace, PartsOfAQuantisedTensorMayLieInSeveralShards) {
  const TestFolder folder;
  const std::string up = "model.layers.1.mlp.up_proj";
  json config = with(llama_config(), {{"hidden_size", 32}, {"head_dim", 8}});
  config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  folder.write("config.json", config.dump());
  folder.write("a.safetensors",
               part({{"model.embed_tokens.weight", "F32", {6, 32}, 768},
                     {"model.layers.1.mlp.up_proj.qweight", "I32", {32, 2}, 256}}));
  folder.write("b.safetensors", part({{"lm_head.weight", "F32", {6, 32}, 768},
                                      {"model.layers.1.mlp.up_proj.qzeros", "I32", {1, 2}, 8},
                                      {"model.layers.1.mlp.up_proj.scales", "F16", {1, 16}, 32}}));
  json map = {{"model.embed_tokens.weight", "a.safetensors"},
              {up + ".qweight", "a.safetensors"},
              {"lm_head.weight", "b.safetensors"},
              {up + ".qzeros", "b.safetensors"},
              {up + ".scales", "b.safetensors"}};
  folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 3u);
  const Tensor* tensor = file->find("blk.1.ffn_up.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, kernels::DType::kQ4_1);
  EXPECT_EQ(tensor->shape, (std::vector<uint64_t>{16, 32}));
  std::vector<std::byte> rows(tensor->bytes()), again(tensor->bytes());
  tensor->read_rows(0, 16, rows.data());
  file->drop_pages(*tensor);  // the pages are read again when accessed
  tensor->read_rows(0, 16, again.data());
  EXPECT_EQ(rows, again);
}

TEST(HuggingFace, RotationsThatAFolderLeavesOutAreTransformers) {
  json config = with(llama_config(), {{"tie_word_embeddings", true}});
  config.erase("rope_theta");
  const auto open_as = [&](const char* type, const json& changes) {
    const TestFolder folder;
    folder.write("config.json", with(with(config, {{"model_type", type}}), changes).dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    auto file = ModelFile::open(folder.path());
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return file;
  };
  const json none = json::object();
  EXPECT_EQ(*open_as("llama", none)->get_float("llama.rope.freq_base"), 1e4);
  EXPECT_EQ(*open_as("smollm3", none)->get_float("smollm3.rope.freq_base"), 2e6);
  EXPECT_EQ(*open_as("olmo3", none)->get_float("olmo2.rope.freq_base"), 5e5);
  const json own = {{"rope_parameters", {{"rope_theta", 7.0}, {"rope_type", "default"}}}};
  EXPECT_EQ(*open_as("smollm3", own)->get_float("smollm3.rope.freq_base"), 7.0);
  const json head = {{"head_dim", 8}};
  EXPECT_EQ(*open_as("llama", head)->get_uint("llama.rope.dimension_count"), 8u);
  EXPECT_EQ(*open_as("glm4", head)->get_uint("glm4.rope.dimension_count"), 4u);
  EXPECT_EQ(*open_as("stablelm", head)->get_uint("stablelm.rope.dimension_count"), 2u);
}

// Qwen2.5-VL's first folders have the fields of the text beside those for pictures; later ones have
// a part for it.
TEST(HuggingFace, TheTextOfAModelForPicturesMayHaveNoPart) {
  const json flat =
      with(llama_config(), {{"model_type", "qwen2_5_vl"},
                            {"tie_word_embeddings", true},
                            {"vision_config", {{"depth", 2}}},
                            {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 1, 0}}}}});
  const json whole = {{"model_type", "qwen2_5_vl"},
                      {"text_config", with(flat, {{"model_type", "qwen2_5_vl_text"}})}};
  for (const bool nested : {false, true}) {
    const TestFolder folder;
    folder.write("config.json", (nested ? whole : flat).dump());
    const std::string text = nested ? "model.language_model." : "model.";
    const std::string pictures = nested ? "model.visual." : "visual.";
    folder.write("model.safetensors", weights({{text + "embed_tokens.weight", {6, 8}},
                                               {pictures + "patch_embed.proj.weight", {2}}}));
    const auto file = ModelFile::open(folder.path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_string("general.architecture"), "qwen2vl");
    EXPECT_EQ(*file->get_uint("qwen2vl.embedding_length"), 8u);
    EXPECT_EQ(file->tensors().size(), 1u);
  }
}

TEST(HuggingFace, ANumberForEachLayerMustBeTheSameForAll) {
  const auto open_with = [](const json& experts) {
    const json config = with(llama_config(), {{"model_type", "hunyuan_v1_moe"},
                                              {"tie_word_embeddings", true},
                                              {"num_experts", 4},
                                              {"moe_topk", experts}});
    const TestFolder folder;
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    return ModelFile::open(folder.path());
  };
  const auto file = open_with(json::array({2, 2}));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("hunyuan-moe.expert_count"), 4u);
  EXPECT_EQ(*file->get_uint("hunyuan-moe.expert_used_count"), 2u);
  for (const json& wrong : {json::array({2, 3}), json::array({2, 0}), json::array({2, "x"})}) {
    const auto refused = open_with(wrong);
    ASSERT_FALSE(refused.ok()) << wrong.dump();
    EXPECT_NE(refused.error().message.find("'moe_topk' must be one number, the same for all"),
              std::string::npos)
        << refused.error().message;
  }
}

// As in transformers' modeling_rope_utils.py.
TEST(HuggingFace, RotarysFactorsThatAreZeroOrGivenAreTransformers) {
  const auto attention = [](const json& rope) {
    const TestFolder folder;
    folder.write(
        "config.json",
        with(llama_config(), {{"tie_word_embeddings", true}, {"rope_scaling", rope}}).dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    const auto file = ModelFile::open(folder.path());
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return file.ok() ? *file->get_float("llama.rope.scaling.attn_factor") : 0;
  };
  json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 2.0}, {"mscale_all_dim", 1.0}};
  const double grown = 0.1 * std::log(4.0), usual = 1 + grown;
  EXPECT_DOUBLE_EQ(attention(yarn), (1 + 2 * grown) / usual / usual);
  yarn["mscale_all_dim"] = 0;
  EXPECT_EQ(attention(yarn), 1.0);
  json longer = {{"rope_type", "longrope"},
                 {"long_factor", json::array({2.0})},
                 {"short_factor", json::array({1.0})},
                 {"original_max_position_embeddings", 16}};
  const auto of = [](double factor) { return std::sqrt(1 + std::log(factor) / std::log(16.0)); };
  EXPECT_DOUBLE_EQ(attention(longer), of(4));  // 64 of 16 tokens
  longer["factor"] = 8.0;
  EXPECT_DOUBLE_EQ(attention(longer), of(8));
}

// kvick takes these numbers from the tensors, or needs them only for pictures; a GGUF file that is
// made of the folder must have them for llama.cpp.
TEST(HuggingFace, WhatOnlyLlamaCppAsksForIsMapped) {
  const auto open_as = [](const char* type, const json& changes) {
    const TestFolder folder;
    const json config = with(llama_config(), {{"model_type", type}, {"tie_word_embeddings", true}});
    folder.write("config.json", with(config, changes).dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    return ModelFile::open(folder.path());
  };
  const auto ernie = open_as("ernie4_5_moe", {{"moe_num_experts", 4},
                                              {"moe_k", 2},
                                              {"moe_intermediate_size", 16},
                                              {"moe_num_shared_experts", 3},
                                              {"moe_layer_start_index", 1},
                                              {"moe_layer_interval", 2}});
  ASSERT_TRUE(ernie.ok()) << ernie.error().message;
  EXPECT_EQ(*ernie->get_uint("ernie4_5-moe.expert_shared_count"), 3u);
  EXPECT_EQ(*ernie->get_uint("ernie4_5-moe.expert_shared_feed_forward_length"), 48u);
  EXPECT_EQ(*ernie->get_uint("ernie4_5-moe.leading_dense_block_count"), 1u);
  EXPECT_EQ(*ernie->get_uint("ernie4_5-moe.interleave_moe_layer_step"), 2u);

  const auto minimax =
      open_as("minimax_m2", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  ASSERT_TRUE(minimax.ok()) << minimax.error().message;
  EXPECT_EQ(*minimax->get_uint("minimax-m2.expert_feed_forward_length"), 12u);

  const auto rope = [](const json& sections) {
    return json{{"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}}}};
  };
  const auto pictures = open_as("qwen2_vl", rope(json::array({16, 24, 24})));
  ASSERT_TRUE(pictures.ok()) << pictures.error().message;
  EXPECT_EQ(*pictures->get_uint_each("qwen2vl.rope.dimension_sections", 4),
            (std::vector<uint64_t>{16, 24, 24, 0}));
  for (const json& wrong : {json::array({1, 1, 1, 1, 1}), json::array({"x"})}) {
    const auto refused = open_as("qwen2_vl", rope(wrong));
    ASSERT_FALSE(refused.ok()) << wrong.dump();
    EXPECT_NE(refused.error().message.find("'mrope_section' must hold up to 4 numbers"),
              std::string::npos)
        << refused.error().message;
  }
}

// transformers does not read the field: dots.llm1's router always has sigmoids.
TEST(HuggingFace, TheFirstFoldersOfDotsNameTheirRouterOtherwise) {
  const auto open_as = [](const char* type, const char* scoring) {
    const TestFolder folder;
    folder.write("config.json", with(llama_config(), {{"model_type", type},
                                                      {"tie_word_embeddings", true},
                                                      {"n_routed_experts", 4},
                                                      {"num_experts_per_tok", 2},
                                                      {"moe_intermediate_size", 16},
                                                      {"scoring_func", scoring}})
                                    .dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    return ModelFile::open(folder.path());
  };
  for (const char* scoring : {"noaux_tc", "sigmoid"}) {
    const auto file = open_as("dots1", scoring);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_uint("dots1.expert_gating_func"), 2u);
  }
  for (const auto& [type, scoring] :
       {std::pair{"dots1", "softmax"}, std::pair{"glm4_moe", "noaux_tc"}}) {
    const auto refused = open_as(type, scoring);
    ASSERT_FALSE(refused.ok()) << type;
    EXPECT_NE(refused.error().message.find("'scoring_func' is"), std::string::npos)
        << refused.error().message;
  }
}

TEST(HuggingFace, CommandRsContextIsTheLongestThatItWasTrainedOn) {
  const auto context = [](const json& changes) {
    const TestFolder folder;
    const json config =
        with(llama_config(), {{"model_type", "cohere"}, {"tie_word_embeddings", true}});
    folder.write("config.json", with(config, changes).dump());
    folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
    const auto file = ModelFile::open(folder.path());
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return file.ok() ? *file->get_uint("command-r.context_length") : 0;
  };
  EXPECT_EQ(context(json::object()), 64u);
  EXPECT_EQ(context({{"model_max_length", 1024}}), 1024u);
}

}  // namespace
}  // namespace kvick::io
