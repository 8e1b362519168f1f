#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

using Strings = std::vector<std::string>;

json bert_config() {
  return {{"architectures", {"BertModel"}},
          {"model_type", "bert"},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"max_position_embeddings", 16},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-12},
          {"position_embedding_type", "absolute"}};
}

// What sentence-transformers writes: a Transformer, Pooling with this config, and Dense modules.
void write_modules(const TestFolder& folder, const json& pooling, uint64_t dense = 0) {
  const auto module = [](const std::string& path, const std::string& kind) {
    return json{{"path", path}, {"type", "sentence_transformers.models." + kind}};
  };
  json modules = json::array({module("", "Transformer"), module("1_Pooling", "Pooling")});
  std::filesystem::create_directory(folder.path() + "/1_Pooling");
  folder.write("1_Pooling/config.json", pooling.dump());
  for (uint64_t i = 0; i < dense; ++i) {
    const std::string path = std::to_string(i + 2) + "_Dense";
    std::filesystem::create_directory(folder.path() + "/" + path);
    folder.write(path + "/config.json",
                 R"({"activation_function": "torch.nn.modules.linear.Identity"})");
    folder.write(path + "/model.safetensors", weights({{"linear.weight", {i + 1, 8}}}));
    modules.push_back(module(path, "Dense"));
  }
  modules.push_back(module("9_Normalize", "Normalize"));
  folder.write("modules.json", modules.dump());
}

Strings names_of(const ModelFile& file) {
  Strings names;
  for (const Tensor& tensor : file.tensors()) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return names;
}

// The tensors of BERT, with the prefix that models with a head have, and the heads of several
// tasks.
std::string bert_weights(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layer.0.";
  std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors = {
      {prefix + "embeddings.word_embeddings.weight", {6, 8}},
      {prefix + "embeddings.position_embeddings.weight", {16, 8}},
      {prefix + "embeddings.token_type_embeddings.weight", {2, 8}},
      {prefix + "embeddings.LayerNorm.weight", {8}},
      {prefix + "embeddings.LayerNorm.bias", {8}},
      {layer + "attention.self.query.weight", {8, 8}},
      {layer + "attention.self.key.bias", {8}},
      {layer + "attention.output.dense.weight", {8, 8}},
      {layer + "attention.output.LayerNorm.weight", {8}},
      {layer + "intermediate.dense.weight", {12, 8}},
      {layer + "output.dense.weight", {8, 12}},
      {layer + "output.LayerNorm.bias", {8}},
      {prefix + "pooler.dense.weight", {8, 8}},
      {"cls.predictions.bias", {6}},
      {"classifier.weight", {1, 8}}};
  return weights(tensors);
}

TEST(HfEncoders, ABertIsRead) {
  const TestFolder folder;
  folder.write("config.json", bert_config().dump());
  folder.write("model.safetensors", bert_weights(""));
  write_modules(folder, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}});
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "bert");
  EXPECT_EQ(*file->get_uint("bert.block_count"), 1u);
  EXPECT_EQ(*file->get_uint("bert.attention.head_count"), 2u);
  EXPECT_EQ(*file->get_uint("bert.feed_forward_length"), 12u);
  EXPECT_EQ(*file->get_uint("bert.context_length"), 16u);
  EXPECT_FALSE(*file->get_bool("bert.attention.causal", true));
  EXPECT_EQ(*file->get_float("bert.attention.layer_norm_epsilon"), 1e-12);
  EXPECT_EQ(*file->get_uint("bert.pooling_type"), 2u);
  EXPECT_EQ(
      names_of(*file),
      (Strings{"blk.0.attn_k.bias", "blk.0.attn_output.weight", "blk.0.attn_output_norm.weight",
               "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "blk.0.ffn_up.weight",
               "blk.0.layer_output_norm.bias", "position_embd.weight", "token_embd.weight",
               "token_embd_norm.bias", "token_embd_norm.weight", "token_types.weight"}));
}

TEST(HfEncoders, AHeadThatGivesLabelsIsKept) {
  const TestFolder folder;
  folder.write("config.json",
               with(bert_config(), {{"architectures", {"BertForSequenceClassification"}}}).dump());
  folder.write("model.safetensors", bert_weights("bert."));
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_NE(file->find("cls.weight"), nullptr);
  EXPECT_NE(file->find("cls.output.weight"), nullptr);
  EXPECT_NE(file->find("blk.0.attn_q.weight"), nullptr);
  EXPECT_FALSE(file->metadata().contains("bert.pooling_type"));
}

