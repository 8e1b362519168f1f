#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

const std::string kMark = "\xe2\x96\x81";

json roberta_config() {
  return {{"model_type", "xlm-roberta"},  {"vocab_size", 6},        {"hidden_size", 8},
          {"intermediate_size", 12},      {"num_hidden_layers", 1}, {"num_attention_heads", 2},
          {"max_position_embeddings", 7}, {"pad_token_id", 1},      {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-5}};
}

TEST(HfRoberta, PositionsBeginBehindThePaddings) {
  const auto open = [](const json& changes) {
    const TestFolder folder;
    folder.write("config.json", with(roberta_config(), changes).dump());
    folder.write("model.safetensors",
                 weights({{"roberta.embeddings.word_embeddings.weight", {6, 8}},
                          {"roberta.embeddings.position_embeddings.weight", {7, 8}},
                          {"roberta.encoder.layer.0.output.dense.weight", {8, 12}},
                          {"classifier.dense.weight", {8, 8}},
                          {"classifier.out_proj.weight", {1, 8}}}));
    return ModelFile::open(folder.path());
  };
  for (const char* type : {"xlm-roberta", "roberta"}) {
    const auto file = open({{"model_type", type}});
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_string("general.architecture"), "bert");
    EXPECT_EQ(*file->get_uint("bert.context_length"), 5u);
    const Tensor* positions = file->find("position_embd.weight");
    ASSERT_NE(positions, nullptr);
    EXPECT_EQ(positions->shape, (std::vector<uint64_t>{5, 8}));
    std::vector<float> values(positions->elements());
    positions->read_floats(values.data());
    EXPECT_EQ(values.front(), 16.0F);  // the first element of row 2
    EXPECT_EQ(values.back(), 55.0F);
    EXPECT_NE(file->find("blk.0.ffn_down.weight"), nullptr);
    EXPECT_EQ(file->find("cls.weight"), nullptr);
  }
  const auto scores = open({{"architectures", {"XLMRobertaForSequenceClassification"}}});
  ASSERT_TRUE(scores.ok()) << scores.error().message;
  EXPECT_NE(scores->find("cls.weight"), nullptr);
  EXPECT_NE(scores->find("cls.output.weight"), nullptr);
  const auto none = open({{"pad_token_id", 6}});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("'max_position_embeddings' is 7, but 7 rows are for no"),
            std::string::npos)
      << none.error().message;
}

json token(const char* name) { return {{"SpecialToken", {{"id", name}}}}; }
json text(const char* name) { return {{"Sequence", {{"id", name}}}}; }

