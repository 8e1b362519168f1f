#include "model/core/vocabulary.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/testing/source_folder.h"
#include "io/file/builder.h"
#include "io/huggingface/hf_tokenizer.h"
#include "text/pieces/byte_alphabet.h"
#include "text/template/chat_template.h"

namespace kvick::model {
namespace {

using nlohmann::json;
using text::Token;
using text::Tokenizer;

const std::string kReference = base::source_folder() + "/tests/reference/tokens/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

std::string fnv1a(std::string_view bytes) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char byte : bytes) value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

std::string hash_of(const std::vector<Token>& tokens, size_t begin, size_t end) {
  return fnv1a({reinterpret_cast<const char*>(tokens.data() + begin), (end - begin) * 4});
}

// Does what text.py's generate() does.
std::string generate(size_t size, uint32_t state) {
  const json groups = json::parse(read(kReference + "fragments.json"));
  uint32_t weights = 0;
  for (const json& group : groups) weights += group[0].get<uint32_t>();
  const auto pick = [&](size_t count) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % static_cast<uint32_t>(count);
  };
  std::string out;
  while (out.size() < size) {
    uint32_t at = pick(weights), group = 0;
    for (; at >= groups[group][0]; ++group) at -= groups[group][0].get<uint32_t>();
    out += groups[group][1][pick(groups[group][1].size())].get_ref<const std::string&>();
    if (pick(4) > 0) out += ' ';
  }
  return out;
}

std::unique_ptr<Tokenizer> open(const std::string& path) {
  auto file = io::ModelFile::open(path);
  if (!file.ok()) throw std::runtime_error(file.error().message);
  auto vocabulary = read_vocabulary(*file);
  if (!vocabulary.ok()) throw std::runtime_error(vocabulary.error().message);
  auto tokenizer = Tokenizer::make(*std::move(vocabulary));
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

void expect_long(const Tokenizer& tokenizer, const json& record) {
  const std::string text = generate(record["bytes"], record["seed"]);
  ASSERT_EQ(fnv1a(text), record["text_hash"]) << "the generators of C++ and Python differ";
  const auto got = tokenizer.encode(text, false, record["parse_special"]);
  const auto first = record["first"].get<std::vector<Token>>();
  ASSERT_EQ(std::vector<Token>(got.begin(), got.begin() + std::min(got.size(), first.size())),
            first);
  const size_t chunk = record["chunk"];
  for (size_t i = 0; i < record["chunks"].size() && i * chunk < got.size(); ++i)
    ASSERT_EQ(hash_of(got, i * chunk, std::min(got.size(), (i + 1) * chunk)), record["chunks"][i])
        << "in tokens from " << i * chunk << " on";
  EXPECT_EQ(got.size(), record["count"]);
  EXPECT_EQ(hash_of(got, 0, got.size()), record["hash"]);
}

// Checks all that was recorded of one model file.
void expect_as_recorded(const std::string& model, const std::string& record_file) {
  const auto tokenizer = open(model);
  const json record = json::parse(read(kReference + record_file));
  for (const json& r : record["long"]) expect_long(*tokenizer, r);
  for (const json& r : record["short"]) {
    const std::string text = r["text"];
    EXPECT_EQ(tokenizer->encode(text, true, r["parse_special"]),
              r["tokens"].get<std::vector<Token>>())
        << r;
  }
  if (record.contains("chat")) {
    const std::string chat = record["chat"]["text"];
    EXPECT_EQ(tokenizer->encode(chat, false, true),
              record["chat"]["tokens"].get<std::vector<Token>>());
  }
  std::vector<Token> ends;
  std::string pieces;
  for (Token token = 0; token < static_cast<Token>(tokenizer->vocabulary().pieces.size());
       ++token) {
    if (tokenizer->ends_generation(token)) ends.push_back(token);
    pieces += tokenizer->piece(token, false) + "\n";
  }
  EXPECT_EQ(ends, record["ends"].get<std::vector<Token>>());
  EXPECT_EQ(fnv1a(pieces), record["pieces_hash"]);
}

class SmallVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(SmallVocabulary, GivesTheTokensOfLlamaCpp) {
  const std::string name = std::string("vocab-") + GetParam();
  expect_as_recorded(kReference + name + ".gguf", name + ".json");
}

TEST_P(SmallVocabulary, DecodesWhatItEncodes) {
  const auto tokenizer = open(kReference + "vocab-" + GetParam() + ".gguf");
  const bool no_piece_for_space = tokenizer->vocabulary().model == "llama";
  std::string text = generate(1 << 16, 3);
  if (no_piece_for_space)  // SentencePiece encodes U+2581 and the space alike
    for (size_t at; (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, "_");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true, false)), text);
}

