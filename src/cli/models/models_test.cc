#include "cli/models/models.h"

#include <gtest/gtest.h>

#include "cli/models/test_folder.h"

namespace kvick::cli {
namespace {

class ResolveModel : public testing::Test {
 protected:
  std::string found(std::string_view name) {
    const auto path = resolve_model(name, folder_.path / "cache");
    return path.ok() ? path->string() : "error: " + path.error().message;
  }
  std::string in_cache(const std::string& name) { return (folder_.path / "cache" / name).string(); }
  TestFolder folder_;
};

TEST_F(ResolveModel, APathThatExistsIsItself) {
  const std::string file = folder_.write("some/model.gguf", "GGUF");
  EXPECT_EQ(found(file), file);
  EXPECT_EQ(found((folder_.path / "some").string()), (folder_.path / "some").string());
}

TEST_F(ResolveModel, NothingMeansTheDefaultModel) {
  EXPECT_NE(found("").find("run `kvick pull smollm2`"), std::string::npos) << found("");
  folder_.write("cache/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF");
  EXPECT_EQ(found(""), in_cache("SmolLM2-135M-Instruct.Q4_1.gguf"));
  EXPECT_EQ(found("smollm2"), in_cache("SmolLM2-135M-Instruct.Q4_1.gguf"));
}

TEST_F(ResolveModel, WhatWasPulledIsFoundByWhatWasGivenToPull) {
  folder_.write("cache/hf/owner/repo/m.gguf", "GGUF");
  folder_.write("cache/hf/owner/repo@refs%2Fpr%2F1/m.gguf", "GGUF");
  folder_.write("cache/url/example.org_8080/a/n.gguf", "GGUF");
  EXPECT_EQ(found("hf:owner/repo/m.gguf"), in_cache("hf/owner/repo/m.gguf"));
  EXPECT_EQ(found("hf:owner/repo/m.gguf@refs/pr/1"),
            in_cache("hf/owner/repo@refs%2Fpr%2F1/m.gguf"));
  EXPECT_EQ(found("https://example.org:8080/a/n.gguf"), in_cache("url/example.org_8080/a/n.gguf"));
  EXPECT_NE(found("hf:owner/repo/other.gguf").find("has not been fetched yet"), std::string::npos);
}

TEST_F(ResolveModel, ARepositoryIsTheFileOfThatTypeThatIsThere) {
  EXPECT_NE(found("hf:o/r:Q8_0").find("run `kvick pull hf:o/r:Q8_0`"), std::string::npos);
  folder_.write("cache/hf/o/r/m-Q8_0.gguf", "GGUF");
  EXPECT_EQ(found("hf:o/r:q8_0"), in_cache("hf/o/r/m-Q8_0.gguf"));
  EXPECT_EQ(found("hf:o/r"), in_cache("hf/o/r/m-Q8_0.gguf"));
  EXPECT_NE(found("hf:o/r:Q4_K_M").find("has not been fetched yet"), std::string::npos);
  EXPECT_NE(found("hf:o/r@v1").find("has not been fetched yet"), std::string::npos);
}

TEST_F(ResolveModel, ASplitFileIsOneModel) {
  folder_.write("cache/hf/o/r/m-Q8_0-00001-of-00002.gguf", "GGUF");
  EXPECT_NE(found("hf:o/r:Q8_0").find("has not been fetched yet"), std::string::npos)
      << "a part is missing";
  folder_.write("cache/hf/o/r/m-Q8_0-00002-of-00002.gguf", "GGUF");
  EXPECT_EQ(found("hf:o/r:Q8_0"), in_cache("hf/o/r/m-Q8_0-00001-of-00002.gguf"));
  EXPECT_EQ(cached_models(folder_.path / "cache"),
            (std::vector<std::string>{"hf:o/r/m-Q8_0-00001-of-00002.gguf"}));
}

TEST(NamesModel, TellsAModelFromAPrompt) {
  for (const char* name : {"smollm2", "qwen3-4b", "hf:o/r:Q4_K_M", "https://h/m.gguf", "none.gguf"})
    EXPECT_TRUE(names_model(name)) << name;
  for (const char* text : {"", "hello", "What is m.gguf", "see https://h/x", "."})
    EXPECT_FALSE(names_model(text)) << text;
}

TEST_F(ResolveModel, AFileNameIsEnoughIfOnlyOneHasIt) {
  folder_.write("cache/hf/a/r/m.gguf", "GGUF");
  EXPECT_EQ(found("m.gguf"), in_cache("hf/a/r/m.gguf"));
  EXPECT_EQ(found("m"), in_cache("hf/a/r/m.gguf"));
  folder_.write("cache/hf/b/r/m.gguf", "GGUF");
  EXPECT_NE(found("m").find("the name of 2 models"), std::string::npos) << found("m");
}

TEST_F(ResolveModel, AFolderOfAHuggingFaceModelIsOneModel) {
  folder_.write("cache/qwen/config.json", "{}");
  folder_.write("cache/qwen/model.safetensors", "");
  EXPECT_EQ(found("qwen"), in_cache("qwen"));
  EXPECT_EQ(cached_models(folder_.path / "cache"), (std::vector<std::string>{"qwen"}));
}

TEST_F(ResolveModel, AnUnknownNameListsTheCacheAndNamesPull) {
  EXPECT_NE(found("nothing").find("is empty"), std::string::npos) << found("nothing");
  folder_.write("cache/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF");
  folder_.write("cache/hf/a/r@v1/m.gguf", "GGUF");
  folder_.write("cache/url/h/.n.gguf.part", "a pull under way is no model");
  const std::string message = found("nothing");
  EXPECT_NE(message.find("has: smollm2, hf:a/r/m.gguf@v1;"), std::string::npos) << message;
  EXPECT_NE(message.find("`kvick pull`"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_F(ResolveModel, EveryListedNameIsFound) {
  for (const char* file : {"SmolLM2-135M-Instruct.Q4_1.gguf", "hf/a/r@v%2F1/sub/m%20x.gguf",
                           "hf/a/r/k.gguf", "url/h/n.gguf", "own.gguf"})
    folder_.write(std::string("cache/") + file, "GGUF");
  const auto names = cached_models(folder_.path / "cache");
  EXPECT_EQ(names.size(), 5u);
  for (const std::string& name : names)
    EXPECT_TRUE(found(name).starts_with(in_cache(""))) << name << ": " << found(name);
}

}  // namespace
}  // namespace kvick::cli