TEST(HfEncoders, ABuffersTypeDoesNotMatter) {
  const TestFolder folder;
  folder.write("config.json", bert_config().dump());
  const size_t end = 6 * 8 * sizeof(float);
  const json header = {{"embeddings.word_embeddings.weight",
                        {{"dtype", "F32"}, {"shape", {6, 8}}, {"data_offsets", {0, end}}}},
                       {"embeddings.position_ids",
                        {{"dtype", "I64"}, {"shape", {1, 1}}, {"data_offsets", {end, end + 8}}}}};
  folder.write("model.safetensors", safetensors_image(header.dump(), std::string(end + 8, '\0')));
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(names_of(*file), (Strings{"token_embd.weight"}));
}

// answerdotai/ModernBERT-base has these fields; later transformers writes others.
TEST(HfEncoders, AModernBertsFieldsAreOfTwoKinds) {
  const json config = {{"model_type", "modernbert"},
                       {"vocab_size", 6},
                       {"hidden_size", 16},
                       {"intermediate_size", 12},
                       {"num_hidden_layers", 4},
                       {"num_attention_heads", 2},
                       {"max_position_embeddings", 16},
                       {"hidden_activation", "gelu"},
                       {"norm_eps", 1e-5},
                       {"local_attention", 8}};
  const auto open = [](const json& fields) {
    const TestFolder folder;
    folder.write("config.json", fields.dump());
    folder.write("model.safetensors", weights({{"model.embeddings.tok_embeddings.weight", {6, 16}},
                                               {"model.embeddings.norm.weight", {16}},
                                               {"model.layers.1.attn_norm.weight", {16}},
                                               {"model.layers.1.attn.Wqkv.weight", {48, 16}},
                                               {"model.layers.1.mlp.Wi.weight", {24, 16}},
                                               {"model.layers.1.mlp_norm.weight", {16}},
                                               {"model.final_norm.weight", {16}},
                                               {"head.dense.weight", {16, 16}},
                                               {"head.norm.weight", {16}},
                                               {"decoder.bias", {6}}}));
    return ModelFile::open(folder.path());
  };
  const json first = with(config, {{"global_attn_every_n_layers", 2},
                                   {"global_rope_theta", 7.0},
                                   {"local_rope_theta", 5.0},
                                   {"classifier_pooling", "mean"}});
  const json later = with(
      config, {{"layer_types",
                {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}},
               {"rope_parameters",
                {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 7.0}}},
                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5.0}}}}}});
  for (const json& fields : {first, later}) {
    const auto file = open(fields);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_uint("modern-bert.attention.sliding_window"), 8u);
    EXPECT_EQ(*file->get_float("modern-bert.rope.freq_base"), 7.0);
    EXPECT_EQ(*file->get_float("modern-bert.rope.freq_base_swa"), 5.0);
    EXPECT_EQ(*file->get_uint("modern-bert.rope.dimension_count"), 8u);
    EXPECT_EQ(*file->get_uint("modern-bert.classifier.pooling_type"),
              fields.contains("layer_types") ? 2u : 1u);
    EXPECT_EQ(names_of(*file),
              (Strings{"blk.1.attn_norm.weight", "blk.1.attn_qkv.weight", "blk.1.ffn_norm.weight",
                       "blk.1.ffn_up.weight", "output_norm.weight", "token_embd.weight",
                       "token_embd_norm.weight"}));
  }
  const std::string pattern = "modern-bert.attention.sliding_window_pattern";
  EXPECT_EQ(*open(first)->get_uint(pattern), 2u);
  EXPECT_EQ(*open(later)->get_uint_each(pattern, 4), (std::vector<uint64_t>{0, 1, 1, 0}));
  const auto biased = open(with(first, {{"norm_bias", true}}));
  ASSERT_FALSE(biased.ok());
  EXPECT_NE(biased.error().message.find("'norm_bias' is true"), std::string::npos);
}

