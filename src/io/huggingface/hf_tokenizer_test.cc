#include "io/huggingface/hf_tokenizer.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace kvick::io {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

const char* const kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kMark = "\xe2\x96\x81";

json byte_level(bool words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", words}};
}
json split(const char* regex) {
  const json step = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
  return {{"type", "Sequence"}, {"pretokenizers", {step, byte_level(false)}}};
}

// A GPT-2-like tokenizer.json: 6 pieces, 2 added tokens, ids up to 8, and none with id 6.
json gpt2_json() {
  return {{"added_tokens",
           {{{"id", 5}, {"content", "<end>"}, {"special", true}},
            {{"id", 7}, {"content", "  "}, {"special", false}}}},
          {"pre_tokenizer", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"vocab",
             {{"a", 0},
              {"b", 1},
              {"ab", 2},
              {"\xc4\xa0", 3},
              {"\xc4\xa0"
               "ab",
               4},
              {"<end>", 5}}},
            {"merges", {"a b", "\xc4\xa0 ab"}}}}};
}

// A Llama-2-like tokenizer.json: <unk>, <s>, </s>, one byte, single characters, and the pieces of
// `order`, best first.
json llama2_json(const Strings& characters, const Strings& order) {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"<0x0A>", 3}};
  for (const auto* list : {&characters, &order})
    for (const std::string& piece : *list) vocab[piece] = vocab.size();
  json merges = json::array();
  for (const std::string& piece : order)
    for (size_t cut = 1; cut < piece.size(); ++cut)
      if (vocab.contains(piece.substr(0, cut)) && vocab.contains(piece.substr(cut)))
        merges.push_back(piece.substr(0, cut) + " " + piece.substr(cut));
  json added = json::array();
  for (const char* text : {"<unk>", "<s>", "</s>"})
    added.push_back({{"id", vocab[text]}, {"content", text}, {"special", true}});
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", kMark}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

struct Files {
  json tokenizer;
  json tokenizer_config = json::object(), generation = json::object(), config = json::object();
  std::string chat;
  uint64_t vocabulary = 9;
};

base::Result<Metadata> map(const Files& files) {
  const std::string tokenizer = files.tokenizer.dump(), generation = files.generation.dump();
  const std::string tokenizer_config = files.tokenizer_config.dump(), config = files.config.dump();
  KVICK_TRY(const JsonDocument document, JsonDocument::parse(config, "config.json", 1000));
  KVICK_TRY(const JsonObject root, JsonObject::from(document.root(), "config.json"));
  const HfTokenizerFiles named = {{"tokenizer.json", tokenizer},
                                  {"tokenizer_config.json", tokenizer_config},
                                  {"generation_config.json", generation},
                                  {"chat_template.jinja", files.chat}};
  Metadata out;
  KVICK_TRY_VOID(map_tokenizer(named, {.vocabulary = files.vocabulary}, root, out));
  return out;
}

template <typename T>
T get(const base::Result<Metadata>& metadata, const std::string& key) {
  EXPECT_TRUE(metadata.ok()) << (metadata.ok() ? "" : metadata.error().message);
  if (!metadata.ok() || !metadata->contains(key)) {
    ADD_FAILURE() << key << " is missing";
    return T();
  }
  return std::get<T>(metadata->at(key).data);
}

