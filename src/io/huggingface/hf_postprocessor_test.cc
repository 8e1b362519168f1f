#include "io/huggingface/hf_postprocessor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/huggingface/hf_tokenizer.h"

namespace kvick::io {
namespace {

using nlohmann::json;
using Ints = std::vector<int64_t>;

json token(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
const json kText = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};

json processor(const json& single) { return {{"type", "TemplateProcessing"}, {"single", single}}; }

// Maps a tokenizer of the pieces "a" to "d" and the added tokens <a>, <b>, <c>, ids 4 to 6.
base::Result<Metadata> map(const json& post, const json& tokenizer_config = json::object()) {
  const json added = {{{"id", 4}, {"content", "<a>"}, {"special", true}},
                      {{"id", 5}, {"content", "<b>"}, {"special", true}},
                      {{"id", 6}, {"content", "<c>"}, {"special", true}}};
  const json whole = {
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", post},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}}},
        {"merges", json::array()}}}};
  const std::string tokenizer = whole.dump(), config = tokenizer_config.dump();
  KVICK_TRY(const JsonDocument document, JsonDocument::parse("{}", "config.json", 1000));
  KVICK_TRY(const JsonObject root, JsonObject::from(document.root(), "config.json"));
  Metadata out;
  KVICK_TRY_VOID(
      map_tokenizer({{"tokenizer.json", tokenizer}, {"tokenizer_config.json", config}, {}, {}},
                    {.vocabulary = 8}, root, out));
  return out;
}

template <typename T>
T get(const Metadata& metadata, const std::string& key) {
  const auto at = metadata.find(key);
  return at == metadata.end() ? T() : std::get<T>(at->second.data);
}

TEST(HfPostprocessor, SeveralTokensBeforeATextAreListed) {
  const auto out = map(processor({token("<a>"), token("<b>"), kText}), {{"add_bos_token", true}});
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(get<Ints>(*out, "kvick.before_ids"), (Ints{4, 5}));
  EXPECT_FALSE(get<bool>(*out, "tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(out->contains("tokenizer.ggml.bos_token_id"));
  EXPECT_FALSE(out->contains("kvick.behind_ids"));
}

TEST(HfPostprocessor, ATokenBehindATextNeedNotBeEos) {
  const json config = {{"eos_token", "<b>"}, {"add_bos_token", false}};
  const json parts = {{{"type", "ByteLevel"}}, processor({kText, token("<c>")})};
  const auto out = map({{"type", "Sequence"}, {"processors", parts}}, config);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(get<Ints>(*out, "kvick.behind_ids"), (Ints{6}));
  EXPECT_FALSE(get<bool>(*out, "tokenizer.ggml.add_eos_token"));
  EXPECT_EQ(get<uint64_t>(*out, "tokenizer.ggml.eos_token_id"), 5u);
  const auto eos = map(processor({kText, token("<b>")}), config);
  EXPECT_TRUE(get<bool>(*eos, "tokenizer.ggml.add_eos_token"));
  EXPECT_FALSE(eos->contains("kvick.behind_ids"));
}

TEST(HfPostprocessor, AnEmptyNameIsNoToken) {
  const json config = {{"bos_token", ""}, {"eos_token", {{"content", ""}}}, {"unk_token", ""}};
  const auto none = map(nullptr, config);
  ASSERT_TRUE(none.ok()) << none.error().message;
  for (const char* key : {"bos", "eos", "unknown"})
    EXPECT_FALSE(none->contains(fmt::format("tokenizer.ggml.{}_token_id", key))) << key;
  const auto with_bos = map(processor({token("<a>"), kText}), config);
  ASSERT_TRUE(with_bos.ok()) << with_bos.error().message;
  EXPECT_TRUE(get<bool>(*with_bos, "tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(get<uint64_t>(*with_bos, "tokenizer.ggml.bos_token_id"), 4u);
}

TEST(HfPostprocessor, TheTemplateSaysWhatItsTokensStandFor) {
  json post = processor({token("two"), kText});
  post["special_tokens"] = {{"two", {{"id", "two"}, {"ids", {6, 4}}, {"tokens", {"<c>", "<a>"}}}}};
  const auto out = map(post);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(get<Ints>(*out, "kvick.before_ids"), (Ints{6, 4}));
}

TEST(HfPostprocessor, WhatCannotBeAddedIsNamed) {
  const auto with_ids = [](const json& ids) {
    json post = processor({token("x"), kText});
    post["special_tokens"] = {{"x", {{"id", "x"}, {"ids", ids}}}};
    return post;
  };
  const json only_text = processor(json::array({kText}));
  const std::pair<json, const char*> table[] = {
      {processor({token("<x>"), kText}), "'post_processor' adds the token '<x>', which the vocab"},
      {processor({token(""), kText}), "adds the token '', which the vocabulary does not have"},
      {{{"type", "Sequence"}, {"processors", {only_text, only_text}}},
       "'post_processor' has more than one TemplateProcessing"},
      {with_ids({8}), "adds the token 'x', which the vocabulary does not have"},
      {with_ids({-1}), "'ids' must hold whole numbers"},
      {with_ids(Ints(65, 1)), "adds 65 tokens on one side of a text; at most 64 are read"},
  };
  for (const auto& [post, expected] : table) {
    const auto out = map(post);
    ASSERT_FALSE(out.ok()) << expected;
    EXPECT_NE(out.error().message.find(expected), std::string::npos) << out.error().message;
  }
}

}  // namespace
}  // namespace kvick::io