// nomic-ai/nomic-embed-text-v1.5, with smaller sizes.
TEST(HfEncoders, NomicsFoldersHaveTheNamesOfGpt2) {
  const json config = {{"model_type", "nomic_bert"},
                       {"vocab_size", 6},
                       {"n_embd", 16},
                       {"n_head", 2},
                       {"n_inner", 12},
                       {"n_layer", 1},
                       {"n_positions", 64},
                       {"max_trained_positions", 32},
                       {"activation_function", "swiglu"},
                       {"layer_norm_epsilon", 1e-12},
                       {"qkv_proj_bias", false},
                       {"rotary_emb_base", 1000},
                       {"rotary_emb_fraction", 1.0},
                       {"rotary_emb_interleaved", false}};
  const auto open = [](const json& fields) {
    const TestFolder folder;
    folder.write("config.json", fields.dump());
    folder.write("model.safetensors", weights({{"embeddings.word_embeddings.weight", {6, 16}},
                                               {"emb_ln.bias", {16}},
                                               {"encoder.layers.0.attn.Wqkv.weight", {48, 16}},
                                               {"encoder.layers.0.mlp.fc11.weight", {12, 16}},
                                               {"encoder.layers.0.mlp.fc12.weight", {12, 16}},
                                               {"encoder.layers.0.norm1.weight", {16}},
                                               {"encoder.layers.0.norm2.weight", {16}}}));
    return ModelFile::open(folder.path());
  };
  const auto file = open(config);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("nomic-bert.context_length"), 32u);
  EXPECT_EQ(*file->get_uint("nomic-bert.embedding_length"), 16u);
  EXPECT_EQ(*file->get_float("nomic-bert.rope.freq_base"), 1000.0);
  EXPECT_EQ(*file->get_uint("nomic-bert.rope.dimension_count"), 8u);
  EXPECT_EQ(names_of(*file), (Strings{"blk.0.attn_output_norm.weight", "blk.0.attn_qkv.weight",
                                      "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                                      "blk.0.layer_output_norm.weight", "token_embd.weight",
                                      "token_embd_norm.bias"}));
  EXPECT_EQ(file->find("blk.0.ffn_gate.weight")->shape, (std::vector<uint64_t>{12, 16}));
  const auto biased = open(with(config, {{"mlp_fc1_bias", true}}));
  ASSERT_FALSE(biased.ok());
  EXPECT_NE(biased.error().message.find("'mlp_fc1_bias' is true"), std::string::npos)
      << biased.error().message;
}

json gemma_config() {
  return with(llama_config(), {{"model_type", "gemma3_text"},
                               {"hidden_act", "gelu_pytorch_tanh"},
                               {"head_dim", 8},
                               {"sliding_window", 32},
                               {"tie_word_embeddings", true},
                               {"use_bidirectional_attention", true}});
}

TEST(HfEncoders, EmbeddingGemmaHasDenseModules) {
  const TestFolder folder;
  folder.write("config.json", gemma_config().dump());
  folder.write("model.safetensors", weights({{"embed_tokens.weight", {6, 8}},
                                             {"layers.0.input_layernorm.weight", {8}},
                                             {"norm.weight", {8}}}));
  write_modules(folder, {{"pooling_mode", "mean"}}, 2);
  const auto file = ModelFile::open(folder.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "gemma-embedding");
  EXPECT_EQ(*file->get_uint("gemma-embedding.pooling_type"), 1u);
  EXPECT_EQ(*file->get_uint("gemma-embedding.attention.sliding_window"), 32u);
  ASSERT_NE(file->find("dense_2.weight"), nullptr);
  ASSERT_NE(file->find("dense_3.weight"), nullptr);
  EXPECT_EQ(file->find("dense_2.weight")->shape, (std::vector<uint64_t>{1, 8}));
  EXPECT_EQ(file->find("dense_3.weight")->shape, (std::vector<uint64_t>{2, 8}));
}