TEST(HfTokenizer, AByteLevelTokenizerBecomesGgufs) {
  const auto out = map({.tokenizer = gpt2_json()});
  EXPECT_EQ(get<std::string>(out, "tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(get<std::string>(out, "tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(get<Strings>(out, "tokenizer.ggml.tokens"),
            (Strings{"a", "b", "ab", "\xc4\xa0",
                     "\xc4\xa0"
                     "ab",
                     "<end>", "[PAD6]", "  ", "[PAD8]"}));
  EXPECT_EQ(get<Ints>(out, "tokenizer.ggml.token_type"), (Ints{1, 1, 1, 1, 1, 3, 5, 4, 5}));
  EXPECT_EQ(get<Strings>(out, "tokenizer.ggml.merges"), (Strings{"a b", "\xc4\xa0 ab"}));
  EXPECT_FALSE(get<bool>(out, "tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(get<bool>(out, "tokenizer.ggml.add_space_prefix"));
  EXPECT_FALSE(out->contains("tokenizer.ggml.bos_token_id"));
  EXPECT_FALSE(out->contains("tokenizer.chat_template"));
}

TEST(HfTokenizer, MergesMayBePairs) {
  Files files{.tokenizer = gpt2_json()};
  files.tokenizer["model"]["merges"] = json::array({{"a", "b"}});
  files.tokenizer["model"]["merges"].push_back(json::array({"\xc4\xa0", "ab"}));
  EXPECT_EQ(get<Strings>(map(files), "tokenizer.ggml.merges"), (Strings{"a b", "\xc4\xa0 ab"}));
}

TEST(HfTokenizer, ThePreTokenizerIsKnownByItsForm) {
  const json smollm = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}}};
  for (const auto& [form, name] :
       std::vector<std::pair<json, std::string>>{{byte_level(true), "gpt-2"},
                                                 {smollm, "smollm"},
                                                 {split(kLlama3), "llama-bpe"},
                                                 {split(kQwen2), "qwen2"}}) {
    Files files{.tokenizer = gpt2_json()};
    files.tokenizer["pre_tokenizer"] = form;
    files.tokenizer["normalizer"] = {{"type", "NFC"}};
    EXPECT_EQ(get<std::string>(map(files), "tokenizer.ggml.pre"), name);
  }
}

TEST(HfTokenizer, SpecialTokensComeFromTheirNamesThenFromTheIds) {
  Files files{.tokenizer = gpt2_json()};
  files.tokenizer_config = {{"bos_token", {{"content", "<end>"}}},
                            {"pad_token", "<nowhere>"},
                            {"eos_token", "<end>"},
                            {"unk_token", "a"},
                            {"add_bos_token", true}};
  files.generation = {{"eos_token_id", {7, 5}}, {"bos_token_id", 3}};
  files.config = {{"eos_token_id", 2}};
  const auto out = map(files);
  EXPECT_EQ(get<uint64_t>(out, "tokenizer.ggml.bos_token_id"), 5u);
  EXPECT_EQ(get<uint64_t>(out, "tokenizer.ggml.eos_token_id"), 5u);
  EXPECT_EQ(get<uint64_t>(out, "tokenizer.ggml.unknown_token_id"), 0u);
  EXPECT_FALSE(out->contains("tokenizer.ggml.padding_token_id"));
  EXPECT_EQ(get<Ints>(out, "kvick.eos_token_ids"), (Ints{5, 7, 2}));
  EXPECT_TRUE(get<bool>(out, "tokenizer.ggml.add_bos_token"));
  files.tokenizer_config = json::object();
  EXPECT_EQ(get<uint64_t>(map(files), "tokenizer.ggml.bos_token_id"), 3u);
  EXPECT_EQ(get<uint64_t>(map(files), "tokenizer.ggml.eos_token_id"), 7u);
}

TEST(HfTokenizer, ThePostProcessorSaysWhatIsAddedUnlessTheConfigDoes) {
  Files files{.tokenizer = gpt2_json()};
  const json token = {{"SpecialToken", {{"id", "<end>"}}}}, text = {{"Sequence", {{"id", "A"}}}};
  const json part = {{"type", "TemplateProcessing"}, {"single", {token, text}}};
  files.tokenizer["post_processor"] = {{"type", "Sequence"},
                                       {"processors", {byte_level(true), part}}};
  EXPECT_TRUE(get<bool>(map(files), "tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(get<bool>(map(files), "tokenizer.ggml.add_eos_token"));
  EXPECT_EQ(get<uint64_t>(map(files), "tokenizer.ggml.bos_token_id"), 5u);
  files.tokenizer_config = {{"add_bos_token", false}, {"bos_token", "<end>"}};
  EXPECT_FALSE(get<bool>(map(files), "tokenizer.ggml.add_bos_token"));
  files.tokenizer_config = {{"bos_token", "a"}};
  EXPECT_EQ(get<Ints>(map(files), "kvick.before_ids"), (Ints{5}));
  EXPECT_FALSE(get<bool>(map(files), "tokenizer.ggml.add_bos_token"));
}

TEST(HfTokenizer, ChatTemplatesComeFromEitherFile) {
  Files files{.tokenizer = gpt2_json()};
  files.tokenizer_config = {{"chat_template", "old"}};
  EXPECT_EQ(get<std::string>(map(files), "tokenizer.chat_template"), "old");
  files.chat = "new";
  EXPECT_EQ(get<std::string>(map(files), "tokenizer.chat_template"), "new");
  files.chat.clear();
  files.tokenizer_config["chat_template"] = {{{"name", "default"}, {"template", "d"}},
                                             {{"name", "tool_use"}, {"template", "t"}}};
  EXPECT_EQ(get<std::string>(map(files), "tokenizer.chat_template"), "d");
  EXPECT_EQ(get<std::string>(map(files), "tokenizer.chat_template.tool_use"), "t");
}

TEST(HfTokenizer, ASentencePieceLikeTokenizerGetsScores) {
  const Files files{.tokenizer = llama2_json({kMark, "a", "b"}, {"ab", std::string(kMark) + "ab"})};
  const auto out = map(files);
  EXPECT_EQ(get<std::string>(out, "tokenizer.ggml.model"), "llama");
  EXPECT_TRUE(get<bool>(out, "tokenizer.ggml.add_space_prefix"));
  EXPECT_EQ(get<Ints>(out, "tokenizer.ggml.token_type"), (Ints{2, 3, 3, 6, 1, 1, 1, 1, 1}));
  const auto scores = get<std::vector<float>>(out, "tokenizer.ggml.scores");
  ASSERT_EQ(scores.size(), 9u);
  EXPECT_GT(scores[7], scores[8]);
  EXPECT_FALSE(out->contains("tokenizer.ggml.merges"));
  Files metaspace = files;
  metaspace.tokenizer["normalizer"] = nullptr;
  metaspace.tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "never"}, {"split", false}};
  metaspace.tokenizer["added_tokens"][2]["normalized"] = true;
  EXPECT_EQ(get<Ints>(map(metaspace), "kvick.normalized_ids"), (Ints{2}));
  EXPECT_FALSE(get<bool>(map(metaspace), "tokenizer.ggml.add_space_prefix"));
}

TEST(HfTokenizer, AddedTokensBehindTheVocabularyAreLeftOutAndThoseThatStripSpacesKept) {
  Files files{.tokenizer = gpt2_json(), .vocabulary = 7};
  for (json& token : files.tokenizer["added_tokens"]) token["rstrip"] = true;
  EXPECT_EQ(get<Ints>(map(files), "kvick.strips_right_ids"), (Ints{5}));
  EXPECT_EQ(get<Strings>(map(files), "tokenizer.ggml.tokens").size(), 7U);
  files.tokenizer_config = {{"eos_token", "  "}};
  EXPECT_FALSE(map(files).ok());
}

TEST(HfTokenizer, AddedRunsOfSpacesStayPiecesThatMergesMake) {
  const std::string two = std::string(kMark) + kMark;
  Files files{.tokenizer = llama2_json({kMark, "a"}, {two})};
  files.tokenizer["added_tokens"].push_back({{"id", 6}, {"content", two}, {"special", false}});
  files.tokenizer["added_tokens"].push_back({{"id", 5}, {"content", "a"}, {"special", false}});
  const auto kinds = get<Ints>(map(files), "tokenizer.ggml.token_type");
  ASSERT_EQ(kinds.size(), 9U);
  EXPECT_EQ(kinds[6], 1);
  EXPECT_EQ(kinds[5], 4);
}

TEST(HfTokenizer, ThePieceWithScoreZeroMayLackItsMerges) {
  Files files{.tokenizer = llama2_json({"a", "b", "c"}, {"ab", "bc"})};
  auto& merges = files.tokenizer["model"]["merges"];
  merges.erase(merges.begin());
  const auto scores = get<std::vector<float>>(map(files), "tokenizer.ggml.scores");
  EXPECT_GT(scores[7], scores[8]);
  merges.clear();
  EXPECT_NE(map(files).error().message.find("not the merges of a SentencePiece model"),
            std::string::npos);
}

// The definition of both algorithms: repeatedly joins the neighbours with the lowest cost (the
// rank, or minus the score); of equal costs, the leftmost.
template <typename Cost>
Strings join(const std::string& text, Cost cost) {
  Strings parts;
  for (const char c : text) parts.emplace_back(1, c);
  for (;;) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (cost(parts[i], parts[i + 1]) < 1e9 &&
          (best == parts.size() ||
           cost(parts[i], parts[i + 1]) < cost(parts[best], parts[best + 1])))
        best = i;
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// Returns a vocabulary as training makes it: each piece joins two earlier ones and is part of no
// other. Pieces with an equal beginning and end ("aba") are excluded: on texts like "ababa" the two
// algorithms merge in different orders.
Strings random_pieces(std::mt19937& random) {
  Strings all = {"a", "b", "c", "d"};
  for (int tries = 0; tries < 200 && all.size() < 30; ++tries) {
    const std::string piece = all[random() % all.size()] + all[random() % all.size()];
    bool fits = piece.size() < 8;
    for (size_t border = 1; border < piece.size(); ++border)
      fits = fits && piece.substr(0, border) != piece.substr(piece.size() - border);
    for (const std::string& known : all) fits = fits && known.find(piece) == std::string::npos;
    if (fits) all.push_back(piece);
  }
  return {all.begin() + 4, all.end()};
}

TEST(HfTokenizer, ScoresMakeTheMergesThatTheRanksMake) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    const Strings order = random_pieces(random);
    Files files{.tokenizer = llama2_json({"a", "b", "c", "d"}, order)};
    files.vocabulary = 8 + order.size();
    const auto out = map(files);
    const auto scores = get<std::vector<float>>(out, "tokenizer.ggml.scores");
    const auto tokens = get<Strings>(out, "tokenizer.ggml.tokens");
    std::map<std::string, double> costs, ranks;
    for (size_t id = 0; id < tokens.size(); ++id) costs[tokens[id]] = -scores[id];
    for (const json& merge : files.tokenizer["model"]["merges"])
      ranks.emplace(merge.get<std::string>(), ranks.size());
    const auto look_up = [](const auto& table, const std::string& key) {
      const auto at = table.find(key);
      return at == table.end() ? 1e9 : at->second;
    };
    for (int texts = 0; texts < 20; ++texts) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += static_cast<char>('a' + random() % 4);
      EXPECT_EQ(join(text, [&](auto& l, auto& r) { return look_up(costs, l + r); }),
                join(text, [&](auto& l, auto& r) { return look_up(ranks, l + " " + r); }))
          << text;
    }
  }
}