INSTANTIATE_TEST_SUITE_P(All, SmallVocabulary,
                         testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "default",
                                         "falcon", "spm", "spm-bare"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Vocabulary, TakesWhatAFolderSaysAboutSpaces) {
  io::ModelFileBuilder builder(io::Container::kHuggingFace, "folder");
  io::Metadata& metadata = builder.metadata();
  metadata["tokenizer.ggml.model"].data = std::string("gpt2");
  metadata["tokenizer.ggml.tokens"].data = std::vector<std::string>{"a", "<x>", "<y>"};
  metadata["tokenizer.ggml.token_type"].data = std::vector<int64_t>{1, 3, 3};
  metadata["kvick.strips_right_ids"].data = std::vector<int64_t>{2};
  metadata["kvick.space_prefix_spared"].data = true;
  metadata["kvick.space_prefix_once"].data = true;
  const auto vocabulary = read_vocabulary(builder.finish());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->strips_right, (std::vector<Token>{2}));
  EXPECT_TRUE(vocabulary->space_prefix_spared && vocabulary->space_prefix_once);
}

// Makes the tokenizer of a folder from a tokenizer.json of all bytes, whose tokens are their
// values, the piece "é" as token 256, and added tokens from 257 on.
std::unique_ptr<Tokenizer> of_folder(json added, const json& more) {
  const text::ByteAlphabet alphabet;
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[std::string(alphabet.letter(static_cast<uint8_t>(byte)))] = byte;
  vocab["\u00c3\u00a9"] = 256;
  int id = 257;
  for (json& token : added) token["id"] = id++;
  json whole = {
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"\u00c3 \u00a9"}}}}};
  whole.update(more);
  const std::string tokenizer = whole.dump();
  const auto document = io::JsonDocument::parse("{}", "config.json", 100);
  const auto config = io::JsonObject::from(document->root(), "config.json");
  io::ModelFileBuilder builder(io::Container::kHuggingFace, "folder");
  const auto mapped =
      io::map_tokenizer({{"tokenizer.json", tokenizer}, {}, {}, {}},
                        {.vocabulary = static_cast<uint64_t>(id)}, *config, builder.metadata());
  if (!mapped.ok()) throw std::runtime_error(mapped.error().message);
  auto vocabulary = read_vocabulary(builder.finish());
  if (!vocabulary.ok()) throw std::runtime_error(vocabulary.error().message);
  auto made = Tokenizer::make(*std::move(vocabulary));
  if (!made.ok()) throw std::runtime_error(made.error().message);
  return *std::move(made);
}

TEST(Vocabulary, AFoldersAddedTokensAreFoundAsTheySay) {
  const json added = {{{"content", "<mask>"}, {"lstrip", true}, {"special", true}},
                      {{"content", "<end>"}, {"rstrip", true}, {"special", true}},
                      {{"content", "day"}, {"single_word", true}},
                      {{"content", "ab"}, {"normalized", true}},
                      {{"content", "bc"}, {"normalized", false}},
                      {{"content", "cde"}, {"normalized", false}}};
  const auto tokenizer = of_folder(added, json::object());
  const auto tokens = [&](const char* text) { return tokenizer->encode(text, false, true); };
  using Tokens = std::vector<Token>;
  EXPECT_EQ(tokens("x \u3000<mask> y"), (Tokens{'x', 257, ' ', 'y'}));
  EXPECT_EQ(tokens("<end>\n\u00a0 y <end>"), (Tokens{258, 'y', ' ', 258}));
  EXPECT_EQ(tokens("<end> <mask>"), (Tokens{258, 257}));
  EXPECT_EQ(tokens("day days"), (Tokens{259, ' ', 'd', 'a', 'y', 's'}));
  EXPECT_EQ(tokens("abc"), (Tokens{'a', 261}));
  EXPECT_EQ(tokens("ab"), Tokens{260});
  EXPECT_EQ(tokens("bcde"), (Tokens{261, 'd', 'e'}));
}

TEST(Vocabulary, AFoldersNormalizerAndTemplateAreApplied) {
  const json added = {{{"content", "<s>"}, {"special", true}},
                      {{"content", "o\u0308"}, {"normalized", true}}};
  const json text = {{"Sequence", {{"id", "A"}}}}, begin = {{"SpecialToken", {{"id", "<s>"}}}};
  const json more = {{"normalizer", {{"type", "NFC"}}},
                     {"post_processor",
                      {{"type", "TemplateProcessing"}, {"single", {begin, begin, text, begin}}}}};
  const auto tokenizer = of_folder(added, more);
  EXPECT_EQ(tokenizer->encode("e\u0301<s>\u0301o\u0308\u00f6", true, true),
            (std::vector<Token>{257, 257, 256, 257, 0xCC, 0x81, 258, 258, 257}));
  EXPECT_EQ(tokenizer->encode("\u00e9", false, true), std::vector<Token>{256});
}

