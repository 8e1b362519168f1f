// Pre-tokenizers of several splits, as in published files.

#include "io/huggingface/hf_pretokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kvick::io {
namespace {

using json = nlohmann::json;

json split(const std::string& regex, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", invert}};
}

// DeepSeek-V3's steps; the third pattern contains literal line ends.
json deepseek3() {
  const std::string line = "\r\n";
  return json::array({split(R"(\p{N}{1,3})"),
                      split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                      split(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)" + line +
                            R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)" + line +
                            R"(]*|\s*[)" + line + R"(]+|\s+(?!\S)|\s+)"),
                      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}});
}
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The line ends are written as such.
constexpr const char* kSeed =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?"
    "[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

base::Result<std::string> name_of(const json& steps, const json& model = json::object()) {
  const json whole = {{"normalizer", {{"type", "Sequence"}, {"normalizers", json::array()}}},
                      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
                      {"model", model}};
  const std::string text = whole.dump();
  const auto document = JsonDocument::parse(text, "tokenizer.json", 1 << 20);
  EXPECT_TRUE(document.ok());
  return byte_level_pretokenizer(*JsonObject::from(document->root(), "tokenizer.json"));
}

TEST(HfPretokenizer, KnowsASequenceOfSplits) {
  const json steps = deepseek3();
  EXPECT_EQ(*name_of(steps), "deepseek-v3");
  EXPECT_EQ(*name_of(json::array({split(kQwen35), steps.back()})), "qwen35");
  EXPECT_EQ(*name_of(json::array({split(kSeed), steps.back()})), "seed-coder");
}

// DeepSeek-V2-Lite's letters and punctuation.
constexpr const char* kCasedLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-"
    "ՖႠ-"
    "ჅᎠ-"
    "Ᏽᏸ-"
    "ᏽᲐ-"
    "ᲺᲽ-"
    "Ჿᴀ-"
    "ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-"
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-"
    "ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-"
    "𐲲𐳀-"
    "𐳲𑢠-"
    "𑣟𞤀-"
    "𞥃]"
    "+";

TEST(HfPretokenizer, KnowsSplitsBeforeSingleDigits) {
  const json bytes = deepseek3().back(), lines = split("[\r\n]");
  const json ideographs = split("[一-龥ࠀ-一가-퟿]+");
  json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(
      *name_of(json::array({lines, split(kCasedLetters), split("\\s?[!-/:-~！-／：-～‘-‟　-。]+"),
                            split(R"(\s+$)"), ideographs, digits, bytes})),
      "deepseek-v2");
  json coder =
      json::array({lines, split(R"(\s?\p{L}+)"), split(R"(\s?\p{P}+)"), ideographs, digits, bytes});
  EXPECT_EQ(*name_of(coder), "deepseek-coder");
  coder[4]["individual_digits"] = false;
  const auto runs = name_of(coder);
  ASSERT_FALSE(runs.ok()) << *runs;
  EXPECT_NE(runs.error().message.find("kvick knows those of"), std::string::npos)
      << runs.error().message;
}

TEST(HfPretokenizer, KnowsWordsByCase) {
  const json bytes = deepseek3().back();
  EXPECT_EQ(*name_of(json::array({split(kTekken), bytes})), "tekken");
  EXPECT_EQ(*name_of(json::array({split(kO200k), bytes})), "gpt-4o");
  EXPECT_EQ(*name_of(json::array({split(kO200k, "Removed", true), bytes})), "gpt-4o");
}

TEST(HfPretokenizer, TheNameSaysWhetherMergesAreIgnored) {
  const json bytes = deepseek3().back();
  const json ignores = {{"ignore_merges", true}}, merges = {{"ignore_merges", false}};
  const json o200k = json::array({split(kO200k), bytes});
  const json llama3 = json::array({split(kLlama3), bytes});
  EXPECT_EQ(*name_of(o200k, ignores), "granite-embed-multi-97m");
  EXPECT_EQ(*name_of(o200k, merges), "gpt-4o");
  EXPECT_EQ(*name_of(llama3, ignores), "llama-bpe");
  EXPECT_EQ(*name_of(llama3, merges), "dbrx");
  EXPECT_EQ(*name_of(llama3), "llama-bpe");
}

TEST(HfPretokenizer, GemmasSplitAtSpacesFindsNoneBehindItsNormalizer) {
  json whole = {
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
      {"pre_tokenizer",
       {{"type", "Split"},
        {"pattern", {{"String", " "}}},
        {"behavior", "MergedWithPrevious"},
        {"invert", false}}}};
  const auto prefix = [&] {
    const std::string text = whole.dump();
    const auto document = JsonDocument::parse(text, "tokenizer.json", 1 << 20);
    EXPECT_TRUE(document.ok());
    return sentencepiece_prefix(*JsonObject::from(document->root(), "tokenizer.json"));
  };
  ASSERT_TRUE(prefix().ok()) << prefix().error().message;
  EXPECT_FALSE(prefix()->added);
  whole["normalizer"] = nullptr;
  EXPECT_FALSE(prefix().ok());
}

TEST(HfPretokenizer, MetaspaceMayPrefixTheBeginningOnly) {
  const auto prefix = [](const json& more) {
    json whole = {{"pre_tokenizer", {{"type", "Metaspace"}, {"split", false}}}};
    whole["pre_tokenizer"].update(more);
    const std::string text = whole.dump();
    const auto document = JsonDocument::parse(text, "tokenizer.json", 1 << 20);
    EXPECT_TRUE(document.ok());
    return *sentencepiece_prefix(*JsonObject::from(document->root(), "tokenizer.json"));
  };
  const SpacePrefix first = prefix({{"prepend_scheme", "first"}});
  EXPECT_TRUE(first.added && first.spared && first.once);
  const SpacePrefix always = prefix({{"prepend_scheme", "always"}});
  EXPECT_TRUE(always.added && always.spared && !always.once);
  const SpacePrefix old = prefix(json::object());
  EXPECT_TRUE(old.added && old.spared && !old.once);
  const SpacePrefix never = prefix({{"prepend_scheme", "never"}});
  EXPECT_FALSE(never.added || never.spared || never.once);
  EXPECT_FALSE(always.normalizes || first.normalizes);
}

TEST(HfPretokenizer, ThePrefixOfANormalizerGoesBeforeSpacesToo) {
  json whole = {
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}}};
  const auto prefix = [&] {
    const std::string text = whole.dump();
    const auto document = JsonDocument::parse(text, "tokenizer.json", 1 << 20);
    return *sentencepiece_prefix(*JsonObject::from(document->root(), "tokenizer.json"));
  };
  EXPECT_TRUE(prefix().added && prefix().normalizes && !prefix().spared);
  whole["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "always"}, {"split", false}};
  EXPECT_TRUE(prefix().added && !prefix().spared);
}

TEST(HfPretokenizer, RefusesSplitsThatDropOrAreOthers) {
  json dropping = deepseek3(), fewer = deepseek3();
  dropping[0] = split(R"(\p{N}{1,3})", "Removed", true);
  fewer.erase(1);
  for (const json& steps : {dropping, fewer}) {
    const auto name = name_of(steps);
    ASSERT_FALSE(name.ok()) << *name;
    EXPECT_NE(name.error().message.find("kvick knows those of gpt-2"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::io