// A tokenizer.json as that of intfloat/multilingual-e5.
json unigram() {
  json vocab = json::array();
  for (const auto& [piece, score] :
       {std::pair<std::string, double>("<s>", 0), {"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}})
    vocab.push_back(json::array({piece, score}));
  vocab.push_back(json::array({kMark + "a", -1.5}));
  json added = json::array();
  for (const auto& [id, name] :
       {std::pair<int, const char*>(0, "<s>"), {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}})
    added.push_back({{"id", id}, {"content", name}, {"special", true}});
  return {{"added_tokens", added},
          {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AQL/"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             json::array(
                 {{{"type", "WhitespaceSplit"}},
                  {{"type", "Metaspace"}, {"replacement", kMark}, {"add_prefix_space", true}}})}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", json::array({token("<s>"), text("A"), token("</s>")})},
            {"pair", json::array({token("<s>"), text("A"), token("</s>"), token("</s>"), text("B"),
                                  token("</s>")})}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", vocab}}}};
}

base::Result<ModelFile> open_tokenizer(const json& tokenizer) {
  const TestFolder folder;
  folder.write("config.json", roberta_config().dump());
  folder.write("model.safetensors", weights({{"embeddings.word_embeddings.weight", {6, 8}}}));
  folder.write("tokenizer.json", tokenizer.dump());
  return ModelFile::open(folder.path());
}

TEST(HfRoberta, AUnigramHasScoresAndAMapOfCharacters) {
  json later = unigram();  // as transformers writes it since 2024
  later["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       json::array(
           {{{"type", "Precompiled"}, {"precompiled_charsmap", "AQL/"}},
            {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
            {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", kMark}}})}};
  later["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "always"}, {"split", true}};
  for (const json& tokenizer : {unigram(), later}) {
    const auto file = open_tokenizer(tokenizer);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_string("tokenizer.ggml.model"), "t5");
    EXPECT_EQ(*file->get_strings("tokenizer.ggml.tokens"),
              (Strings{"<s>", "<pad>", "</s>", "<unk>", kMark + "a", "[PAD5]"}));
    EXPECT_EQ(*file->get_ints("tokenizer.ggml.token_type"), (Ints{3, 3, 3, 3, 1, 5}));
    EXPECT_EQ(*file->get_floats("tokenizer.ggml.scores"),
              (std::vector<float>{0, 0, 0, 0, -1.5F, 0}));
    EXPECT_EQ(*file->get_ints("tokenizer.ggml.precompiled_charsmap"), (Ints{1, 2, 255}));
    EXPECT_EQ(*file->get_uint("tokenizer.ggml.unknown_token_id"), 3u);
    EXPECT_EQ(*file->get_uint("tokenizer.ggml.bos_token_id", 9), 0u);
    EXPECT_EQ(*file->get_uint("tokenizer.ggml.eos_token_id"), 2u);
    EXPECT_TRUE(*file->get_bool("tokenizer.ggml.add_bos_token", false));
    EXPECT_TRUE(*file->get_bool("tokenizer.ggml.add_sep_token", false));
  }
}

TEST(HfRoberta, OtherUnigramsAreRefused) {
  const auto error = [](const std::string& path, const json& value) {
    json changed = unigram();
    changed[json::json_pointer(path)] = value;
    const auto file = open_tokenizer(changed);
    return file.ok() ? std::string("none") : file.error().message;
  };
  const json metaspace = {{"type", "Metaspace"}, {"replacement", kMark}};
  struct {
    const char* path;
    json value;
    const char* expected;
  } const table[] = {
      {"/normalizer/type", "NFKC", "'normalizer' has the step 'NFKC', which kvick does not know"},
      {"/normalizer/precompiled_charsmap", "A*==", "'precompiled_charsmap' is no base64"},
      {"/normalizer", nullptr, "'normalizer' has no Precompiled map of characters"},
      {"/pre_tokenizer", metaspace, "do not put one mark for each stretch of white space"},
      {"/pre_tokenizer/pretokenizers/1/replacement", "_",
       "'pre_tokenizer' is not the WhitespaceSplit and Metaspace that kvick knows"},
      {"/model/unk_id", 6, "'unk_id' is 6, but the model's vocab_size is 6"},
      {"/model/byte_fallback", true, "'byte_fallback' is true"},
      {"/model/vocab/4", "a", "'vocab' must hold pairs of a piece and its score"},
  };
  for (const auto& [path, value, expected] : table)
    EXPECT_NE(error(path, value).find(expected), std::string::npos) << error(path, value);
}

// RoBERTa's own form of what a template says in XLM-RoBERTa.
TEST(HfRoberta, RobertaProcessingPutsTwoTokensBetweenTexts) {
  json tokenizer = unigram();
  for (const auto& [type, between] :
       {std::pair<const char*, bool>("RobertaProcessing", true), {"BertProcessing", false}}) {
    tokenizer["post_processor"] = {
        {"type", type}, {"sep", json::array({"</s>", 2})}, {"cls", json::array({"<s>", 0})}};
    const auto file = open_tokenizer(tokenizer);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->get_uint("tokenizer.ggml.bos_token_id", 9), 0u);
    EXPECT_EQ(*file->get_uint("tokenizer.ggml.eos_token_id"), 2u);
    EXPECT_EQ(*file->get_bool("tokenizer.ggml.add_sep_token", false), between);
  }
}

}  // namespace
}  // namespace kvick::io
