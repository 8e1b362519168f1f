#include "io/safetensors/safetensors.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

#include "io/file/describe.h"
#include "io/file/test_images.h"
#include "io/safetensors/json.h"

namespace kvick::io {
namespace {

using kernels::DType;

base::Result<ModelFile> parse(const std::string& image) {
  return ModelFile::parse_safetensors(bytes_of(image), "test.safetensors");
}

std::string small_file() {
  return safetensors_image(R"({"__metadata__":{"format":"pt"},)"
                           R"("late":{"dtype":"F16","shape":[4],"data_offsets":[24,32]},)"
                           R"("first":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("scalar":{"dtype":"BF16","shape":[],"data_offsets":[32,34]}})",
                           std::string(24, 'a') + std::string(8, 'b') + std::string(2, 'c'));
}

TEST(Safetensors, NamesTypesShapesAndBytesAreKept) {
  const std::string image = small_file();
  const auto file = parse(image);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->container(), Container::kSafetensors);
  EXPECT_EQ(*file->get_string("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 3u);
  const Tensor* first = file->find("first");
  EXPECT_EQ(first->dtype, DType::kF32);
  EXPECT_EQ(first->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(first->data.size(), 24u);
  EXPECT_EQ(first->data[0], std::byte{'a'});
  EXPECT_EQ(file->find("late")->dtype, DType::kF16);
  EXPECT_EQ(file->find("late")->data[0], std::byte{'b'});
  EXPECT_EQ(file->find("scalar")->dtype, DType::kBF16);
  EXPECT_EQ(file->find("scalar")->elements(), 1u);
  EXPECT_EQ(&file->tensors()[0], first);  // in order of their bytes
}

TEST(Safetensors, EachCorruptionIsOneLineThatNamesFileAndField) {
  const std::string data(16, 'x');
  const auto tensor = [&](const std::string& fields) {
    return safetensors_image(R"({"w":{)" + fields + "}}", data);
  };
  const std::string good = R"("dtype":"F32","shape":[4],"data_offsets":[0,16])";
  ASSERT_TRUE(parse(tensor(good)).ok());
  struct {
    const char* what;
    std::string image;
    const char* expected;
  } const table[] = {
      {"too short", "1234", "4 bytes are too few"},
      {"endless header", le<uint64_t>(-1) + "{}", "a header of 18446744073709551615 bytes"},
      {"header cut", le<uint64_t>(3) + "{}", "a header of 3 bytes does not fit"},
      {"no JSON", safetensors_image("hello", ""), "header: not valid JSON"},
      {"empty header", le<uint64_t>(0), "header: not valid JSON"},
      {"deep JSON", safetensors_image(std::string(5000, '['), ""), "header: not valid JSON"},
      {"a list", safetensors_image("[]", ""), "header: must be a JSON object"},
      {"tensor no object", safetensors_image(R"({"w":3})", ""),
       "tensor 'w': must be a JSON object"},
      {"metadata no object", safetensors_image(R"({"__metadata__":3})", ""), "__metadata__"},
      {"metadata number", safetensors_image(R"({"__metadata__":{"a":3}})", ""),
       "'a' must be a str"},
      {"no dtype", tensor(R"("shape":[4],"data_offsets":[0,16])"),
       "tensor 'w': 'dtype' is missing"},
      {"dtype I64", tensor(R"("dtype":"I64","shape":[2],"data_offsets":[0,16])"),
       "tensor 'w': 'dtype' is 'I64', which kvick does not read"},
      {"dtype F8_E8M0", tensor(R"("dtype":"F8_E8M0","shape":[16],"data_offsets":[0,16])"),
       "tensor 'w': 'dtype' is 'F8_E8M0', which kvick does not read"},
      {"dtype C64", tensor(R"("dtype":"C64","shape":[2],"data_offsets":[0,16])"),
       "tensor 'w': 'dtype' is 'C64', which kvick does not read"},
      {"no shape", tensor(R"("dtype":"F32","data_offsets":[0,16])"), "'shape' is missing"},
      {"shape of texts", tensor(R"("dtype":"F32","shape":["4"],"data_offsets":[0,16])"),
       "'shape' must hold whole numbers above 0"},
      {"negative size", tensor(R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])"), "above 0"},
      {"size 0", tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), "above 0"},
      {"9 dimensions", tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16])"),
       "more than 8 dimensions"},
      {"product overflows",
       tensor(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,16])"),
       "more elements than a file can hold"},
      {"bytes overflow",
       tensor(R"("dtype":"F32","shape":[4611686018427387908],)"
              R"("data_offsets":[0,16])"),
       "more elements than a file can hold"},
      {"no offsets", tensor(R"("dtype":"F32","shape":[4])"), "'data_offsets' is missing"},
      {"one offset", tensor(R"("dtype":"F32","shape":[4],"data_offsets":[16])"),
       "two whole numbers"},
      {"turned offsets", tensor(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"), "not above"},
      {"offset past the end", tensor(R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
       "ends at 20, but the file has only 16 bytes"},
      {"wrong size", tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
       "spans 16 bytes, but the shape and the dtype make 12"},
      {"gap at the head", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,16])"),
       "begins at 8, behind the end of the one before, 0"},
      {"bytes behind", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
       "8 bytes follow the last tensor"},
      {"overlap",
       safetensors_image(R"({"v":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                         R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                         data),
       "tensor 'w': 'data_offsets' begins at 8, before the end"},
      {"not aligned",
       safetensors_image(R"({"v":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},)"
                         R"("w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                         "123456"),
       "tensor 'w' does not begin at a multiple of its elements' 4 bytes"},
      {"same name",
       safetensors_image(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                         data),
       "two tensors are named 'w'"},
  };
  for (const auto& [what, image, expected] : table) {
    const auto file = parse(image);
    ASSERT_FALSE(file.ok()) << what;
    const std::string& message = file.error().message;
    EXPECT_NE(message.find(expected), std::string::npos) << what << ": " << message;
    EXPECT_TRUE(message.starts_with("test.safetensors: ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Safetensors, EveryPrefixOfAFileIsAnErrorAndFlippedBytesNeverCrash) {
  const std::string good = small_file();
  ASSERT_TRUE(parse(good).ok());
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    const std::string image = good.substr(0, bytes);
    EXPECT_FALSE(parse(image).ok()) << bytes;
  }
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::string image = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips)
      image[random() % image.size()] = static_cast<char>(random());
    const auto file = parse(image);
    if (!file.ok()) {
      EXPECT_FALSE(file.error().message.empty());
      continue;
    }
    EXPECT_FALSE(describe_json(*file).dump().empty());
  }
}

TEST(Safetensors, AFileAloneIsForInspectionOnly) {
  const TestFolder folder;
  const std::string path = folder.write("x.safetensors", small_file());
  EXPECT_TRUE(ModelFile::open_for_inspection(path).ok());
  const auto file = ModelFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("give its folder"), std::string::npos);
}

TEST(Json, IntegersBeyond64BitsBecomeFloats) {
  const auto document = JsonDocument::parse(
      R"({"a": 1000000000000000019884624838656, "b": "1000000000000000019884624838656 \" 1",)"
      R"( "c": [1, 2.5000000000000000000001, 12345678901234567, 1.5e3]})",
      "x.json", 1000);
  ASSERT_TRUE(document.ok()) << document.error().message;
  const auto root = JsonObject::from(document->root(), "x.json");
  EXPECT_DOUBLE_EQ(*root->get_float("a"), 1e30);
  EXPECT_EQ(*root->get_string("b"), "1000000000000000019884624838656 \" 1");
  EXPECT_EQ(root->get_uint("a").error().message,
            "x.json: 'a' must be a whole number, not negative");
  EXPECT_EQ((*root->get_array("c")).at(2).get_uint64().value_unsafe(), 12345678901234567u);
  EXPECT_FALSE(JsonDocument::parse("[1.]", "x", 10).ok());
  EXPECT_FALSE(JsonDocument::parse("[1, 2, 3]", "x", 3).ok());
}

