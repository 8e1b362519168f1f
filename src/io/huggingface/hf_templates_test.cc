// Chat templates beside the usual one.

#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

TEST(HfTemplates, OneForToolsMayBeInTheTokenizersConfigOrInAFolder) {
  const TestFolder folder;
  folder.write("config.json", with(llama_config(), {{"tie_word_embeddings", true}}).dump());
  folder.write("model.safetensors", weights({{"model.embed_tokens.weight", {6, 8}}}));
  const json pre = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const json model = {{"vocab", {{"a", 0}, {"b", 1}}}, {"merges", json::array()}};
  folder.write("tokenizer.json", json{{"pre_tokenizer", pre}, {"model", model}}.dump());
  const json usual = {{"name", "default"}, {"template", "usual"}};
  const json tools = {{"name", "tool_use"}, {"template", "with tools"}};
  folder.write("tokenizer_config.json",
               json{{"chat_template", json::array({usual, tools})}}.dump());
  const auto listed = ModelFile::open(folder.path());
  ASSERT_TRUE(listed.ok()) << listed.error().message;
  EXPECT_EQ(*listed->get_string("tokenizer.chat_template"), "usual");
  EXPECT_EQ(*listed->get_string("tokenizer.chat_template.tool_use"), "with tools");

  folder.write("tokenizer_config.json", "{}");
  folder.write("chat_template.jinja", "usual in a file");
  std::filesystem::create_directory(folder.path() + "/additional_chat_templates");
  folder.write("additional_chat_templates/tool_use.jinja", "with tools in a file");
  const auto files = ModelFile::open(folder.path());
  ASSERT_TRUE(files.ok()) << files.error().message;
  EXPECT_EQ(*files->get_string("tokenizer.chat_template"), "usual in a file");
  EXPECT_EQ(*files->get_string("tokenizer.chat_template.tool_use"), "with tools in a file");
}

}  // namespace
}  // namespace kvick::io
