#include <gtest/gtest.h>

#include "io/file/model_file.h"
#include "io/file/split_name.h"
#include "io/file/test_images.h"

namespace kvick::io {
namespace {

TEST(SplitName, IsReadAndWritten) {
  const auto name = parse_split_name("a/m-Q4_K_M-00002-of-00013.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a/m-Q4_K_M");
  EXPECT_EQ(name->part, 2u);
  EXPECT_EQ(name->parts, 13u);
  EXPECT_EQ(name->of(1), "a/m-Q4_K_M-00001-of-00013.gguf");
}

TEST(SplitName, OtherNamesAreNone) {
  for (const char* text :
       {"", "m.gguf", "m-00001-of-00002.bin", "m-0001-of-00002.gguf", "m-00001-of-0000x.gguf",
        "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "-00001-of-00002.gguf"})
    EXPECT_FALSE(parse_split_name(text).has_value()) << text;
}

TEST(SplitName, OnlyTheFirstPartStandsForAll) {
  EXPECT_EQ(split_paths("m-00001-of-00002.gguf"),
            (std::vector<std::string>{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}));
  EXPECT_EQ(split_paths("m-00002-of-00002.gguf").size(), 1u);
  EXPECT_EQ(split_paths("m.gguf"), std::vector<std::string>{"m.gguf"});
}

// Returns part `number` (from 0) of a model with one tensor in each part.
GgufImage part_of(uint16_t number, uint16_t parts, int32_t tensors) {
  GgufImage image;
  if (number == 0) image.text("general.architecture", "llama");
  image.key("split.no", 2, le(number)).key("split.count", 2, le(parts));
  image.key("split.tensors.count", 5, le(tensors));
  const std::string name = "t" + std::to_string(number) + ".weight";
  image.tensor(name, {4}, 0, std::string(16, static_cast<char>('a' + number)));
  return image;
}

class SplitGguf : public testing::Test {
 protected:
  std::string write(int number, const GgufImage& image) {
    return folder_.write("m-0000" + std::to_string(number) + "-of-00003.gguf", image.build());
  }
  // Writes three parts and returns the path of the first.
  std::string write_all(int32_t tensors = 3) {
    for (uint16_t i = 2; i > 0; --i) write(i + 1, part_of(i, 3, tensors));
    return write(1, part_of(0, 3, tensors));
  }
  static std::string message(const std::string& path) {
    const auto file = ModelFile::open(path);
    return file.ok() ? "" : file.error().message;
  }
  TestFolder folder_;
};

TEST_F(SplitGguf, PartsAreOneModel) {
  const auto file = ModelFile::open(write_all());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  ASSERT_EQ(file->tensors().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = file->find("t" + std::to_string(i) + ".weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(static_cast<char>(tensor->data[15]), 'a' + i);
    file->drop_pages(*tensor);  // the pages are read again when accessed
    EXPECT_EQ(static_cast<char>(tensor->data[0]), 'a' + i);
  }
  EXPECT_EQ(file->file_bytes(),
            part_of(0, 3, 3).build().size() + 2 * part_of(1, 3, 3).build().size());
}

TEST_F(SplitGguf, APartThatIsMissingIsNamed) {
  const std::string first = write_all();
  std::filesystem::remove(folder_.path() + "/m-00002-of-00003.gguf");
  const std::string said = message(first);
  EXPECT_NE(said.find("part 2 of 3 is missing: there is no"), std::string::npos) << said;
  EXPECT_NE(said.find("m-00002-of-00003.gguf"), std::string::npos) << said;
}

TEST_F(SplitGguf, AnotherPartPointsToTheFirst) {
  write_all();
  const std::string said = message(folder_.path() + "/m-00002-of-00003.gguf");
  EXPECT_NE(said.find("part 2 of 3 of a split GGUF: give its first part"), std::string::npos)
      << said;
  EXPECT_NE(said.find("m-00001-of-00003.gguf"), std::string::npos) << said;
}

TEST_F(SplitGguf, PartsThatDoNotBelongTogetherAreRefused) {
  const std::string first = write_all();
  write(2, part_of(2, 3, 3));
  EXPECT_NE(message(first).find("where part 2 of 3 is expected"), std::string::npos)
      << message(first);
  write(2, part_of(1, 4, 3));
  EXPECT_NE(message(first).find("part 2 of 4"), std::string::npos) << message(first);
  write(2, GgufImage().tensor("t1.weight", {4}, 0, std::string(16, 'b')));
  EXPECT_NE(message(first).find("split.no"), std::string::npos) << message(first);
  folder_.write("m-00002-of-00003.gguf", "GGUF");
  EXPECT_NE(message(first).find("does not fit into the file"), std::string::npos) << message(first);
}

TEST_F(SplitGguf, TheNumberOfTensorsMustBeRight) {
  EXPECT_NE(message(write_all(4)).find("have 3 tensors and split.tensors.count is 4"),
            std::string::npos);
}

TEST_F(SplitGguf, ATensorMayBeInOnePartOnly) {
  const std::string first = write_all();
  GgufImage twice = part_of(1, 3, 3);
  twice.tensor("t0.weight", {4}, 0, std::string(16, 'x'));
  write(2, twice);
  EXPECT_NE(message(first).find("two tensors are named 't0.weight'"), std::string::npos)
      << message(first);
}

TEST_F(SplitGguf, UnderAnotherNameOtherPartsAreNotFound) {
  const std::string path = folder_.write("other.gguf", part_of(0, 3, 3).build());
  EXPECT_NE(message(path).find("does not end with -00001-of-00003.gguf"), std::string::npos)
      << message(path);
}

}  // namespace
}  // namespace kvick::io
