#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

using Shape = std::vector<uint64_t>;
using Strings = std::vector<std::string>;
using Stored = std::vector<std::pair<std::string, Shape>>;

base::Result<ModelFile> open(const json& config, const Stored& tensors) {
  const TestFolder folder;
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", weights(tensors));
  return ModelFile::open(folder.path());
}

Strings names_of(const ModelFile& file) {
  Strings names;
  for (const Tensor& tensor : file.tensors()) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return names;
}

// The fields of jinaai/jina-embeddings-v2-base-en, with smaller sizes.
json alibi_config() {
  return {
      {"architectures", {"JinaBertForMaskedLM"}},
      {"auto_map", {{"AutoModel", "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}}},
      {"model_type", "bert"},
      {"vocab_size", 6},
      {"hidden_size", 8},
      {"intermediate_size", 4},
      {"num_hidden_layers", 1},
      {"num_attention_heads", 2},
      {"max_position_embeddings", 8192},
      {"emb_pooler", "mean"},
      {"feed_forward_type", "geglu"},
      {"hidden_act", "gelu"},
      {"layer_norm_eps", 1e-12},
      {"position_embedding_type", "alibi"}};
}

Stored alibi_tensors(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layer.0.";
  return {{prefix + "embeddings.word_embeddings.weight", {6, 8}},
          {prefix + "embeddings.token_type_embeddings.weight", {2, 8}},
          {prefix + "embeddings.LayerNorm.weight", {8}},
          {layer + "attention.self.query.weight", {8, 8}},
          {layer + "attention.output.LayerNorm.bias", {8}},
          {layer + "mlp.gated_layers.weight", {8, 8}},
          {layer + "mlp.wo.weight", {8, 4}},
          {layer + "mlp.wo.bias", {8}},
          {layer + "mlp.layernorm.weight", {8}},
          {prefix + "pooler.dense.weight", {8, 8}},
          {"classifier.weight", {1, 8}}};
}

TEST(HfJina, ABertWithAlibiIsJinasSecond) {
  const auto file = open(alibi_config(), alibi_tensors(""));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "jina-bert-v2");
  EXPECT_EQ(*file->get_uint("jina-bert-v2.context_length"), 8192u);
  EXPECT_EQ(*file->get_uint("jina-bert-v2.feed_forward_length"), 4u);
  EXPECT_EQ(*file->get_float("jina-bert-v2.attention.layer_norm_epsilon"), 1e-12);
  EXPECT_FALSE(*file->get_bool("jina-bert-v2.attention.causal", true));
  EXPECT_EQ(
      names_of(*file),
      (Strings{"blk.0.attn_output_norm.bias", "blk.0.attn_q.weight", "blk.0.ffn_down.bias",
               "blk.0.ffn_down.weight", "blk.0.ffn_up.weight", "blk.0.layer_output_norm.weight",
               "token_embd.weight", "token_embd_norm.weight", "token_types.weight"}));
  EXPECT_EQ(file->find("blk.0.ffn_up.weight")->shape, (Shape{8, 8}));
}

TEST(HfJina, ARerankerHasItsHead) {
  const auto file =
      open(with(alibi_config(), {{"architectures", {"JinaBertForSequenceClassification"}}}),
           alibi_tensors("bert."));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_NE(file->find("cls.weight"), nullptr);
  EXPECT_NE(file->find("cls.output.weight"), nullptr);
  EXPECT_NE(file->find("blk.0.ffn_down.weight"), nullptr);
}

// jina-embeddings-v2-base-code has the gate behind the other half.
TEST(HfJina, TheModelForCodeHasItsGateSecond) {
  const std::string layer = "encoder.layer.0.";
  const auto file = open(alibi_config(), {{"embeddings.word_embeddings.weight", {6, 8}},
                                          {layer + "attention.self.layer_norm_q.weight", {8}},
                                          {layer + "attention.self.layer_norm_k.bias", {8}},
                                          {layer + "layer_norm_1.weight", {8}},
                                          {layer + "mlp.up_gated_layer.weight", {8, 8}},
                                          {layer + "mlp.down_layer.weight", {8, 4}},
                                          {layer + "layer_norm_2.weight", {8}}});
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(names_of(*file), (Strings{"blk.0.attn_k_norm.bias", "blk.0.attn_norm_2.weight",
                                      "blk.0.attn_q_norm.weight", "blk.0.ffn_down.weight",
                                      "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                                      "blk.0.layer_output_norm.weight", "token_embd.weight"}));
  for (const auto& [name, first] :
       {std::pair("blk.0.ffn_up.weight", 0.0F), std::pair("blk.0.ffn_gate.weight", 32.0F)}) {
    const Tensor* half = file->find(name);
    EXPECT_EQ(half->shape, (Shape{4, 8}));
    std::vector<float> values(half->elements());
    half->read_floats(values.data());
    EXPECT_EQ(values.front(), first) << name;
    EXPECT_EQ(values.back(), first + 31) << name;
  }
}

TEST(HfJina, OtherFeedForwardBlocksAreRefused) {
  const auto error = [](const json& changes, uint64_t rows) {
    const auto file = open(with(alibi_config(), changes),
                           {{"embeddings.word_embeddings.weight", {6, 8}},
                            {"encoder.layer.0.mlp.up_gated_layer.weight", {rows, 8}}});
    return file.ok() ? std::string("none") : file.error().message;
  };
  EXPECT_EQ(error(json::object(), 8), "none");
  struct {
    json changes;
    uint64_t rows;
    const char* expected;
  } const table[] = {
      {{{"feed_forward_type", "reglu"}}, 8, "'feed_forward_type' is 'reglu'; kvick supports only"},
      {{{"feed_forward_type", nullptr}}, 8, "'feed_forward_type' is 'original'; kvick supports"},
      {{{"is_decoder", true}}, 8, "'is_decoder' is true"},
      {json::object(), 7, "must be a plain matrix of as many rows for the gate as for the rest"},
  };
  for (const auto& [changes, rows, expected] : table) {
    const std::string message = error(changes, rows);
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

// The fields of jinaai/jina-embeddings-v3, with smaller sizes.
json rotary_config() {
  return {{"architectures", {"XLMRobertaModel"}},
          {"model_type", "xlm-roberta"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"max_position_embeddings", 8194},
          {"pad_token_id", 1},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-5},
          {"lora_adaptations", {"retrieval.query", "text-matching"}},
          {"lora_rank", 4},
          {"position_embedding_type", "rotary"},
          {"rotary_emb_base", 20000.0},
          {"use_reg_tokens", false}};
}

const std::string kParameters = ".parametrizations.weight.";

TEST(HfJina, AnXlmRobertaWithRotationIsJinasThird) {
  const std::string words = "roberta.embeddings.word_embeddings",
                    qkv = "roberta.encoder.layers.0.mixer.Wqkv";
  const auto file =
      open(rotary_config(), {{words + kParameters + "original", {6, 8}},
                             {words + kParameters + "0.lora_A", {2, 6, 4}},
                             {words + kParameters + "0.lora_B", {2, 4, 8}},
                             {"roberta.emb_ln.weight", {8}},
                             {qkv + kParameters + "original", {24, 8}},
                             {qkv + kParameters + "0.lora_A", {2, 4, 8}},
                             {qkv + kParameters + "0.lora_B", {2, 24, 4}},
                             {qkv + ".bias", {24}},
                             {"roberta.encoder.layers.0.mixer.out_proj.weight", {8, 8}},
                             {"roberta.encoder.layers.0.norm1.weight", {8}},
                             {"roberta.encoder.layers.0.mlp.fc1.weight", {12, 8}},
                             {"roberta.encoder.layers.0.mlp.fc2.bias", {8}},
                             {"roberta.encoder.layers.0.norm2.bias", {8}},
                             {"roberta.pooler.dense" + kParameters + "original", {8, 8}}});
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "jina-bert-v3");
  EXPECT_EQ(*file->get_uint("jina-bert-v3.context_length"), 8192u);
  EXPECT_EQ(*file->get_float("jina-bert-v3.rope.freq_base"), 20000.0);
  EXPECT_EQ(*file->get_uint("jina-bert-v3.rope.dimension_count"), 4u);
  EXPECT_EQ(*file->get_float("jina-bert-v3.attention.layer_norm_epsilon"), 1e-5);
  EXPECT_EQ(
      names_of(*file),
      (Strings{"blk.0.attn_output.weight", "blk.0.attn_output_norm.weight", "blk.0.attn_qkv.bias",
               "blk.0.attn_qkv.weight", "blk.0.ffn_down.bias", "blk.0.ffn_up.weight",
               "blk.0.layer_output_norm.bias", "token_embd.weight", "token_embd_norm.weight"}));
  EXPECT_EQ(file->find("token_embd.weight")->shape, (Shape{6, 8}));
  EXPECT_EQ(file->find("blk.0.attn_qkv.weight")->shape, (Shape{24, 8}));
}

TEST(HfJina, OnlyAdaptersMayStandBesideAWeight) {
  const auto error = [](const json& changes, const std::string& tensor) {
    const auto file = open(with(rotary_config(), changes),
                           {{"embeddings.word_embeddings.weight", {6, 8}}, {tensor, {8}}});
    return file.ok() ? std::string("none") : file.error().message;
  };
  const std::string weight = "encoder.layers.0.mlp.fc1" + kParameters;
  EXPECT_EQ(error(json::object(), weight + "0.lora_A"), "none");
  EXPECT_NE(error(json::object(), weight + "0.scale").find("has no such tensor"),
            std::string::npos);
  // jina-colbert-v2 has a layer behind the encoder.
  EXPECT_NE(error(json::object(), "linear.weight").find("has no such tensor"), std::string::npos);
  EXPECT_NE(error({{"use_reg_tokens", true}}, "emb_ln.bias").find("'use_reg_tokens' is true"),
            std::string::npos);
  EXPECT_NE(error({{"max_position_embeddings", 2}}, "emb_ln.bias").find("2 rows are for no"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::io
