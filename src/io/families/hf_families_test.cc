#include "io/families/hf_families.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

base::Result<ModelFile> open_with(const json& config,
                                  const char* embedding = "model.embed_tokens.weight") {
  const TestFolder folder;
  folder.write("config.json", with(config, {{"tie_word_embeddings", true}}).dump());
  folder.write("model.safetensors", weights({{embedding, {6, 8}}}));
  return ModelFile::open(folder.path());
}

TEST(HfFamilies, EachTypeHasOneRow) {
  std::set<std::string_view> types;
  for (const HfFamily& family : hf_families()) {
    EXPECT_TRUE(types.insert(family.model_type).second) << family.model_type;
    EXPECT_EQ(find_hf_family(family.model_type)->architecture, family.architecture);
  }
  EXPECT_EQ(find_hf_family("of nobody"), nullptr);
}

TEST(HfFamilies, TheNumberOfLayersHasALimit) {
  const json mamba = {{"model_type", "mamba2"}, {"vocab_size", 6}, {"hidden_size", 8},
                      {"num_heads", 4},         {"head_dim", 4},   {"state_size", 16}};
  for (const json& config : {llama_config(), mamba}) {
    EXPECT_TRUE(open_with(with(config, {{"num_hidden_layers", 2}})).ok());
    const auto file = open_with(with(config, {{"num_hidden_layers", 100001}}));
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find("'num_hidden_layers' is 100001; at most 100000 are"),
              std::string::npos)
        << file.error().message;
  }
}

}  // namespace
}  // namespace kvick::io