TEST(Vocabulary, AFoldersOwnPreTokenizerGoesBeforeItsNameInGguf) {
  io::ModelFileBuilder builder(io::Container::kHuggingFace, "folder");
  io::Metadata& metadata = builder.metadata();
  metadata["tokenizer.ggml.model"].data = std::string("gpt2");
  metadata["tokenizer.ggml.pre"].data = std::string("deepseek-llm");
  metadata["kvick.pre"].data = std::string("deepseek-v2");
  metadata["tokenizer.ggml.tokens"].data = std::vector<std::string>{"a"};
  const auto vocabulary = read_vocabulary(builder.finish());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->pre, "deepseek-v2");
}

TEST(Vocabulary, SuppressedTokensOfOtherModelsAreLeftOut) {
  const auto vocabulary_with = [](io::Value first) {
    io::ModelFileBuilder builder(io::Container::kGguf, "file");
    io::Metadata& metadata = builder.metadata();
    metadata["tokenizer.ggml.model"].data = std::string("gpt2");
    metadata["tokenizer.ggml.tokens"].data = std::vector<std::string>{"a", "b", "c"};
    metadata["tokenizer.ggml.suppress_tokens"].data = std::vector<int64_t>{2, 3, -1, 0};
    metadata["kvick.begin_suppress_tokens"] = std::move(first);
    return read_vocabulary(builder.finish());
  };
  const auto vocabulary = vocabulary_with({std::vector<int64_t>{1}});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->suppressed, (std::vector<Token>{2, 0}));
  EXPECT_EQ(vocabulary->suppressed_first, std::vector<Token>{1});
  const auto wrong = vocabulary_with({std::string("b")});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "file: kvick.begin_suppress_tokens is not an array of integers");
}

TEST(Vocabulary, OldKeysNameTheTokensThatFillIn) {
  io::ModelFileBuilder builder(io::Container::kGguf, "file");
  io::Metadata& metadata = builder.metadata();
  metadata["tokenizer.ggml.model"].data = std::string("gpt2");
  metadata["tokenizer.ggml.tokens"].data = std::vector<std::string>{"a", "b", "c", "d"};
  metadata["tokenizer.ggml.prefix_token_id"].data = uint64_t{3};
  metadata["tokenizer.ggml.suffix_token_id"].data = uint64_t{2};
  metadata["tokenizer.ggml.middle_token_id"].data = uint64_t{1};
  metadata["tokenizer.ggml.fim_mid_token_id"].data = uint64_t{0};  // takes precedence
  const auto vocabulary = read_vocabulary(builder.finish());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->fill_in.prefix, 3);
  EXPECT_EQ(vocabulary->fill_in.suffix, 2);
  EXPECT_EQ(vocabulary->fill_in.middle, 0);
}

TEST(Vocabulary, ATemplateForToolsIsUsedWithTools) {
  const auto rendered = [](const std::string& usual, const std::string& for_tools, json tools) {
    io::ModelFileBuilder builder(io::Container::kGguf, "file");
    io::Metadata& metadata = builder.metadata();
    metadata["tokenizer.ggml.model"].data = std::string("gpt2");
    metadata["tokenizer.ggml.tokens"].data = std::vector<std::string>{"a"};
    metadata["tokenizer.chat_template"].data = usual;
    metadata["tokenizer.chat_template.tool_use"].data = for_tools;
    const auto vocabulary = read_vocabulary(builder.finish());
    if (!vocabulary.ok()) return vocabulary.error().message;
    const auto parsed = text::ChatTemplate::parse(vocabulary->chat_template);
    if (!parsed.ok()) return parsed.error().message;
    nlohmann::ordered_json context = {{"name", "x"}};
    if (!tools.is_null()) context["tools"] = tools;
    const auto text = parsed->render(context);
    return text.ok() ? *text : text.error().message;
  };
  const json none, some = {"f"};
  // White space beside the parts stays as it is in the parts alone.
  const std::string usual =
      "\n  {% set y = name %}{% macro m() %}{{ y }}{% endmacro %}\n[{{ m() }}]\n";
  const std::string for_tools = "{%- for tool in tools %}\n<{{ tool }}>\n{% endfor %}\n  ";
  const auto alone = text::ChatTemplate::parse(usual);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(rendered(usual, for_tools, none), *alone->render({{"name", "x"}}));
  EXPECT_EQ(rendered(usual, for_tools, json::array()), *alone->render({{"name", "x"}}));
  const auto with_tools = text::ChatTemplate::parse(for_tools);
  ASSERT_TRUE(with_tools.ok());
  EXPECT_EQ(rendered(usual, for_tools, some), *with_tools->render({{"tools", {"f"}}}));
  EXPECT_EQ(rendered(usual, "", some), *alone->render({{"name", "x"}}));
  EXPECT_EQ(rendered("[{{ name }}]", "{% if %}", none), "[x]");
  EXPECT_NE(rendered("[{{ name }}]", "{% if %}", some).find("the template tool_use: chat template"),
            std::string::npos);
}