TEST(Json, NumbersThatAreNotFiniteAreWrongOnlyWhereANumberIsNeeded) {
  const auto document = JsonDocument::parse(
      R"({"a": [0.0, Infinity], "b": NaN , "c":-Infinity, "d": "NaN, \" Infinity", "e": 2,)"
      R"( "long": 1000000000000000019884624838656})",
      "x.json", 1000);
  ASSERT_TRUE(document.ok()) << document.error().message;
  const auto root = JsonObject::from(document->root(), "x.json");
  EXPECT_EQ(*root->get_uint("e"), 2u);
  EXPECT_EQ(root->get_array("a")->size(), 2u);
  EXPECT_EQ(*root->get_string("d"), "NaN, \" Infinity");
  EXPECT_DOUBLE_EQ(*root->get_float("long"), 1e30);
  EXPECT_EQ(root->get_float("b", 1.0).error().message, "x.json: 'b' is NaN, but must be a number");
  EXPECT_EQ(root->get_uint("c").error().message,
            "x.json: 'c' is -Infinity, but must be a whole number, not negative");
  for (const char* wrong : {"{NaN: 1}", "[NaNs]", "[-NaN]", "[+Infinity]", "[Infinit]"})
    EXPECT_FALSE(JsonDocument::parse(wrong, "x", 100).ok()) << wrong;
}

}  // namespace
}  // namespace kvick::io
