#include "cli/models/removal.h"

#include <gtest/gtest.h>

#include "cli/models/model_use.h"
#include "cli/models/test_folder.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

class RemoveModel : public testing::Test {
 protected:
  fs::path cache() { return folder_.path / "cache"; }
  TestFolder folder_;
};

TEST_F(RemoveModel, DeletesTheFileAndFoldersThatAreEmptyThen) {
  folder_.write("cache/hf/a/r/m.gguf", "GGUF");
  const fs::path other = folder_.write("cache/hf/b/r/n.gguf", "GGUF");
  const auto removal = plan_removal("hf:a/r/m.gguf", cache());
  ASSERT_TRUE(removal.ok()) << removal.error().message;
  EXPECT_EQ(removal->bytes, 4u);
  mark_used(removal->model, cache());
  EXPECT_TRUE(last_used(removal->model).has_value());
  ASSERT_TRUE(remove_model(*removal, cache()).ok());
  EXPECT_FALSE(fs::exists(cache() / "hf" / "a"));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(RemoveModel, TakesAllPartsOfASplitFile) {
  folder_.write("cache/m-00001-of-00002.gguf", "GGUF");
  folder_.write("cache/m-00002-of-00002.gguf", "GGUFGGUF");
  const auto removal = plan_removal("m-00001-of-00002.gguf", cache());
  ASSERT_TRUE(removal.ok()) << removal.error().message;
  EXPECT_EQ(removal->files.size(), 2u);
  EXPECT_EQ(removal->bytes, 12u);
}

TEST_F(RemoveModel, TakesAFolderOfAHuggingFaceModelWhole) {
  folder_.write("cache/hf/o/r/config.json", "{}");
  folder_.write("cache/hf/o/r/model.safetensors", "weights");
  const auto removal = plan_removal("hf:o/r", cache());
  ASSERT_TRUE(removal.ok()) << removal.error().message;
  EXPECT_EQ(removal->bytes, 9u);
  ASSERT_TRUE(remove_model(*removal, cache()).ok());
  EXPECT_FALSE(fs::exists(cache() / "hf"));
  EXPECT_TRUE(fs::exists(cache()));
}

TEST_F(RemoveModel, AFileElsewhereIsTheUsersOwn) {
  const fs::path own = folder_.write("own.gguf", "GGUF");
  const auto removal = plan_removal(own.string(), cache());
  ASSERT_FALSE(removal.ok());
  EXPECT_NE(removal.error().message.find("is not in the model cache"), std::string::npos);
  folder_.write("cache/hf/a/r/m.gguf", "GGUF");
  EXPECT_FALSE(plan_removal((cache() / "hf").string(), cache()).ok()) << "no model";
  EXPECT_FALSE(plan_removal(cache().string(), cache()).ok()) << "the cache itself";
}

TEST_F(RemoveModel, ANameIsTheCachesEvenBesideAFileOfThatName) {
  const fs::path cached = folder_.write("cache/own.gguf", "GGUF");
  const fs::path beside = folder_.write("here/own.gguf", "GGUFGGUF");
  folder_.write("here/other.gguf", "GGUF");
  const fs::path before = fs::current_path();
  fs::current_path(beside.parent_path());
  const auto removal = plan_removal("own.gguf", cache());
  const auto by_path = plan_removal("./own.gguf", cache());
  const auto other = plan_removal("other.gguf", cache());
  fs::current_path(before);
  ASSERT_TRUE(removal.ok()) << removal.error().message;
  EXPECT_EQ(removal->model, cached);
  for (const auto& own : {by_path, other}) {
    ASSERT_FALSE(own.ok());
    EXPECT_NE(own.error().message.find("is not in the model cache"), std::string::npos);
  }
}

TEST_F(RemoveModel, NoNameIsNotTheDefaultModel) {
  folder_.write("cache/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF");
  ASSERT_TRUE(plan_removal("smollm2", cache()).ok());
  const auto removal = plan_removal("", cache());
  ASSERT_FALSE(removal.ok());
  EXPECT_NE(removal.error().message.find("the name of the model is empty"), std::string::npos);
}

TEST_F(RemoveModel, OnlyModelsOfTheCacheAreMarkedAsUsed) {
  const fs::path own = folder_.write("own.gguf", "GGUF");
  mark_used(own, cache());
  EXPECT_FALSE(last_used(own).has_value());
}

}  // namespace
}  // namespace kvick::cli
