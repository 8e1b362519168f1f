#include "io/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include "io/file/model_file.h"
#include "io/file/test_images.h"

namespace kvick::io {
namespace {

TEST(GgufWriter, WritesWhatTheReaderReads) {
  GgufMetadata metadata;
  metadata.put("general.architecture", "llama");
  metadata.put("number", 7u);
  metadata.put("fraction", 0.5f);
  metadata.put("flag", true);
  const std::vector<std::string> words = {"a", "", "c"};
  metadata.put("words", std::span<const std::string>(words));
  const std::vector<int32_t> kinds = {1, -2};
  metadata.put("kinds", std::span<const int32_t>(kinds));
  const std::vector<GgufTensor> tensors = {{"a", {3}, 0, 12}, {"b", {2, 4}, 0, 32}};
  std::string file = gguf_header(metadata, tensors);
  for (const GgufTensor& tensor : tensors) {
    file.resize((file.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment);
    file.append(tensor.bytes, tensor.name[0]);
  }
  const auto read = ModelFile::parse_gguf(bytes_of(file), "test.gguf");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read->get_uint("number"), 7u);
  EXPECT_EQ(*read->get_float("fraction"), 0.5);
  EXPECT_TRUE(*read->get_bool("flag", false));
  EXPECT_EQ(*read->get_strings("words"), words);
  EXPECT_EQ(*read->get_ints("kinds"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(read->find("b")->shape, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(static_cast<char>(read->find("b")->data[31]), 'b');
}

}  // namespace
}  // namespace kvick::io
