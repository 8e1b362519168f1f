#include "io/file/describe.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/file/test_images.h"

namespace kvick::io {
namespace {

using nlohmann::ordered_json;

GgufImage sample() {
  GgufImage image;
  image.text("general.name", "line\nbreak \xff").key("count", 4, le<uint32_t>(7));
  std::string numbers;
  for (int i = 0; i < 20; ++i) numbers += le<int32_t>(i);
  image.array("twenty", 5, 20, numbers).array("few", 8, 1, gguf_text("\xc3\xa9"));
  image.key("text", 8, gguf_text(std::string(500, 'x')));
  image.tensor("w", {32, 2}, 8, std::string(68, 'q')).tensor("v", {8}, 0, std::string(32, 'v'));
  return image;
}

TEST(Describe, JsonHoldsMetadataTensorsAndTotals) {
  const std::string bytes = sample().build();
  const auto file = ModelFile::parse_gguf(bytes_of(bytes), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const ordered_json json = ordered_json::parse(describe_json(*file).dump());
  EXPECT_EQ(json["file"], "m.gguf");
  EXPECT_EQ(json["container"], "GGUF");
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["file_bytes"], bytes.size());
  EXPECT_EQ(json["parameters"], 72);
  EXPECT_EQ(json["tensor_bytes"], 100);
  EXPECT_EQ(json["metadata"]["count"], 7);
  EXPECT_EQ(json["metadata"]["general.name"], "line\nbreak \xef\xbf\xbd");
  EXPECT_EQ(json["metadata"]["few"], ordered_json::array({"\xc3\xa9"}));
  EXPECT_EQ(json["metadata"]["twenty"]["length"], 20);
  EXPECT_EQ(json["metadata"]["twenty"]["first"].size(), 16u);
  EXPECT_EQ(json["metadata"]["text"], std::string(500, 'x'));
  EXPECT_EQ(json["tensors"][0],
            (ordered_json{{"name", "w"}, {"dtype", "Q8_0"}, {"shape", {2, 32}}, {"bytes", 68}}));
  EXPECT_EQ(json["dtypes"]["F32"],
            (ordered_json{{"tensors", 1}, {"parameters", 8}, {"bytes", 32}}));
  EXPECT_EQ(json["dtypes"].size(), 2u);
}

TEST(Describe, TextHasOneLineForEachKeyAndTensor) {
  const std::string bytes = sample().build();
  const auto file = ModelFile::parse_gguf(bytes_of(bytes), "m.gguf");
  const std::string text = describe_text(*file);
  for (const char* line : {"container   GGUF version 3\n", "parameters  72\n", "metadata (5)\n",
                           "  general.name  \"line\\nbreak \xef\xbf\xbd\"\n",
                           "  twenty        20 elements: [0,1,2,3,4,5] ...\n", "tensors (2)\n",
                           "  w     Q8_0               68  2 x 32\n", "totals\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_NE(text.find("x ...\n"), std::string::npos) << "long texts are cut";
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    EXPECT_LT(end - start, 120u) << text.substr(start, end - start);
  EXPECT_EQ(start, text.size()) << "ends with a newline";
}

TEST(Describe, BadUtf8OfEveryKindIsReplaced) {
  for (const std::string bad :
       {"\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf8", "\xe2\x96", "\xff"}) {
    const std::string bytes = GgufImage().text(bad, bad).build();
    const auto file = ModelFile::parse_gguf(bytes_of(bytes), "m.gguf");
    EXPECT_FALSE(ordered_json::parse(describe_json(*file).dump(), nullptr, false).is_discarded())
        << bad;
    EXPECT_NE(describe_text(*file).find("\xef\xbf\xbd"), std::string::npos);
  }
  const std::string good = "\xc2\xa9 \xe2\x96\x81 \xed\x9f\xbf \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf";
  const std::string bytes = GgufImage().text("k", good).build();
  EXPECT_EQ(describe_json(*ModelFile::parse_gguf(bytes_of(bytes), "m"))["metadata"]["k"], good);
}

}  // namespace
}  // namespace kvick::io