TEST(Vocabulary, TheDefaultModelGivesTheTokensOfLlamaCpp) {
  const char* model = std::getenv("KVICK_TEST_MODEL");
  if (!model) GTEST_SKIP() << "KVICK_TEST_MODEL does not name the default model's file";
  expect_as_recorded(model, "smollm2.json");
}

// Returns the error message for a small vocabulary whose bytes `from` are replaced by `to`, of the
// same length.
std::string error_after(const std::string& name, const std::string& from, const std::string& to) {
  std::string image = read(kReference + name);
  const size_t at = image.find(from);
  EXPECT_NE(at, std::string::npos);
  image.replace(at, to.size(), to);
  auto file = io::ModelFile::parse_gguf(std::as_bytes(std::span(image)), name);
  if (!file.ok()) return "gguf: " + file.error().message;
  auto vocabulary = read_vocabulary(*file);
  if (!vocabulary.ok()) return vocabulary.error().message;
  auto tokenizer = Tokenizer::make(*std::move(vocabulary));
  return tokenizer.ok() ? "no error" : tokenizer.error().message;
}

TEST(Vocabulary, WhatIsMissingOrWrongIsNamed) {
  EXPECT_EQ(error_after("vocab-qwen2.gguf", "qwen2", "qwen2"), "no error");
  EXPECT_EQ(error_after("vocab-qwen2.gguf", "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz"),
            "vocab-qwen2.gguf: tokenizer.ggml.tokens is not there or no array of strings");
  EXPECT_NE(error_after("vocab-qwen2.gguf", "tokenizer.ggml.model", "tokenizer.ggml.moded")
                .find("tokenizer.ggml.model"),
            std::string::npos);
  EXPECT_TRUE(error_after("vocab-qwen2.gguf", "qwen2", "qwen9")
                  .starts_with("pre-tokenizer 'qwen9' is not known; these are: default, "));
  EXPECT_EQ(error_after("vocab-qwen2.gguf", "gpt2", "rwkv"),
            "tokenizer model 'rwkv' is not known; these are: gpt2, llama, gemma4, t5, bert");
  EXPECT_EQ(error_after("vocab-spm.gguf", "tokenizer.ggml.scores", "tokenizer.ggml.scorez"),
            "the vocabulary has 512 tokens but 0 scores");
  // After the key follow the type (array), the elements' type, their number, then the elements.
  const std::string types = "tokenizer.ggml.token_type";
  const std::string array("\x09\0\0\0\x05\0\0\0\0\x02\0\0\0\0\0\0", 16);
  EXPECT_EQ(error_after("vocab-spm.gguf", types, types + array + '\x0B'),
            "vocab-spm.gguf: tokenizer.ggml.token_type has 11 for token 0; 0 to 6 are known");
}

TEST(Vocabulary, AFolderWithoutTokenizerIsNamed) {
  io::ModelFileBuilder folder(io::Container::kHuggingFace, "kimi");
  const auto vocabulary = read_vocabulary(folder.finish());
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_TRUE(vocabulary.error().message.starts_with("kimi: the folder has no tokenizer.json"));
}

TEST(Vocabulary, DefaultsAreTheFamilys) {
  const auto spm = open(kReference + "vocab-spm.gguf");
  EXPECT_TRUE(spm->vocabulary().add_bos);
  EXPECT_TRUE(spm->vocabulary().add_space_prefix);
  EXPECT_EQ(spm->vocabulary().unknown, 0);
  EXPECT_TRUE(open(kReference + "vocab-llama-bpe.gguf")->vocabulary().add_bos);
  const auto qwen = open(kReference + "vocab-qwen2.gguf");
  EXPECT_FALSE(qwen->vocabulary().add_bos);
  EXPECT_FALSE(qwen->vocabulary().add_space_prefix);
}

}  // namespace
}  // namespace kvick::model