TEST(HfEncoders, ModulesThatKvickDoesNotKnowAreRefused) {
  const auto error = [](const auto& change) {
    const TestFolder folder;
    folder.write("config.json", gemma_config().dump());
    folder.write("model.safetensors", weights({{"embed_tokens.weight", {6, 8}}}));
    write_modules(folder, {{"pooling_mode_lasttoken", true}}, 2);
    change(folder);
    const auto file = ModelFile::open(folder.path());
    return file.ok() ? std::string("none") : file.error().message;
  };
  const auto writes = [](const char* name, const char* text) {
    return [=](const TestFolder& folder) { folder.write(name, text); };
  };
  EXPECT_EQ(error([](const TestFolder&) {}), "none");
  const std::pair<const char*, std::pair<const char*, const char*>> table[] = {
      {"the pooling is 'mean and max'; kvick knows mean, cls and lasttoken",
       {"1_Pooling/config.json",
        R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"}},
      {"the pooling is none", {"1_Pooling/config.json", "{}"}},
      {"'activation_function' is 'torch.nn.modules.activation.Tanh'; kvick knows Identity",
       {"3_Dense/config.json", R"({"activation_function": "torch.nn.modules.activation.Tanh"})"}},
      {"'type' is 'models.LSTM'; kvick knows Transformer",
       {"modules.json", R"([{"type": "models.LSTM", "path": "1_LSTM"}])"}},
      {"'path' must be the name of a folder",
       {"modules.json", R"([{"type": "models.Pooling", "path": "../1_Pooling"}])"}},
      {"must be a list of modules", {"modules.json", "{}"}},
  };
  for (const auto& [expected, file] : table) {
    const std::string message = error(writes(file.first, file.second));
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

// A BERT with this tokenizer.json, whose vocabulary has 6 tokens.
base::Result<ModelFile> open_tokenizer(const json& changes) {
  json tokenizer = {
      {"added_tokens",
       {{{"id", 0}, {"content", "[UNK]"}, {"special", true}},
        {{"id", 1}, {"content", "[CLS]"}, {"special", true}},
        {{"id", 2}, {"content", "[SEP]"}, {"special", true}}}},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", false}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}, {"play", 3}, {"##ing", 4}}}}}};
  tokenizer = tokenizer.patch(changes);
  const TestFolder folder;
  folder.write("config.json", bert_config().dump());
  folder.write("model.safetensors", weights({{"embeddings.word_embeddings.weight", {6, 8}}}));
  folder.write("tokenizer.json", tokenizer.dump());
  return ModelFile::open(folder.path());
}

TEST(HfEncoders, AWordPieceVocabularyHasGgufsForm) {
  const auto file = open_tokenizer(json::array());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("tokenizer.ggml.model"), "bert");
  EXPECT_EQ(*file->get_strings("tokenizer.ggml.tokens"),
            (Strings{"[UNK]", "[CLS]", "[SEP]", "\xe2\x96\x81play", "ing", "[PAD5]"}));
  EXPECT_EQ(*file->get_ints("tokenizer.ggml.token_type"), (std::vector<int64_t>{3, 3, 3, 1, 1, 5}));
  EXPECT_EQ(*file->get_uint("tokenizer.ggml.bos_token_id"), 1u);
  EXPECT_EQ(*file->get_uint("tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_EQ(*file->get_uint("tokenizer.ggml.unknown_token_id", 9), 0u);
  EXPECT_TRUE(*file->get_bool("tokenizer.ggml.add_bos_token", false));
  EXPECT_TRUE(*file->get_bool("tokenizer.ggml.add_eos_token", false));
  EXPECT_FALSE(*file->get_bool("tokenizer.ggml.normalizer.lowercase", true));
  EXPECT_FALSE(*file->get_bool("tokenizer.ggml.normalizer.strip_accents", true));
}

TEST(HfEncoders, OtherWordPiecesAreRefused) {
  const auto error = [](const std::string& path, const json& value) {
    const json step = {{"op", "add"}, {"path", path}, {"value", value}};
    const auto file = open_tokenizer(json::array({step}));
    return file.ok() ? std::string("none") : file.error().message;
  };
  EXPECT_EQ(error("/normalizer/strip_accents", true), "none");
  struct {
    const char* path;
    json value;
    const char* expected;
  } const table[] = {
      {"/normalizer/clean_text", false, "'clean_text' is false"},
      {"/normalizer/type", "NFC", "'normalizer' is 'NFC'; kvick knows WordPiece with Bert"},
      {"/pre_tokenizer/type", "Whitespace", "'pre_tokenizer' is 'Whitespace'; kvick knows"},
      {"/model/continuing_subword_prefix", "@", "'continuing_subword_prefix' is '@'; kvick knows"},
      {"/model/max_input_chars_per_word", 50, "'max_input_chars_per_word' is 50; kvick knows 100"},
      {"/model/unk_token", "<unk>", "'unk_token' is '<unk>', which the vocabulary does not have"},
      {"/post_processor/cls", json::array({"[CLS]"}), "'cls' must hold a token's name and its"},
  };
  for (const auto& [path, value, expected] : table)
    EXPECT_NE(error(path, value).find(expected), std::string::npos) << error(path, value);
}

}  // namespace
}  // namespace kvick::io