// Returns the files with one value of tokenizer.json changed.
Files changed(Files files, const char* pointer, const json& value) {
  files.tokenizer[json::json_pointer(pointer)] = value;
  return files;
}

TEST(HfTokenizer, WhatKvickCannotTokenizeIsRefusedByName) {
  const Files gpt2{.tokenizer = gpt2_json()};
  const Files llama{.tokenizer = llama2_json({kMark, "a", "b"}, {"ab", std::string(kMark) + "ab"})};
  const auto configured = [&](const json& tokenizer_config) {
    Files files = gpt2;
    files.tokenizer_config = tokenizer_config;
    return files;
  };
  Files small = gpt2;
  small.vocabulary = 5;
  Files far = gpt2;
  far.generation = {{"eos_token_id", 9}};
  struct {
    Files files;
    const char* expected;
  } const table[] = {
      {changed(gpt2, "/model/type", "WordLevel"), "'type' is 'WordLevel'; kvick reads BPE"},
      {changed(gpt2, "/model", 3), "'model': must be a JSON object"},
      {changed(gpt2, "/model/vocab", json::array()), "'vocab': must be a JSON object"},
      {changed(gpt2, "/model/vocab/a", "0"), "'a' must be a whole number"},
      {changed(gpt2, "/model/vocab/a", 1), "tokens 'a' and 'b' both have the id 1"},
      {changed(gpt2, "/model/merges", "a b"), "'merges' must be a list"},
      {changed(gpt2, "/model/merges/0", "ab"), "'merges': number 0 must be two pieces"},
      {changed(gpt2, "/model/merges/0", "a b c"), "'merges': number 0 must be two pieces"},
      {changed(gpt2, "/model/merges/0", json{"a"}), "'merges': number 0 must be two pieces"},
      {changed(gpt2, "/model/merges/0", json{"a", "b c"}), "has a space in a piece"},
      {changed(gpt2, "/model/end_of_word_suffix", "</w>"), "'end_of_word_suffix' is '</w>'"},
      {changed(gpt2, "/added_tokens/0/id", -1), "'id' must be a whole number"},
      {changed(gpt2, "/added_tokens/0/content", ""), "'content' is empty"},
      {changed(gpt2, "/added_tokens/0/content", "<x>"), "both have the id 5"},
      {small, "token '<end>' has the id 5, but the model's vocab_size is 5"},
      {changed(gpt2, "/pre_tokenizer", nullptr), "'pre_tokenizer' is absent; kvick knows those of"},
      {changed(gpt2, "/pre_tokenizer", split("\\s+")),
       "'pre_tokenizer' is 'Split \\s+, then ByteL"},
      {changed(gpt2, "/pre_tokenizer/add_prefix_space", true), "ByteLevel with a space before"},
      {changed(gpt2, "/normalizer", {{"type", "Lowercase"}}), "'normalizer' is 'Lowercase'"},
      {changed(gpt2, "/post_processor", {{"type", "OtherProcessing"}}), "'OtherProcessing'"},
      {configured({{"eos_token", "<none>"}}), "'eos_token' is '<none>', which tokenizer.json does"},
      {configured({{"eos_token", 3}}), "'eos_token' must be a string"},
      {configured({{"chat_template", 3}}), "'chat_template' must be a string"},
      {far, "'eos_token_id' is 9, but the model's vocab_size is 9"},
      {changed(llama, "/normalizer/normalizers/0/prepend", "x"), "does more than turn spaces"},
      {changed(llama, "/pre_tokenizer", {{"type", "Metaspace"}}), "not the Metaspace without"},
      {changed(llama, "/model/merges/0", "a c"), "'a' and 'c': one of them, or both together"},
  };
  ASSERT_TRUE(map(gpt2).ok() && map(llama).ok());
  for (const auto& [files, expected] : table) {
    const auto out = map(files);
    ASSERT_FALSE(out.ok()) << expected;
    EXPECT_NE(out.error().message.find(expected), std::string::npos) << out.error().message;
    EXPECT_EQ(out.error().message.find('\n'), std::string::npos) << out.error().message;
  }
}

}  // namespace
}  // namespace kvick::io
